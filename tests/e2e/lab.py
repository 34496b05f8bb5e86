"""A laboratory: one embedded cluster with a simulated fleet, and what a platform team does to it.

Assertions are about the simulator's ground truth, the API server's audit log and the deployment tool's exit code, never
about what the program believes.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

from devcluster import patience
from devcluster.boot.cluster import Cluster
from devcluster.fleet.faults import OUTAGE
from devcluster.fleet.settings import KEY, URL
from devcluster.gpunode.node import label_states
from devcluster.releases import Release
from devcluster.truth import Truth
from tests.process.program import CTL, Ended, Logged, as_pod, start
from tests.promises import promised

CHART: Final = "charts/gpu-operator-post"
IMAGE: Final = "registry.example/gpu-operator-post"
"""By its last part, `devcluster.pods` knows what stands for it. A chart from the sources names no image by itself."""
OPERATOR: Final = "devcluster/charts/gpu-operator"
PLUGIN: Final = "devcluster/charts/dra-driver"
EXPORTER: Final = "devcluster/charts/exporter"
NAMESPACE: Final = "gpu-operator"
PLUGIN_NAMESPACE: Final = "nvidia-dra-driver-gpu"
PLUGIN_NAME: Final = "dra-driver-nvidia-gpu-kubelet-plugin"
OLD: Final = "580.105.08"
NEW: Final = "580.126.20"
OLD_CHART: Final = "v26.3.3"
NEW_CHART: Final = "v26.3.4"
RELEASE: Final = "gpu-operator-post"
ALL_AT_ONCE: Final[dict[str, Any]] = {
    "driver__upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 0, "maxUnavailable": "100%"}
}
QUICK: Final = ("advanced.operatorQuiet=3s", "advanced.unknownOperatorQuiet=5s", "advanced.policyGrace=15s")
"""Simulated operators act within seconds; one scenario keeps the real times."""

UNCHECKED: Final = "--disable-openapi-validation"
"""The API server validates each object: to do so in the client as well takes two fifths of Helm's time."""

_SHELLS: Final = count()


@dataclass(frozen=True, slots=True)
class Deployed:
    """The result of a deployment tool's command."""

    code: int
    output: str


Boot = Callable[..., "Lab"]
"""Makes a laboratory: `boot(nodes, helm=4)`."""


class Lab:
    """A cluster and short names for what is done to it."""

    def __init__(self, cluster: Cluster, helm: int = 4) -> None:
        self.cluster, self.helm = cluster, helm
        self.home = NAMESPACE
        """The namespace of our release."""
        self.began = time.time()

    # What the platform team does.

    def operator(self, *, chart: str = OLD_CHART, driver: str = OLD, **values: Any) -> None:  # noqa: ANN401 - chart values
        """Install or upgrade the simulated operator; returns at once, long before drivers reload."""
        chosen = {"chartVersion": chart, "driver__version": driver, **values}
        self.helm_install("gpu-operator", OPERATOR, NAMESPACE, chosen)

    def plugin(self, **values: object) -> None:
        """Install the DRA driver."""
        self.helm_install("dra-driver", PLUGIN, PLUGIN_NAMESPACE, dict(values))

    def remove_plugin(self) -> None:
        """Uninstall the DRA driver, and wait until its pods are gone: they outlive it by a moment."""
        self.cluster.helm("uninstall", "dra-driver", "-n", PLUGIN_NAMESPACE)
        pods = f"/api/v1/namespaces/{PLUGIN_NAMESPACE}/pods"
        self.until(lambda: not self.cluster.list(pods), "the plugin's pods are gone")

    def exporter(self, release: str = "exporter", **values: object) -> None:
        """Install something else that holds the driver, into the namespace monitoring."""
        self.helm_install(release, EXPORTER, "monitoring", dict(values))

    def deploy(self, **how: Any) -> Deployed:  # noqa: ANN401 - as `post` has it
        """Install or upgrade our chart; assert that it succeeds."""
        return self.succeeded(self.start_post(**how))

    def post(self, *, args: tuple[str, ...] = QUICK, helm: tuple[str, ...] = (), **values: object) -> Deployed:
        """Install or upgrade our chart and wait for its hook, as a deployment tool does."""
        return self.deployed(self.start_post(args=args, helm=helm, release=RELEASE, **values))

    def start_post(
        self, *, args: tuple[str, ...] = QUICK, helm: tuple[str, ...] = (), release: str = RELEASE, **values: object
    ) -> subprocess.Popen[str]:
        """Start the same without waiting; `args` are settings as words, `helm` goes to Helm, values to the chart."""
        chosen: dict[str, object] = {
            "image__repository": IMAGE, "timeout": "3m", **dict(word.split("=") for word in args), **values
        }  # fmt: skip
        command = Release(release, CHART, NAMESPACE).install(chosen, "--timeout=4m", UNCHECKED, *helm)
        return self.cluster.start_helm(*command, version=self.helm)

    def deployed(self, process: subprocess.Popen[str]) -> Deployed:
        """Wait for a deployment tool that was started."""
        output, _ = process.communicate(timeout=300)
        return Deployed(process.returncode, output)

    def succeeded(self, process: subprocess.Popen[str]) -> Deployed:
        """Do the same, and assert that it succeeds."""
        done = self.deployed(process)
        assert done.code == 0, done.output
        return done

    def run(self, *args: str, kubeconfig: Path | None = None) -> Ended:
        """Run the program from a shell, with what a kubeconfig allows."""
        return self.start(*args, kubeconfig=kubeconfig).ended()

    def ctl(self, *args: str) -> Ended:
        """Run the program for people."""
        log = self.cluster.files.log(f"shell-{next(_SHELLS)}")
        return start(log, *args, f"--kubeconfig={self.cluster.kubeconfig}", program=CTL).ended()

    def start(self, *args: str, kubeconfig: Path | None = None) -> Logged:
        """Start the same without waiting."""
        log = self.cluster.files.log(f"shell-{next(_SHELLS)}")
        started = start(log, *args, *as_pod(kubeconfig or self.cluster.kubeconfig))
        self.cluster.adopt(started.process)
        return started

    def fleet(self, *, nodes: int, **values: Any) -> None:  # noqa: ANN401 - chart values
        """Bring a fleet up on the old driver, with a fresh plugin on every node."""
        self.operator(**values)
        self.plugin()
        self.until(lambda: self.serving() == nodes, f"{nodes} plugins run on a ready driver", 90)
        self.began = time.time()

    def stale_fleet(self, *, nodes: int, **values: Any) -> None:  # noqa: ANN401 - chart values
        """Bring a fleet up and upgrade its drivers without us: every plugin is stale."""
        self.fleet(nodes=nodes, **ALL_AT_ONCE, **values)
        self.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE, **values)
        self.until(lambda: self.settled(nodes), "all nodes run the new driver, and their labels are quiet", 90)
        self.began = time.time()
        assert len(self.truth.stale_now()) == nodes

    def annotate(self, node: str, key: str, value: str | None) -> None:
        """Inject a fault or an action (`devcluster/<key>`) into a node."""
        self.cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {f"devcluster/{key}": value}}})

    def outage(self, node: str, value: bool) -> None:
        """Begin or end an outage of a node."""
        labels = {OUTAGE: "true" if value else None}
        self.cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})

    def settings(self, **settings: float) -> None:
        """Set the durations of the simulation, in seconds."""
        self.cluster.patch(URL, {"data": {KEY: json.dumps(settings)}})

    # What is true.

    @property
    def truth(self) -> Truth:
        """The simulator's journal."""
        return Truth.read(self.cluster.state)

    def serving(self) -> int:
        """Count the nodes with a ready driver and a plugin that reports ready."""
        daemonset = self.cluster.get(f"/apis/apps/v1/namespaces/{PLUGIN_NAMESPACE}/daemonsets/{PLUGIN_NAME}")
        ready = sum(standing.driver_ready for standing in self.truth.standings().values())
        return min(ready, int(daemonset.get("status", {}).get("numberReady", 0)))

    def serving_on(self) -> set[str]:
        """Name the nodes with a plugin that runs on the driver that is loaded, in truth."""
        return {
            name
            for name, standing in self.truth.standings().items()
            if standing.driver_ready and standing.plugin_version == standing.version and not standing.stale
        }

    def ready_pods(self, namespace: str) -> int:
        """Count the pods of a namespace that say that they are ready."""
        pods = self.cluster.list(f"/api/v1/namespaces/{namespace}/pods")
        conditions = (each for pod in pods for each in pod["status"].get("conditions", []))
        return sum((each["type"], each["status"]) == ("Ready", "True") for each in conditions)

    def rolled_out(self) -> bool:
        """Whether every pod of the plugin is of its newest template."""
        daemonset = self.cluster.get(f"/apis/apps/v1/namespaces/{PLUGIN_NAMESPACE}/daemonsets/{PLUGIN_NAME}")
        status = daemonset.get("status", {})
        observed = status.get("observedGeneration") == daemonset["metadata"]["generation"]
        return bool(observed and status.get("updatedNumberScheduled", 0) == status.get("numberReady") > 0)

    def rendered(self, version: str) -> bool:
        """Whether every driver DaemonSet asks for a version."""
        daemonsets = self.cluster.list(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets")
        containers = (each["spec"]["template"]["spec"]["containers"][0] for each in daemonsets)
        images = [str(each["image"]) for each in containers if each["name"] == "nvidia-driver-ctr"]
        return bool(images) and all(f":{version}-" in image for image in images)

    def restarts(self) -> list[str]:
        """List the nodes whose plugin was deleted since the scenario began."""
        return sorted(each.node for each in self.truth.restarts(since=self.began))

    def writes(self, account: str = RELEASE) -> list[str]:
        """List the writes of the hook's ServiceAccount, or another: ``verb resource``, without Events and status."""
        return [
            f"{each['verb']} {each['objectRef']['resource']}"
            for each in self.cluster.audit()
            if each["user"]["username"] == f"system:serviceaccount:{self.home}:{account}"
            and each["objectRef"]["resource"] not in ("events", "configmaps")
            and each["responseStatus"]["code"] < 300
        ]

    def policy_state(self) -> str:
        """Return what the lying ClusterPolicy says."""
        policies = self.cluster.list("/apis/nvidia.com/v1/clusterpolicies")
        return str(policies[0].get("status", {}).get("state", "")) if policies else ""

    def label_states(self) -> set[str]:
        """Return the upgrade states on the nodes' labels."""
        return label_states(self.cluster)

    def settled(self, nodes: int) -> bool:
        """Whether so many nodes run the new driver, Ready, and the upgrade controller is through."""
        return len(self.truth.running(NEW)) == nodes and self.label_states() == {"upgrade-done"}

    def runs(self) -> list[Path]:
        """List the folders of our Jobs' pods, oldest first; they outlive the pods."""
        pids = (self.cluster.state / "pods").glob(f"{NAMESPACE}_{RELEASE}*/pid")
        mine = [file for file in pids if not file.parent.name.startswith(f"{NAMESPACE}_{RELEASE}-controller-")]
        return [file.parent for file in sorted(mine, key=lambda file: file.stat().st_mtime_ns)]

    def log(self) -> str:
        """Return the log of the last run, as far as it is written."""
        runs = self.runs()
        return (runs[-1] / f"{RELEASE}.log").read_text() if runs else ""

    def story(self) -> dict[str, Any]:
        """Return the termination message of the last run."""
        found: dict[str, Any] = json.loads((self.runs()[-1] / f"{RELEASE}.message").read_text())
        return found

    def ended_at(self) -> float:
        """When the last run wrote its termination message, which it does at its very end."""
        return (self.runs()[-1] / f"{RELEASE}.message").stat().st_mtime

    def seconds_since_last_render(self) -> float:
        """From the last change of a leader or of a driver's revision to the last run's end."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/53822513.nvidia.com"
        revisions = self.cluster.list(f"/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions")
        times = [str(each["metadata"]["creationTimestamp"]) for each in revisions]
        times.append(str(self.cluster.get(path)["spec"]["acquireTime"]))
        return self.ended_at() - max(datetime.fromisoformat(each).timestamp() for each in times)

    def terminated(self) -> list[dict[str, Any]]:
        """Return how the pods of our Job ended, as a deployment tool sees it; empty once they are deleted."""
        pods = self.cluster.list(
            f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=f"app.kubernetes.io/name={RELEASE}"
        )
        ends = (each["state"].get("terminated") for pod in pods for each in pod["status"].get("containerStatuses", []))
        return [each for each in ends if each]

    def events(self, kind: str, reason: str) -> list[str]:
        """List the messages of the events that the hook wrote on objects of a kind."""
        return [
            str(each["message"])
            for each in self.cluster.list("/api/v1/events")
            if each.get("source", {}).get("component") == RELEASE
            and (kind, reason) == (each["involvedObject"]["kind"], each["reason"])
        ]

    def until(self, holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
        """Wait for a condition of the world."""
        patience.until(holds, what, seconds)

    def assert_clean(self, restarted: list[str]) -> None:
        """Assert the promises: nothing stale, nothing early, nothing needless, and exactly these restarts."""
        truth = self.truth
        with promised():
            assert truth.stale_now() == ()
            assert truth.early_restarts(since=self.began) == ()
            assert truth.needless_restarts(since=self.began) == ()
        assert restarted == self.restarts()

    def assert_untouched(self) -> None:
        """Assert that no plugin was restarted."""
        with promised():
            assert self.restarts() == []

    def helm_install(self, release: str, chart: str, namespace: str, values: dict[str, Any]) -> None:
        """Install or upgrade the chart of something else; `a__b` in the name of a value stands for `a.b`."""
        self.cluster.helm(*Release(release, chart, namespace).install(values, UNCHECKED), version=self.helm)
