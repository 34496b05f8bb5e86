"""What people use instead: NVIDIA's own eviction, and scripts as people write them, as hook Jobs with the real kubectl.

``$KUBECTL``, ``$NAMESPACE`` and ``$DAEMONSET`` come from the environment. Every script has the benefit of the doubt:
its Job starts when the deployment tool returns, it sleeps only a second between two looks, and it ignores labels from
before the upgrade where it can distinguish them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Peer:
    """One approach to refresh plugins."""

    name: str
    """Also the namespace of its plugin."""
    title: str
    script: str = ""
    """Of ``sh``; empty where no script runs."""
    plugin: Mapping[str, Any] = field(default_factory=dict)
    """Values of its plugin's chart."""


EVICTION_LABEL: Final = "nvidia.com/dra-kubelet-plugin"
EVICTION_ENV: Final = [{"name": "NODE_LABEL_FOR_GPU_POD_EVICTION", "value": EVICTION_LABEL}]
"""What the operator's driver manager is configured with."""
EVICTION: Final = Peer(
    "eviction-label", "NVIDIA's eviction label", plugin={"kubeletPlugin.nodeSelector": {EVICTION_LABEL: "true"}}
)
LABELS: Final = Peer(
    "labels",
    "best label script",
    r"""
states() {
  "$KUBECTL" get nodes -l nvidia.com/gpu.present=true -o \
    'jsonpath={range .items[*]}{.metadata.name} {.metadata.labels.nvidia\.com/gpu-driver-upgrade-state}{"\n"}{end}'
}
# Until the upgrade begins, the labels say that all is done.
while [ "$(states | grep -cv ' upgrade-done$')" = 0 ]; do sleep 1; done
seen=
while :; do
  left=0
  for line in $(states | tr ' ' '='); do
    node=${line%%=*}
    case " $seen " in
      *" $node:served "*) continue ;;
    esac
    left=1
    case "$line" in
      *=upgrade-done)
        case " $seen " in
          *" $node:begun "*)
            "$KUBECTL" delete pod -n "$NAMESPACE" -l "$SELECTOR" --field-selector "spec.nodeName=$node" --wait=false
            seen="$seen $node:served" ;;
        esac ;;
      *) seen="$seen $node:begun" ;;
    esac
  done
  [ "$left" = 0 ] && exit 0
  sleep 1
done
""",
)
SHELL_JOB: Final = Peer(
    "shell-job",
    "shell Job",
    """
"$KUBECTL" wait --for=jsonpath={.status.state}=ready clusterpolicies.nvidia.com/cluster-policy --timeout=24h
"$KUBECTL" rollout restart "daemonset/$DAEMONSET" -n "$NAMESPACE"
"$KUBECTL" rollout status "daemonset/$DAEMONSET" -n "$NAMESPACE" --timeout=24h
""",
)
PEERS: Final = (EVICTION, LABELS, SHELL_JOB)
