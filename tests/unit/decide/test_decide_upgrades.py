"""Whole driver upgrades step by step, as they were seen on real clusters."""

from __future__ import annotations

from dataclasses import dataclass, field

from hook.decide.result import Decision, DeletePod
from hook.decide.state import Memory
from tests.fixtures.cluster import Cluster, cluster, reasons
from tests.fixtures.objects import at, driver_pod, merged, obj, plugin_pod, stamp

PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
ONE = {"status": {"desiredNumberScheduled": 1, "updatedNumberScheduled": 1}}
WANTS_NONE = "status: {desiredNumberScheduled: 0}"


@dataclass
class Upgrade:
    """A cluster that changes, and a Job that watches it."""

    found: Cluster = field(default_factory=cluster)
    memory: Memory = field(default_factory=lambda: Memory(started=at(0)))
    restarted: list[tuple[float, str]] = field(default_factory=list)

    def decide(self, seconds: float) -> Decision:
        """Decide at a moment, and record the restarts as the run does."""
        decision, self.memory = self.found.decide(memory=self.memory, now=at(seconds))
        for action in decision.actions:
            assert isinstance(action, DeletePod)
            self.restarted.append((seconds, action.node))
            self.memory = self.memory.asked(action.node, action.pod, at(seconds))
        return decision

    def expect(self, seconds: float, node: str, run: str) -> None:
        """Decide at a moment, and compare the reasons for the only node and for the run."""
        decision = self.decide(seconds)
        assert ([node], run) == (reasons(decision.statuses), decision.reason), seconds

    def revision(self, name: str, number: int, seconds: float) -> None:
        """Give the driver's DaemonSet another newest revision."""
        labels = {"controller-revision-hash": name}
        metadata = {"name": name, "labels": labels, "creationTimestamp": stamp(seconds)}
        self.found.put("revision", obj("revision", {"metadata": metadata, "revision": number}))

    def driver(self, name: str, started: float, revision: str) -> None:
        """Put this driver pod on the node, ready ten seconds after its start."""
        metadata = {"labels": {"controller-revision-hash": revision}, "name": name, "uid": name}
        self.found.only("driver-pod", merged(driver_pod(started=started, ready=started + 10), {"metadata": metadata}))

    def plugin(self, name: str, started: float) -> None:
        """Put this plugin pod on the node, started at a moment after a driver was there."""
        pod = plugin_pod(waited=started - 1, started=started, ready=started + 2)
        self.found.only("plugin-pod", merged(pod, {"metadata": {"name": name, "uid": name}}))


def test_an_operator_that_renders_twice() -> None:
    """The old operator renders the new policy first, the new one again: refreshed twice, done once."""
    upgrade = Upgrade()
    upgrade.found.change("lease", "spec: {holderIdentity: gpu-operator-57d75775c8-szwt7_uuid}")
    upgrade.revision("first", 3, 5)
    upgrade.driver("d1", 20, "first")
    upgrade.plugin("p0", -400)
    upgrade.expect(31, "PluginStale", "NodesPending")
    upgrade.plugin("p1", 40)
    upgrade.expect(50, "Verified", "OperatorNotLeading")
    lease = {"holderIdentity": "gpu-operator-5ddc6f64ff-x_uuid", "acquireTime": stamp(55)}
    upgrade.found.change("lease", {"spec": lease})
    upgrade.expect(56, "Verified", "OperatorSettling")
    upgrade.revision("second", 4, 57)
    upgrade.expect(58, "DriverOutdated", "NodesPending")
    upgrade.driver("d2", 80, "second")
    upgrade.expect(91, "PluginStale", "NodesPending")
    upgrade.plugin("p2", 95)
    upgrade.expect(100, "Verified", "Refreshed")
    assert [(31, "gpu-0"), (91, "gpu-0")] == upgrade.restarted


def test_a_change_that_shows_in_no_version() -> None:
    """Another kernel module type: version, image and chart stay, and the policy is still ready from before."""
    upgrade = Upgrade()
    fields = [{"manager": "helm", "operation": "Update", "time": stamp(200)}]
    patch = {"metadata": {"generation": 3, "managedFields": fields}, "spec": {"driver": {"kernelModuleType": "open"}}}
    upgrade.found.change("policy", patch)
    upgrade.expect(201, "Verified", "OperatorSettling")
    upgrade.revision("open", 3, 203)
    upgrade.expect(204, "DriverOutdated", "NodesPending")
    upgrade.driver("d1", 210, "open")
    upgrade.expect(221, "PluginStale", "NodesPending")
    upgrade.plugin("p1", 225)
    upgrade.expect(240, "Verified", "Refreshed")
    nothing = Upgrade()  # only another operand was changed
    nothing.found.change("policy", {"metadata": {"managedFields": fields}})
    nothing.expect(214, "Verified", "OperatorSettling")
    nothing.expect(215, "Verified", "NothingStale")
