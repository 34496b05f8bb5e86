"""One fleet, and many runs side by side: each has a driver client of its own, so that none does another one's work."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from devcluster.settings import client
from tests.e2e import acts
from tests.e2e.acts import Told
from tests.e2e.faults.proxy import Proxy
from tests.e2e.lab import ALL_AT_ONCE, NEW, NEW_CHART, OLD, OLD_CHART, QUICK, Lab
from tests.evidence import keep
from tests.process.program import ended
from tests.promises import promised

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from devcluster.truth import Truth
    from tests.pool import Pool

NAMESPACE: Final = "monitoring"
ENOUGH_SECONDS: Final = 330.0
"""Longer than any run's own timeout; one that hangs fails instead of blocking the others."""
CHARTS: Final = {OLD: OLD_CHART, NEW: NEW_CHART}


@dataclass(frozen=True, slots=True)
class Outcome(Told):
    """The result of a run, and what really happened to its driver client meanwhile."""

    name: str
    began: float
    ended: float
    truth: Truth

    @property
    def plugin(self) -> str:
        """Its name in the journal."""
        return f"{NAMESPACE}/{self.name}"

    def restarts(self) -> list[str]:
        """Name the nodes whose plugin was restarted, once a restart."""
        return sorted(each.node for each in self.truth.restarts(self.plugin, since=self.began))

    def assert_refreshed(self, nodes: list[str]) -> None:
        """Assert the promises: done, nothing stale by then, nothing early, nothing needless, and the story is true."""
        self.assert_phase("Done", "Refreshed")
        assert self.restarts() == nodes, self.said
        with promised():
            assert self.truth.early_restarts(self.plugin, since=self.began) == (), self.said
            assert self.truth.needless_restarts(self.plugin, since=self.began) == (), self.said
            assert self.truth.stale_now(self.plugin) == ()
        happened = (each for each in self.truth.since(self.began) if each.event == "plugin-ready")
        started = [each.t for each in happened if each.concerns(self.plugin)]
        assert len(started) == len(nodes)
        assert max(started) <= self.ended
        assert self.story["restarted"] == len(nodes)

    def assert_untouched(self) -> None:
        """Assert that nothing was restarted."""
        with promised():
            assert self.restarts() == [], self.said


@dataclass(frozen=True, slots=True)
class Hook:
    """A run under faults."""

    name: str
    process: subprocess.Popen[str]
    message: Path
    proxy: Proxy | None
    began: float

    def outcome(self, lab: Lab) -> Outcome:
        """Wait for its end; it writes the termination message then."""
        end = ended(self.process, self.name, ENOUGH_SECONDS)
        written = self.message.stat().st_mtime
        story = json.loads(self.message.read_text() or "{}")
        return Outcome(end.code, story, end.said, self.name, self.began, written, lab.truth)


class Fleet:
    """A cluster whose drivers are upgraded again and again."""

    def __init__(self, lab: Lab, nodes: int) -> None:
        self.lab = lab
        self.nodes = [f"gpu-{number}" for number in range(nodes)]
        self.proxies: list[Proxy] = []

    def up(self, plugins: list[str]) -> None:
        """Bring the drivers up, then driver clients; no DRA plugin."""
        self.lab.operator(**ALL_AT_ONCE)
        self.lab.until(lambda: self.on(OLD), "the drivers are loaded", acts.PATIENCE)
        items = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *map(plugin, plugins)]
        manifests = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        self.lab.cluster.kubectl("apply", "-f", "-", text=manifests)
        count = len(plugins) * len(self.nodes)
        self.lab.until(lambda: self.lab.ready_pods(NAMESPACE) == count, "all driver clients run", acts.PATIENCE)

    def on(self, version: str) -> bool:
        """Tell whether every node runs this driver, Ready, and the upgrade controller is through."""
        return acts.upgraded(self.lab, len(self.nodes), version) and self.lab.label_states() == {"upgrade-done"}

    def upgrade(self, version: str, **values: Any) -> None:  # noqa: ANN401 - chart values
        """Begin to upgrade all drivers at once."""
        self.lab.operator(chart=CHARTS[version], driver=version, **(values or ALL_AT_ONCE))

    def restarted(self, name: str) -> bool:
        """Tell whether a pod of this driver client was ever restarted."""
        return bool(self.lab.truth.restarts(f"{NAMESPACE}/{name}"))

    def proxy(self, name: str) -> Proxy:
        """Put a proxy before a run."""
        self.proxies.append(Proxy(self.lab.cluster.files, name).start())
        return self.proxies[-1]

    def hook(self, name: str, *args: str, proxy: Proxy | None = None, timeout: str = "4m") -> Hook:
        """Start a run for the driver client of its name, and no other."""
        message = self.lab.cluster.state / f"message-{name}-{time.monotonic_ns()}"
        message.touch()
        kubeconfig = proxy.kubeconfig if proxy else self.lab.cluster.kubeconfig
        process = self.lab.start(
            "run", f"--timeout={timeout}", *QUICK, client(NAMESPACE, name),
            f"--termination-log={message}", *args, kubeconfig=kubeconfig,
        )  # fmt: skip
        return Hook(name, process, message, proxy, time.time())


def plugin(name: str) -> dict[str, Any]:
    """Describe a DaemonSet that holds the driver, as the exporter's chart does; so many releases would take long."""
    labels = {"app.kubernetes.io/name": name}
    spec = {
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [{"name": "exporter", "image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.6.0-4.8.3-distroless"}],
    }
    metadata = {"labels": labels, "annotations": {"devcluster/holds": "driver"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": metadata, "spec": spec}},
    }


def together(lab: Lab, hooks: list[Hook]) -> dict[str, Outcome]:
    """Wait for all of them; by name."""
    return {hook.name: hook.outcome(lab) for hook in hooks}


@contextlib.contextmanager
def fleet_of(pool: Pool, nodes: int, plugins: list[str], name: str) -> Iterator[Fleet]:
    """Bring a fleet up for all tests of a module."""
    fleet = Fleet(Lab(pool.take(nodes)), nodes)
    try:
        fleet.up(plugins)
        yield fleet
    finally:
        for proxy in fleet.proxies:
            proxy.stop()
        keep(fleet.lab.cluster, name)
