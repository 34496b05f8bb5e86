"""What people use instead: scripts as they write them, as hook Jobs with the real kubectl, and NVIDIA's own eviction.

``$KUBECTL``, ``$NAMESPACE`` and ``$DAEMONSET`` come from the environment. Every script has the benefit of the doubt:
its Job starts when the deployment tool returns, it sleeps only a second between two looks, and it ignores labels from
before the upgrade where it can distinguish them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

OURS: Final = "gpu-operator-post"
"""Runs through its chart, as everywhere."""

_STATES: Final = (
    '"$KUBECTL" get nodes -l nvidia.com/gpu.present=true -o '
    r"""'jsonpath={range .items[*]}{.metadata.name} """
    r"""{.metadata.labels.nvidia\.com/gpu-driver-upgrade-state}{"\n"}{end}'"""
)
"""Prints a line per node: its name and its upgrade state."""

_RESTART: Final = """\
"$KUBECTL" rollout restart "daemonset/$DAEMONSET" -n "$NAMESPACE"
"$KUBECTL" rollout status "daemonset/$DAEMONSET" -n "$NAMESPACE" --timeout=24h
"""

_BEGUN: Final = f"""\
states() {{ {_STATES}; }}
pending() {{ states | grep -cv ' upgrade-done$'; }}
while [ "$(pending)" = 0 ]; do sleep 1; done
"""
"""Waits until the labels show that the upgrade began. Until then they say that all is done."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One approach to refresh plugins, in addition to this program as it is."""

    name: str
    title: str
    label: str = ""
    """What a picture calls it."""
    script: str = ""
    """Of ``sh``; empty where no script runs."""
    plugin: Mapping[str, Any] = field(default_factory=dict)
    """Values of its plugin's chart."""
    settings: Mapping[str, Any] | None = None
    """Values of our chart, where the approach is this program with other settings."""


ORIGINAL: Final = Peer(
    "shell-job",
    "shell Job: `kubectl wait` for ClusterPolicy ready, `rollout restart`, `rollout status`",
    "script: waits for ClusterPolicy ready",
    '"$KUBECTL" wait --for=jsonpath={.status.state}=ready clusterpolicies.nvidia.com/cluster-policy --timeout=24h\n'
    + _RESTART,
)
LABELS: Final = Peer(
    "labels",
    "label script: waits until every node says `upgrade-done`, then the same",
    "script: waits for all nodes",
    _BEGUN + 'while [ "$(pending)" != 0 ]; do sleep 1; done\n' + _RESTART,
)
PODS: Final = Peer(
    "labels-pods",
    "label script: `kubectl delete` of each plugin as its node says `upgrade-done`",
    "best script: restarts node by node",
    _BEGUN
    + """\
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
EVICTION_LABEL: Final = "nvidia.com/dra-kubelet-plugin"
EVICTION: Final = Peer(
    "eviction-label",
    "NVIDIA's driver manager evicts the plugin before each reload (`NODE_LABEL_FOR_GPU_POD_EVICTION`)",
    "eviction by NVIDIA's driver manager",
    plugin={"kubeletPlugin.nodeSelector": {EVICTION_LABEL: "true"}},
)
EVICTION_ENV: Final = [{"name": "NODE_LABEL_FOR_GPU_POD_EVICTION", "value": EVICTION_LABEL}]
"""What the operator's driver manager is configured with, where the approach is compared."""
NOTHING: Final = Peer("nothing", "nothing is restarted", "no restart")
WITHOUT: Final = Peer(
    "without-workloads",
    "this program with `affectedWorkloads.enabled: false`",
    settings={"affectedWorkloads.enabled": False},
)

PEERS: Final = (EVICTION, PODS, LABELS, ORIGINAL, NOTHING)
"""What is tried by default."""
SCRIPTS: Final = (PODS, LABELS, ORIGINAL)
"""Those that ask the API server."""
TITLES: Final = {OURS: "this program", **{peer.name: peer.title for peer in (WITHOUT, *PEERS)}}
"""What a table calls them, in this order."""
LABELS_OF_BARS: Final = {OURS: OURS, **{peer.name: peer.label for peer in PEERS}}
