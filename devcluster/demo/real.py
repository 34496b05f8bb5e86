"""``make demo REAL=1``: one driver upgrade seen from pods, with NVIDIA's DRA plugin on a real kubelet and containerd.

Nothing here simulates the plugin: its caches, its errors, its ResourceSlices and the files in containers come from
NVIDIA's programs. The driver, the kernel module and the GPUs are mocks (`devcluster.nvml`).
"""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.table import Table

from devcluster import patience
from devcluster.boot.cluster import Cluster
from devcluster.build import binaries
from devcluster.build.programs import DRA_DRIVER
from devcluster.demo.simulated import HOOK_TIMEOUT, NEW, OLD, DemoError
from devcluster.fleet.slices import semantic
from devcluster.gpunode.images import CHART, lacking, write_images
from devcluster.gpunode.node import DRIVER_ROOT, GPUS, GPUS_ALONE, PLUGIN_NAMESPACE, SOON, GpuNode, label_states
from devcluster.kubelet import node
from devcluster.releases import IMAGE, OPERATOR, PLUGIN, POST

if TYPE_CHECKING:
    from collections.abc import Callable

    from devcluster.demo.view import Show

PATIENCE: Final = 180.0
"""Seconds for what a kubelet, a container runtime and NVIDIA's programs do on a busy machine."""
LIBRARY: Final = "libnvidia-ml.so."
GREETING: Final = "Driver Version: "
UPGRADE_POLICY: Final = {"autoUpgrade": True, "maxParallelUpgrades": 0, "maxUnavailable": "100%"}


def why_not() -> str:
    """Return why there can be no real node on this machine; empty if there can."""
    reason = node.why_not() or lacking()
    return f"REAL=1 needs a real node: {reason}" if reason else ""


def run(folder: Path, show: Show) -> str:
    """Run the whole demo, and return the line for machines."""
    show.say("building or finding the programs: the control plane, containerd, runc and NVIDIA's plugin")
    programs = binaries.ensure([program.name for program in DRA_DRIVER])
    images = write_images(folder / "images", programs, (OLD, NEW))
    with Cluster(folder / "c") as cluster:
        show.say("booting a control plane and a real node with mock GPUs")
        cluster.up(nodes=0, real_node=node.RealNode(images, gpus=True))
        demo = RealDemo(cluster, programs["gpu-kubelet-plugin"].parent / CHART, show)
        demo.prepare()
        demo.upgrade()
        demo.refresh()
        return demo.conclude()


class Seen(NamedTuple):
    """What a pod with a claim came to."""

    when: str
    """When its claim was prepared."""
    running: bool
    libraries: tuple[str, ...]
    """Versions of the driver's library in the container."""
    says: str
    """What `nvidia-smi` says in the container, or why there is none."""


class RealDemo(GpuNode):
    """One upgrade on one node."""

    def __init__(self, cluster: Cluster, chart: Path, show: Show) -> None:
        self.cluster, self._show = cluster, show
        self._plugin = PLUGIN._replace(chart=str(chart))
        self._between = ""
        """What came of the pod whose claim was prepared while the plugin was stale."""

    def prepare(self) -> None:
        """Bring up the old driver, NVIDIA's DRA driver, our chart, and a pod with a claim."""
        self.offer_claims()
        self._show.say(f"helm install: GPU operator with driver {OLD}; NVIDIA's DRA driver chart")
        self._drive(OLD)
        self.cluster.helm(*self._plugin.install({"nvidiaDriverRoot": DRIVER_ROOT, **GPUS_ALONE}))
        self._until(lambda: self.devices(GPUS) != [], "the plugin publishes its devices")
        self._show.say(f"the ResourceSlice names driver {', '.join(self.published())}")
        self._post()
        self._run("before")

    def upgrade(self) -> None:
        """Upgrade the driver without a restart of the plugin, and claim a GPU."""
        self._show.say(f"helm upgrade: GPU operator with driver {NEW}")
        self._drive(NEW)
        self._show.say(f"driver {NEW} is loaded; the ResourceSlice still names {', '.join(self.published())}")
        self.claim("between")
        self._until(lambda: self._outcome("between") != "", "a pod with a new claim runs, or an Event says why not")
        self._between = self._outcome("between")
        self._show.say(f"a pod with a new claim: {self._between}")

    def refresh(self) -> None:
        """Let our chart restart the plugin, and claim a GPU again."""
        before = self.plugin_pod()
        self._show.say("helm upgrade: gpu-operator-post")
        self._post()
        if self.plugin_pod() == before:
            raise DemoError("the stale plugin was not restarted")
        self._until(lambda: self.published() == {semantic(NEW)}, "the plugin publishes the new driver")
        self._show.say(f"the plugin was restarted; the ResourceSlice names {', '.join(self.published())}")
        self._run("after")

    def conclude(self) -> str:
        """Show what each pod has, and return the line for machines."""
        seen = [
            self._see("before", "before the upgrade"),
            self._see("between", "while the plugin was stale"),
            self._see("after", "after the restart"),
        ]
        table = Table(title="What pods with a claim see at the end", title_justify="left")
        for heading in ("claim was prepared", "pod runs", "library of driver", "nvidia-smi in the pod"):
            table.add_column(heading)
        for each in seen:
            table.add_row(each.when, "yes" if each.running else "no", ", ".join(each.libraries) or "none", each.says)
        self._show.console.print(table)
        after = seen[-1]
        if after.libraries != (NEW,) or after.says != f"{GREETING}{NEW}":
            raise DemoError(f"the pod after the restart has {after.libraries or 'no library'}: {after.says}")
        running = sum(each.running for each in seen)
        return f"demo: ok real=1 driver={NEW} restarts={self._restarts()} pods={running}"

    def _restarts(self) -> int:
        """Count the plugin's pods that were deleted, by the audit log."""
        return sum(
            (each["verb"], each["objectRef"]["resource"], each["objectRef"].get("namespace"))
            == ("delete", "pods", PLUGIN_NAMESPACE)
            and each["responseStatus"]["code"] == HTTPStatus.OK
            for each in self.cluster.audit()
        )

    def _see(self, pod: str, when: str) -> Seen:
        running = self.is_running(pod)
        if not running:
            return Seen(when, running, (), self._between)
        names = (Path(each).name for each in self.injected(pod))
        libraries = sorted(each.removeprefix(LIBRARY) for each in names if each.startswith(LIBRARY))
        said = self.inside(pod, "nvidia-smi").splitlines()
        return Seen(when, running, tuple(libraries), said[0] if said else "nothing")

    def _outcome(self, pod: str) -> str:
        """Return that a pod runs, or the cause in the first warning that names one; empty while neither is so."""
        if self.is_running(pod):
            return "it runs"
        causes = (
            message.rpartition("failed to ")[2].strip() for message in self.warnings(pod) if "failed to " in message
        )
        return next((f"failed to {cause}" for cause in causes), "")

    def _run(self, pod: str) -> None:
        self.claim(pod)
        self._until(lambda: self.is_running(pod), "a pod with a claim runs")

    def _drive(self, version: str) -> None:
        """Ask for a driver, and wait until its pod is Ready and the node's upgrade is done."""
        values = {"driver.version": version, "driver.upgradePolicy": UPGRADE_POLICY, **SOON}
        self.cluster.helm(*OPERATOR.install(values))
        self._until(lambda: self.driver_ready(version), f"the pod of driver {version} is Ready")
        self._until(lambda: label_states(self.cluster) == {"upgrade-done"}, "the node's upgrade is done")

    def _post(self) -> None:
        values = {"image.repository": IMAGE, "plugin.namespace": PLUGIN_NAMESPACE, "timeout": HOOK_TIMEOUT}
        self.cluster.helm(*POST.install(values))

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        patience.until(holds, what, PATIENCE)
