"""``python -m devcluster.demo``: a driver upgrade, once with our hook and once with the usual script.

Both plugins live on the same nodes and see the same driver reloads. Every figure comes from the
simulator's ground truth; what the hook and the script believe is not asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from devcluster import patience
from devcluster.access import ApiError
from devcluster.boot.cluster import Cluster, ClusterError
from devcluster.boot.layout import CHECKOUT
from devcluster.boot.processes import ProcessError
from devcluster.build.gobuild import BuildError
from devcluster.build.gotoolchain import ToolchainError
from devcluster.client import path
from devcluster.commands import CommandError
from devcluster.demo.timeline import Mark, Panel, draw
from devcluster.demo.view import Show, Side, proof, rows
from devcluster.patience import TooSlowError
from devcluster.truth import Truth

OLD, NEW = "580.105.08", "580.126.20"

OUR_NAMESPACE, THEIR_NAMESPACE = "nvidia-dra-driver-gpu", "restarted-by-script"
DAEMONSET = "dra-driver-nvidia-gpu-kubelet-plugin"
OURS, THEIRS = f"{OUR_NAMESPACE}/{DAEMONSET}", f"{THEIR_NAMESPACE}/{DAEMONSET}"

OPERATOR, PLUGIN, POST = (
    str(CHECKOUT / folder)
    for folder in ("devcluster/charts/gpu-operator", "devcluster/charts/dra-driver", "charts/gpu-operator-post")
)

POST_RELEASE, PLUGIN_RELEASE = "gpu-operator-post", "dra-driver"

IMAGE = "registry.example/gpu-operator-post"
"""Never pulled: by its last part, `devcluster.pods` knows that the program here stands for it."""

SETTINGS = {"driver_unload_seconds": 1.0, "driver_install_seconds": 3.0, "driver_ready_gap_seconds": 2.0}
"""Slow enough to watch, and for the whole to stay under three minutes."""

REQUEUE_SECONDS = 12
"""The upgrade controller uncordons a node when it looks again. As in reality, where that is after two minutes, a driver
is ready long before."""

SERVED_WITHIN_SECONDS = 90
"""The fleet comes up; a quarter of that is usual."""

MODES = {"": (), "compute-domains": (("resources.gpus.enabled", "false"),)}
"""The values of the DRA driver, by mode. Without GPUs it publishes no driver version."""

PICTURE = (
    "Driver upgrade in the simulator: gpu-operator-post and the usual script",
    "simulated seconds since helm upgrade of the operator returned",
)
"""The picture's title and its axis."""

HOOK_TIMEOUT = "4m"
"""Four times what the migration takes here."""


class DemoError(Exception):
    """The demo did not show what it promises."""


FAILURES = (
    *(DemoError, CommandError, ClusterError, ProcessError, TooSlowError, BuildError, ToolchainError, ApiError),
    subprocess.CalledProcessError,
)
"""What ends a demo with one line instead of a traceback."""


@dataclass(slots=True)
class Command:
    """Something that runs next to the fleet: when it began and ended, and how."""

    name: str
    began: float = 0.0
    ended: float = 0.0
    exit_code: int | None = None
    output: str = ""

    @property
    def mark(self) -> Mark:
        """Its end, for the picture."""
        return Mark(self.ended, f"{self.name} ends: exit code {self.exit_code}")


class Demo:
    """One run on one cluster."""

    operator_flags: tuple[str, ...] = ()
    """Further flags of Helm for the simulated operator."""
    post_flags: tuple[str, ...] = ()
    """Further flags of Helm for our chart."""

    def __init__(self, cluster: Cluster, nodes: int, show: Show, image: str = IMAGE, mode: str = "") -> None:
        self.cluster = cluster
        self.mode = mode
        self.image = image
        self.nodes = nodes
        self.show = show
        self.hook = Command("hook")
        self.script = Command("script")
        self.migrated_at = 0.0

    @property
    def truth(self) -> Truth:
        """The journal so far."""
        return Truth.read(self.cluster.state)

    def prepare(self) -> None:
        """Bring up the fleet on the old driver, with two plugins a node, and our chart."""
        self.boot()
        self._set_settings()
        self.show.say(f"helm install: GPU operator with driver {OLD}, DRA plugin (twice)")
        self._upgrade_operator(OLD)
        domains = MODES[self.mode]
        self._helm(PLUGIN_RELEASE, PLUGIN, OUR_NAMESPACE, *domains)
        self._helm(PLUGIN_RELEASE, PLUGIN, THEIR_NAMESPACE, ("driverName", "restarted-by-script.example.com"), *domains)
        self._await_fleet()
        self.show.say("helm install: gpu-operator-post (nothing is stale: its hook has nothing to do)")
        self._finish(self.hook, self._post())
        if self.hook.exit_code != 0:
            raise DemoError(f"the first install failed: {self.hook.output}")

    def boot(self) -> None:
        """Bring up the cluster and its simulated nodes."""
        self.show.say(f"booting a control plane with {self.nodes} GPU nodes")
        self.cluster.up(nodes=self.nodes, fleet=True)

    def migrate(self) -> None:
        """Upgrade the operator, and let the hook and the script run side by side."""
        self.show.say(f"helm upgrade: GPU operator with driver {NEW}, two nodes at a time")
        self._upgrade_operator(NEW)
        self.migrated_at = time.time()
        self.show.say("helm has returned, no driver was reloaded yet: starting the script, and helm upgrade of ours")
        script = threading.Thread(target=self._run_script, daemon=True)
        script.start()
        post = threading.Thread(target=lambda: self._finish(self.hook, self._post()), daemon=True)
        post.start()
        while script.is_alive() or post.is_alive():
            self._look()
            time.sleep(0.25)
        self._look()

    def conclude(self) -> str:
        """Compare, draw, and return the line for machines."""
        now = time.time()
        self.show.settle()
        ours, theirs = self._side(self.hook, OURS, now), self._side(self.script, THEIRS, now)
        self.show.console.print(proof([ours, theirs]))
        Path("demo-timeline.svg").write_text(self._picture(now), encoding="utf-8")
        self.show.say("the picture: demo-timeline.svg")
        self._check(ours)
        return (
            f"demo: ok nodes={self.nodes} stale_after={len(ours.stale_after)} early_restarts={ours.early} "
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
            f"{ours.restarts} restarts on {self.nodes} nodes": ours.restarts != self.nodes,
            "not every node has the new driver": set(self.truth.loaded_now().values()) != {NEW},
        }
        reasons = [text for text, holds in wrong.items() if holds]
        if reasons:
            raise DemoError("; ".join(reasons))

    def _side(self, command: Command, daemonset: str, now: float) -> Side:
        truth, since = self.truth, self.migrated_at
        return Side(
            name="gpu-operator-post" if command is self.hook else "the usual script",
            exit_code=-1 if command.exit_code is None else command.exit_code,
            seconds=command.ended - command.began,
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
            Panel(title, [truth.lane(node, daemonset) for node in truth.nodes], [command.mark])
            for title, daemonset, command in (
                ("gpu-operator-post: restarts each node's plugin when the node's driver is ready", OURS, self.hook),
                ("the usual script: kubectl wait, rollout restart, rollout status", THEIRS, self.script),
            )
        ]
        return draw(panels, self.migrated_at, now + 1, *PICTURE)

    def _look(self) -> None:
        self.show.update(rows(self.truth, OURS, THEIRS, NEW))

    def _run_script(self) -> None:
        """Run what people run, as soon as Helm returns, with the real kubectl."""
        self.script.began = time.time()
        daemonset = ("daemonset", DAEMONSET, "-n", THEIR_NAMESPACE, "--timeout=10m")
        steps = (
            ("wait", "--for=jsonpath={.status.state}=ready", "clusterpolicy/cluster-policy", "--timeout=10m"),
            ("rollout", "restart", *daemonset[:-1]),
            ("rollout", "status", *daemonset),
        )
        for step in steps:
            result = self.cluster.kubectl(*step, check=False)
            self.script.exit_code = result.returncode
            self.script.output += result.stdout + result.stderr
            if result.returncode != 0:
                break
        self.script.ended = time.time()
        self.show.say(f"the script has ended with {self.script.exit_code}")

    def _finish(self, command: Command, arguments: list[str]) -> None:
        """Run Helm to its end."""
        command.began = time.time()
        process = self.cluster.start_helm(*arguments)
        command.output, _ = process.communicate()
        command.ended = time.time()
        command.exit_code = process.returncode
        self.show.say(f"helm upgrade of gpu-operator-post has ended with {command.exit_code}")

    def _post(self) -> list[str]:
        """Spell the installation of our chart; the namespace keeps it off the script's plugin."""
        folder, slash, name = self.image.rpartition("/")
        name, _, tag = name.partition(":")
        sets = [f"--set=image.repository={folder}{slash}{name}", f"--set=plugin.namespace={OUR_NAMESPACE}"]
        sets += [f"--set-string=image.tag={tag}"] if tag else []
        sets.append(f"--set=timeout={HOOK_TIMEOUT}")
        release = [POST_RELEASE, POST, "-n", "gpu-operator"]
        return ["upgrade", "--install", *release, "--reset-values", "--timeout", HOOK_TIMEOUT, *sets, *self.post_flags]

    def _upgrade_operator(self, version: str) -> None:
        self._helm(
            "gpu-operator",
            OPERATOR,
            "gpu-operator",
            ("driver.version", version),
            ("driver.upgradePolicy.maxParallelUpgrades", "2"),
            ("simulate.requeueSeconds", str(REQUEUE_SECONDS)),
            flags=self.operator_flags,
        )

    def _helm(
        self, release: str, chart: str, namespace: str, *values: tuple[str, str], flags: tuple[str, ...] = ()
    ) -> None:
        sets = [*(f"--set={key}={value}" for key, value in values), *flags]
        place = ["-n", namespace, "--create-namespace"]
        self.cluster.helm("upgrade", "--install", release, chart, *place, "--reset-values", *sets)

    def _set_settings(self) -> None:
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fleet"}}
        body = config_map | {"data": {"settings": json.dumps(SETTINGS)}}
        url_path = path("v1", "configmaps", namespace="devcluster", name="fleet")
        self.cluster.run(lambda api: api.apply(url_path, body, "demo"))

    def _await_fleet(self) -> None:
        """Wait until both plugins are up on every node."""

        def all_ready() -> bool:
            return sum(each.event == "plugin-ready" for each in self.truth.entries) >= 2 * self.nodes

        patience.until(all_ready, "both plugins are up on every node", SERVED_WITHIN_SECONDS)


def run(demo: Demo) -> str:
    """Run the whole story, take the cluster down, and return the line for machines."""
    try:
        with demo.cluster:
            demo.prepare()
            demo.migrate()
            return demo.conclude()
    except FAILURES as error:
        return f"demo: failed {error}"


def finish(verdict: str) -> NoReturn:
    """Print the line for machines and end with its result."""
    print(verdict.replace("\n", " "))  # noqa: T201 - this line is the command's result
    sys.exit(0 if verdict.startswith("demo: ok") else 1)
