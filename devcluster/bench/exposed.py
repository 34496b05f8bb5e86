"""How long users can come to a stale plugin: in four situations, with a controller next to what people use instead.

In each situation all approaches work side by side on one fleet. The controller with `deviceTaints` has a fleet of its
own, because its rules name the DRA driver and the node, and not one of several plugins.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from devcluster.bench.figures import OURS
from devcluster.bench.ledger import over
from devcluster.bench.peers import PEERS
from devcluster.bench.scene import NEW, OLD, Scene
from devcluster.boot.cluster import Cluster

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from devcluster.bench.figures import Found
    from devcluster.bench.peers import Peer

REQUEUE_SECONDS: Final = 7.0
"""After which the upgrade controller looks again, and uncordons a node: 120 in reality. As there, a driver is ready and
a plugin restarted long before."""
AT_ONCE: Final = 3
"""So many nodes are upgraded at once, or have their driver pods deleted, or reboot."""
GRACE_SECONDS: Final = 15.0
"""So long scripts have for their end, before an administrator acts and once every driver is ready: one that waits for
labels that never come has no end."""
PRECOMPILED: Final = ("580", "580.95.05")
"""The branch that a policy names for precompiled drivers, and the version that is loaded then."""
CONTROLLER: Final[dict[str, Any]] = {
    "controller.enabled": True,
    "controller.maxUnavailable": AT_ONCE,
    "job.enabled": False,
}
CONTENDERS: Final[Sequence[tuple[str, Mapping[str, Any], Sequence[Peer]]]] = (
    (OURS, {}, PEERS),
    (f"{OURS}, device taints", {"deviceTaints.enabled": True}, ()),
)
"""Of each fleet: what tables call our controller, its further values, and what works next to it."""
LEASE: Final = ("get", "lease", OURS, "-n", "gpu-operator", "-o=jsonpath={.spec.holderIdentity}")
DRIVERS: Final = ("-n", "gpu-operator", "-l", "app.kubernetes.io/component=nvidia-driver")


@dataclass(frozen=True, slots=True)
class Situation:
    """A cause of reloads."""

    name: str
    version: str
    """What is loaded in the end."""
    release: Callable[[Scene], None] | None = None
    """The release of the operator, after which scripts start."""
    act: Callable[[Scene], None] | None = None
    """What an administrator does then."""


def measure(folder: Path, nodes: int) -> Found:
    """Go through all situations, each on clusters of its own."""
    found: dict[str, dict[str, float]] = {}
    for situation in SITUATIONS:
        for title, values, peers in CONTENDERS:
            with Cluster(folder) as cluster:
                accounts = run(Scene(cluster, nodes, peers, REQUEUE_SECONDS, AT_ONCE), situation, values)
            for approach, figures in accounts.items():
                found.setdefault(title if approach == OURS else approach, {}).update(figures)
    return found


def run(scene: Scene, situation: Situation, values: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Let drivers reload with every approach at work, and return the seconds of each."""
    scene.prepare()
    scene.wait([scene.ours({**CONTROLLER, **values})])
    scene.until(lambda: bool(scene.cluster.kubectl(*LEASE, check=False).stdout), "the controller leads")
    began = time.time()
    scripts: list[subprocess.Popen[str]] = []
    if situation.release is not None:
        situation.release(scene)
        scripts = scene.scripts()
    if situation.act is not None:
        _let_end(scripts)
        situation.act(scene)
    scene.until(lambda: scene.all_new(situation.version), "every driver is ready")
    scene.until(partial(_all_fresh, scene), "the controller has refreshed every plugin")
    _let_end(scripts)
    truth = scene.truth
    until = over(truth, list(scene.plugins.values()), began)
    return {
        title: {
            f"{situation.name}: stale": round(sum(truth.stale_seconds(until, plugin, began).values()), 1),
            f"{situation.name}: exposed": round(sum(truth.exposed_seconds(until, plugin, began).values()), 1),
        }
        for title, plugin in scene.plugins.items()
    }


def _all_fresh(scene: Scene) -> bool:
    """Return whether no plugin of ours is stale, or away to be replaced."""
    spells = scene.truth.stale_intervals(scene.plugins[OURS]).values()
    return all(end is not None for found in spells for _start, end in found)


def _let_end(scripts: Sequence[subprocess.Popen[str]]) -> None:
    """Wait for scripts, of which some never end; the end of the cluster ends those."""
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline and any(script.poll() is None for script in scripts):
        time.sleep(0.5)


def _delete_driver_pods(scene: Scene) -> None:
    """Delete driver pods, as an administrator does who upgrades by hand."""
    image = ("get", "daemonsets", *DRIVERS, "-o=jsonpath={.items[*].spec.template.spec.containers[*].image}")
    scene.until(lambda: f":{NEW[0]}-" in scene.cluster.kubectl(*image).stdout, "the DaemonSet has the new driver")

    def delete(node: str) -> None:
        scene.cluster.kubectl("delete", "pods", *DRIVERS, f"--field-selector=spec.nodeName={node}", "--wait=false")

    _in_groups(scene, delete)


def _reboot(scene: Scene) -> None:
    """Reboot the nodes; their drivers are loaded again."""
    _in_groups(scene, lambda node: scene.cluster.kubectl("annotate", "node", node, f"devcluster/reboot={time.time()}"))


def _in_groups(scene: Scene, act: Callable[[str], object]) -> None:
    """Do something to each node, and wait for the drivers of one group before the next."""
    nodes = [f"gpu-{number}" for number in range(scene.nodes)]
    for first in range(0, len(nodes), AT_ONCE):
        group, began = nodes[first : first + AT_ONCE], time.time()
        for node in group:
            act(node)
        scene.until(partial(_have_drivers, scene, group, began), f"drivers are ready on {', '.join(group)}")


def _have_drivers(scene: Scene, nodes: Sequence[str], since: float) -> bool:
    return {each.node for each in scene.truth.since(since) if each.event == "driver-ready"} >= set(nodes)


SITUATIONS: Final = (
    Situation("auto", NEW[0], lambda scene: scene.operator(*NEW)),
    Situation("by hand", NEW[0], lambda scene: scene.operator(*NEW, auto=False), _delete_driver_pods),
    Situation("precompiled", PRECOMPILED[1], lambda scene: scene.operator(PRECOMPILED[0], precompiled=True)),
    Situation("reboot", OLD[0], act=_reboot),
)
