"""What people would use instead, as the scripts that they would write; each is run as it is, with the real kubectl.

``$KUBECTL``, ``$NAMESPACE`` and ``$DAEMONSET`` come from the environment. Every script is given the benefit of the
doubt: it is started when the deployer returns, sleeps only a second between two looks, and does not believe news of
before the upgrade where it has a way to tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OURS: Final = "gpu-operator-post"
"""Runs through its chart, as everywhere."""

_STATES: Final = (
    '"$KUBECTL" get nodes -l nvidia.com/gpu.present=true -o '
    r"""'jsonpath={range .items[*]}{.metadata.name} """
    r"""{.metadata.labels.nvidia\.com/gpu-driver-upgrade-state}{"\n"}{end}'"""
)
"""Prints a node and its upgrade state a line."""

_RESTART: Final = """\
"$KUBECTL" rollout restart "daemonset/$DAEMONSET" -n "$NAMESPACE"
"$KUBECTL" rollout status "daemonset/$DAEMONSET" -n "$NAMESPACE" --timeout=24h
"""

_BEGUN: Final = f"""\
states() {{ {_STATES}; }}
pending() {{ states | grep -cv ' upgrade-done$'; }}
while [ "$(pending)" = 0 ]; do sleep 1; done
"""
"""Waits until the labels show that the upgrade began: before, they still say that all is done."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One way to refresh plugins."""

    name: str
    title: str
    script: str
    """Of ``sh``; empty where nothing is run."""


ORIGINAL: Final = Peer(
    "shell-job",
    "shell Job: `kubectl wait` for ClusterPolicy ready, `rollout restart`, `rollout status`",
    '"$KUBECTL" wait --for=jsonpath={.status.state}=ready clusterpolicy/cluster-policy --timeout=24h\n' + _RESTART,
)
LABELS: Final = Peer(
    "labels",
    "label script: waits until every node says `upgrade-done`, then the same",
    _BEGUN + 'while [ "$(pending)" != 0 ]; do sleep 1; done\n' + _RESTART,
)
PODS: Final = Peer(
    "labels-pods",
    "label script: `kubectl delete` of each plugin as its node says `upgrade-done`",
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
NOTHING: Final = Peer("nothing", "nothing is restarted", "")

TITLES: Final = {
    OURS: "this program",
    **{peer.name: peer.title for peer in (ORIGINAL, LABELS, PODS, NOTHING)},
}
"""What a table calls them."""
PEERS: Final = (ORIGINAL, LABELS, PODS, NOTHING)
