"""One upgrade of one fleet, node by node, with this program as the Job of a release next to what people use instead."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from devcluster.bench.figures import OURS
from devcluster.bench.ledger import account, over
from devcluster.bench.peers import PEERS
from devcluster.bench.scene import NEW, Scene

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.bench.figures import Found
    from devcluster.boot.cluster import Cluster

REQUEUE_SECONDS: Final = 0.5
"""After which the upgrade controller looks again; 120 in reality."""
SHORTEST_SECONDS: Final = 20.0
"""An upgrade of a few nodes must not be over before the Job of a script has started."""


def measure(cluster: Cluster, nodes: int, _folder: Path) -> Found:
    """Upgrade a fleet node by node, let every approach work, and draw up the accounts."""
    scene = Scene(cluster, nodes, PEERS, max(REQUEUE_SECONDS, SHORTEST_SECONDS / nodes), parallel=1)
    scene.prepare()
    job = {"timeout": f"{scene.minutes}m"}
    scene.wait({OURS: scene.ours(job)})
    scene.operator(*NEW)
    began = time.time()
    scene.wait({OURS: scene.ours(job), **{peer.title: scene.script(peer) for peer in PEERS if peer.script}})
    scene.until(lambda: scene.all_new(NEW[0]), "every driver is new")
    truth = scene.truth
    until = over(truth, list(scene.plugins.values()), began)
    return {title: account(truth, plugin, began, until) for title, plugin in scene.plugins.items()}
