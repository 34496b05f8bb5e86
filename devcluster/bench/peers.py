"""What people use instead: NVIDIA's own eviction, and scripts as people write them, with the real kubectl.

``$NAMESPACE``, ``$DAEMONSET`` and ``$SELECTOR`` come from the environment. Every script has the benefit of the doubt:
it starts when the deployment tool returns and waits for no pod, sleeps only a second between two looks, and ignores
labels from before the upgrade where it can distinguish them.
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
  kubectl get nodes -l nvidia.com/gpu.present=true -o \
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
            kubectl delete pod -n "$NAMESPACE" -l "$SELECTOR" --field-selector "spec.nodeName=$node" --wait=false
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
kubectl wait --for=jsonpath={.status.state}=ready clusterpolicies.nvidia.com/cluster-policy --timeout=24h
kubectl rollout restart "daemonset/$DAEMONSET" -n "$NAMESPACE"
kubectl rollout status "daemonset/$DAEMONSET" -n "$NAMESPACE" --timeout=24h
""",
)
PEERS: Final = (EVICTION, LABELS, SHELL_JOB)
