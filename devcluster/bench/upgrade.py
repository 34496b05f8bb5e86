"""One upgrade of one fleet, node by node, with this program as the Job of a release next to what people use instead."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from devcluster.bench.ledger import account, over
from devcluster.bench.peers import PEERS
from devcluster.bench.scene import NEW, Scene
from devcluster.boot.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.bench.figures import Found

REQUEUE_SECONDS: Final = 0.5
"""After which the upgrade controller looks again; 120 in reality."""


def measure(folder: Path, nodes: int) -> Found:
    """Upgrade a fleet node by node, let every approach work, and draw up the accounts."""
    with Cluster(folder) as cluster:
        scene = Scene(cluster, nodes, PEERS, REQUEUE_SECONDS, parallel=1)
        scene.prepare()
        job = {"timeout": f"{scene.minutes}m"}
        scene.wait([scene.ours(job)])
        scene.operator(*NEW)
        began = time.time()
        scene.wait([scene.ours(job), *scene.scripts()])
        scene.until(lambda: scene.all_new(NEW[0]), "every driver is new")
        truth = scene.truth
    until = over(truth, list(scene.plugins.values()), began)
    return {title: account(truth, plugin, began, until) for title, plugin in scene.plugins.items()}
