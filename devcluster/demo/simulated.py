"""A driver upgrade, once with our hook and once with the usual script.

Both plugins live on the same nodes and see the same driver reloads. Every figure comes from the
simulator's ground truth; what the hook and the script believe is not asked.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from devcluster import patience
from devcluster.access import ApiError
from devcluster.boot.cluster import FAILURES as CLUSTER_FAILURES
from devcluster.commands import CommandError
from devcluster.demo.timeline import Panel, draw
from devcluster.demo.view import Show, Side, proof, rows
from devcluster.fleet.settings import KEY, URL
from devcluster.releases import DAEMONSET, IMAGE, OPERATOR, PLUGIN, POST
from devcluster.truth import Truth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devcluster.boot.cluster import Cluster

OLD, NEW = "580.105.08", "580.126.20"

THEIR_PLUGIN: Final = PLUGIN._replace(namespace="restarted-by-script")
OURS, THEIRS = (f"{plugin.namespace}/{DAEMONSET}" for plugin in (PLUGIN, THEIR_PLUGIN))

SETTINGS = {"driver_unload_seconds": 1.0, "driver_install_seconds": 3.0, "driver_ready_gap_seconds": 2.0}
"""Slow enough to watch, and for the whole to stay under three minutes."""

REQUEUE_SECONDS = 12
"""The upgrade controller uncordons a node when it looks again. As in reality, where that is after two minutes, a driver
is ready long before."""

SERVED_WITHIN_SECONDS = 90
"""The fleet comes up; a quarter of that is usual."""

MODES: Final[dict[str, dict[str, Any]]] = {"": {}, "compute-domains": {"resources.gpus.enabled": False}}
"""The values of the DRA driver, by mode. Without GPUs it publishes no driver version."""

PICTURE = (
    "Driver upgrade in the simulator: gpu-operator-post and the usual script",
    "simulated seconds since helm upgrade of the operator returned",
)
"""The picture's title and its axis."""

HOOK_TIMEOUT = "4m"
"""Four times what the migration takes here."""


class DemoError(Exception):
    """The demo cannot begin, or did not show what it promises."""


FAILURES = (DemoError, CommandError, ApiError, subprocess.CalledProcessError, *CLUSTER_FAILURES)
"""What ends a demo with one line instead of a traceback."""


@dataclass(slots=True)
class Approach:
    """An approach to the same upgrade: whose plugin it restarts how, and how its command went."""

    command: str
    title: str
    how: str
    daemonset: str
    began: float = 0.0
    ended: float = 0.0
    exit_code: int = -1
    output: str = ""


class Demo:
    """One run on one cluster, whose nodes are there."""

    def __init__(  # noqa: PLR0913 - what the cluster of another owner needs in addition
        self,
        cluster: Cluster,
        show: Show,
        nodes: int,
        mode: str,
        *,
        operator: Mapping[str, Any] | None = None,
        post: Mapping[str, Any] | None = None,
    ) -> None:
        self.cluster, self._show, self._nodes, self._mode = cluster, show, nodes, mode
        self._operator_values = operator or {}
        self._post_values = post or {}
        self._hook = Approach(
            "hook", "gpu-operator-post", "restarts each node's plugin when the node's driver is ready", OURS
        )
        self._script = Approach("script", "the usual script", "kubectl wait, rollout restart, rollout status", THEIRS)
        self._migrated_at = 0.0

    @property
    def truth(self) -> Truth:
        """The journal so far."""
        return Truth.read(self.cluster.state)

    def run(self) -> str:
        """Run the whole demo, and return the line for machines."""
        self._prepare()
        self._migrate()
        return self._conclude()

    def _prepare(self) -> None:
        """Bring up the fleet on the old driver, with two plugins a node, and our chart."""
        self.cluster.patch(URL, {"data": {KEY: json.dumps(SETTINGS)}})
        self._show.say(f"helm install: GPU operator with driver {OLD}, DRA plugin (twice)")
        self._operator(OLD)
        domains = MODES[self._mode]
        self.cluster.helm(*PLUGIN.install(domains))
        self.cluster.helm(*THEIR_PLUGIN.install({"driverName": "restarted-by-script.example.com", **domains}))
        patience.until(self._all_ready, "both plugins are up on every node", SERVED_WITHIN_SECONDS)
        self._show.say("helm install: gpu-operator-post (nothing is stale: its hook has nothing to do)")
        self._post()
        if self._hook.exit_code != 0:
            raise DemoError(f"the first install failed: {self._hook.output}")

    def _all_ready(self) -> bool:
        return sum(each.event == "plugin-ready" for each in self.truth.entries) >= 2 * self._nodes

    def _migrate(self) -> None:
        """Upgrade the operator, and let the hook and the script run side by side."""
        self._show.say(f"helm upgrade: GPU operator with driver {NEW}, two nodes at a time")
        self._operator(NEW)
        self._migrated_at = time.time()
        self._show.say("helm has returned, no driver was reloaded yet: starting the script, and helm upgrade of ours")
        running = [threading.Thread(target=each, daemon=True) for each in (self._restart_by_script, self._post)]
        for each in running:
            each.start()
        while any(each.is_alive() for each in running):
            self._look()
            time.sleep(0.25)
        self._look()

    def _look(self) -> None:
        self._show.update(rows(self.truth, OURS, THEIRS, NEW))

    def _operator(self, version: str) -> None:
        """Install or upgrade the operator; Helm returns long before a driver is reloaded."""
        values = {
            "driver.version": version,
            "driver.upgradePolicy.maxParallelUpgrades": 2,
            "simulate.requeueSeconds": REQUEUE_SECONDS,
        }
        self.cluster.helm(*OPERATOR.install({**values, **self._operator_values}))

    def _post(self) -> None:
        """Install or upgrade our chart, and wait for its hook; the namespace keeps it off the script's plugin."""
        values = {"image.repository": IMAGE, "plugin.namespace": PLUGIN.namespace, "timeout": HOOK_TIMEOUT}
        self._hook.began = time.time()
        process = self.cluster.start_helm(*POST.install({**values, **self._post_values}, "--timeout", HOOK_TIMEOUT))
        self._hook.output, _ = process.communicate()
        self._hook.ended = time.time()
        self._hook.exit_code = process.returncode
        self._show.say(f"helm upgrade of gpu-operator-post has ended with {self._hook.exit_code}")

    def _restart_by_script(self) -> None:
        """Run what people run, as soon as Helm returns, with the real kubectl."""
        self._script.began = time.time()
        daemonset = ("daemonset", DAEMONSET, "-n", THEIR_PLUGIN.namespace)
        for step in (
            ("wait", "--for=jsonpath={.status.state}=ready", "clusterpolicy/cluster-policy", "--timeout=10m"),
            ("rollout", "restart", *daemonset),
            ("rollout", "status", *daemonset, "--timeout=10m"),
        ):
            self._script.exit_code = self.cluster.kubectl(*step, check=False).returncode
            if self._script.exit_code != 0:
                break
        self._script.ended = time.time()
        self._show.say(f"the script has ended with {self._script.exit_code}")

    def _conclude(self) -> str:
        """Compare, draw, and return the line for machines."""
        now = time.time()
        self._show.settle()
        ours, theirs = self._side(self._hook, now), self._side(self._script, now)
        self._show.console.print(proof([ours, theirs]))
        Path("demo-timeline.svg").write_text(self._picture(now), encoding="utf-8")
        self._show.say("the picture: demo-timeline.svg")
        self._check(ours)
        return (
            f"demo: ok nodes={self._nodes} stale_after={len(ours.stale_after)} early_restarts={ours.early} "
            f"needless_restarts={ours.needless} restarts={ours.restarts} shell_stale_after={len(theirs.stale_after)} "
            f"exposed_seconds={ours.exposed:.0f} shell_exposed_seconds={theirs.exposed:.0f}"
        )

    def _check(self, ours: Side) -> None:
        """Refuse to call this a success where a promise is broken."""
        wrong = {
            f"the hook ended with {ours.exit_code}": ours.exit_code != 0,
            f"stale plugins on {', '.join(ours.stale_after)}": bool(ours.stale_after),
            f"{ours.early} early restarts": ours.early > 0,
            f"{ours.needless} needless restarts": ours.needless > 0,
            f"{ours.restarts} restarts on {self._nodes} nodes": ours.restarts != self._nodes,
            "not every node has the new driver": set(self.truth.loaded_now().values()) != {NEW},
        }
        reasons = [text for text, holds in wrong.items() if holds]
        if reasons:
            raise DemoError("; ".join(reasons))

    def _side(self, approach: Approach, now: float) -> Side:
        truth, since, daemonset = self.truth, self._migrated_at, approach.daemonset
        return Side(
            name=approach.title,
            exit_code=approach.exit_code,
            seconds=approach.ended - approach.began,
            restarts=len(truth.restarts(daemonset, since)),
            early=len(truth.early_restarts(daemonset, since)),
            needless=len(truth.needless_restarts(daemonset, since)),
            stale_after=truth.stale_now(daemonset),
            stale_seconds=truth.stale_seconds(now, daemonset),
            exposed_seconds=truth.exposed_seconds(now, daemonset),
        )

    def _picture(self, now: float) -> str:
        truth = self.truth
        panels = [
            Panel(
                f"{each.title}: {each.how}",
                [truth.lane(node, each.daemonset) for node in truth.nodes],
                each.ended,
                f"{each.command} ends: exit code {each.exit_code}",
            )
            for each in (self._hook, self._script)
        ]
        return draw(panels, self._migrated_at, now + 1, *PICTURE)
