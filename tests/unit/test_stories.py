"""Whole migrations told step by step, as they were seen on real clusters."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from hook.config import Settings
from hook.decide.result import Decision, DeletePod, Phase
from hook.decide.state import Memory
from tests.fixtures.cluster import Cluster, cluster, labelled, reasons
from tests.fixtures.objects import at, driver_pod, merged, obj, parsed, plugin_pod, stamp

DRIVER = "nvidia-driver-daemonset"
PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"


@dataclass
class Story:
    """A cluster that changes, and a run that watches it."""

    found: Cluster
    memory: Memory = field(default_factory=lambda: Memory(started=at(0)))
    restarted: list[tuple[float, str]] = field(default_factory=list)

    def tell(self, seconds: float) -> Decision:
        """Decide at a moment, and note what is asked for, as the run does."""
        decision, self.memory = self.found.decide(memory=self.memory, now=at(seconds))
        for action in decision.actions:
            assert isinstance(action, DeletePod)
            self.restarted.append((seconds, action.node))
            self.memory = self.memory.asked(action.node, action.pod, at(seconds))
        return decision

    def revision(self, name: str, number: int, seconds: float) -> None:
        """Let the driver's DaemonSet have another newest revision."""
        labels = {"controller-revision-hash": name}
        metadata = {"name": name, "labels": labels, "creationTimestamp": stamp(seconds)}
        self.found.put("revision", obj("revision", {"metadata": metadata, "revision": number}))

    def driver(self, name: str, started: float, revision: str) -> None:
        """Let the node have this driver pod, ready ten seconds after its start."""
        labels = {"labels": {"controller-revision-hash": revision}, "name": name, "uid": name}
        self.found.only("driver-pod", merged(driver_pod(started=started, ready=started + 10), {"metadata": labels}))

    def plugin(self, name: str, started: float) -> None:
        """Let the node have this plugin pod, started at a moment after a driver was there."""
        pod = plugin_pod(waited=started - 1, started=started, ready=started + 2)
        self.found.only("plugin-pod", merged(pod, {"metadata": {"name": name, "uid": name}}))


def test_an_operator_that_renders_twice_is_done_only_after_the_second() -> None:
    """The old operator renders the new intent first, the new one again: served twice, done once."""
    story = Story(cluster())
    story.found.change("lease", "spec: {holderIdentity: gpu-operator-57d75775c8-szwt7_uuid}")
    story.revision("first", 3, 5)
    story.driver("d1", 20, "first")
    story.plugin("p0", -400)
    assert ["PluginStale"] == reasons(story.tell(31).statuses)
    story.plugin("p1", 40)
    assert ("Verified", "OperatorNotLeading") == _told(story.tell(50))
    lease = {"holderIdentity": "gpu-operator-5ddc6f64ff-x_uuid", "acquireTime": stamp(55)}
    story.found.change("lease", {"spec": lease})
    assert ("Verified", "OperatorSettling") == _told(story.tell(56))
    story.revision("second", 4, 57)
    assert ("DriverOutdated", "NodesPending") == _told(story.tell(58))
    story.driver("d2", 80, "second")
    assert ("PluginStale", "NodesPending") == _told(story.tell(91))
    story.plugin("p2", 95)
    assert ("Verified", "Refreshed") == _told(story.tell(100))
    assert [(31, "gpu-0"), (91, "gpu-0")] == story.restarted


def test_a_precompiled_switch_is_waited_for_though_no_label_ever_moves() -> None:
    """For seconds there is no driver DaemonSet at all, and every label stays upgrade-done."""
    story = Story(cluster())
    story.plugin("p0", -400)
    story.found.change("policy", "spec: {driver: {version: '580', usePrecompiled: true}}")
    assert ("NotRendered", "NotRendered") == _told(story.tell(200))
    story.found.drop("daemonset", DRIVER).change("driver-pod", "metadata: {deletionTimestamp: '2026-01-01T10:03:20Z'}")
    assert ("DriverMissing", "NotRendered") == _told(story.tell(201))
    story.found.drop("driver-pod")
    assert ("DriverMissing", "NotRendered") == _told(story.tell(203))
    story.found.put("daemonset", _precompiled()).drop("revision")
    assert ("DriverMissing", "NodesPending") == _told(story.tell(206))
    story.revision("pre", 1, 207)
    story.found.change("revision", "metadata: {ownerReferences: [{uid: pre-ds, controller: true}]}")
    story.driver("d1", 210, "pre")
    story.found.change("driver-pod", "metadata: {ownerReferences: [{uid: pre-ds, controller: true}]}")
    assert ("PluginStale", "NodesPending") == _told(story.tell(221))
    story.plugin("p1", 225)
    assert ("Verified", "Refreshed") == _told(story.tell(240))


def test_a_change_that_shows_in_no_version_is_waited_for() -> None:
    """Another kernel module type: version, image and chart stay, and the policy is still ready from before."""
    story = Story(cluster())
    helm = {"manager": "helm", "operation": "Update", "time": stamp(200)}
    patch = {"metadata": {"generation": 3, "managedFields": [helm]}, "spec": {"driver": {"kernelModuleType": "open"}}}
    story.found.change("policy", patch)
    assert ("Verified", "OperatorSettling") == _told(story.tell(201))
    story.revision("open", 3, 203)
    assert ("DriverOutdated", "NodesPending") == _told(story.tell(204))
    story.driver("d1", 210, "open")
    assert ("PluginStale", "NodesPending") == _told(story.tell(221))
    story.plugin("p1", 225)
    assert ("Verified", "Refreshed") == _told(story.tell(240))


def test_a_change_that_renders_nothing_is_done_after_the_quiet_time() -> None:
    """Only another operand was changed."""
    story = Story(cluster())
    story.found.change("policy", {"metadata": {"managedFields": [{"manager": "helm", "time": stamp(200)}]}})
    assert ["OperatorSettling", "NothingStale"] == [_told(story.tell(seconds))[1] for seconds in (214, 215)]


def test_a_plugin_that_is_evicted_after_its_restart_is_not_forgotten() -> None:
    """The node got a taint in between: its DaemonSet wants no pod there any more, and says it is complete."""
    story = Story(cluster())
    story.plugin("p0", -400)
    assert ("PluginStale", "NodesPending") == _told(story.tell(100))
    story.found.drop("plugin-pod").change("daemonset", "status: {desiredNumberScheduled: 0}", PLUGIN)
    assert ("PluginMissing", "NodesPending") == _told(story.tell(105))
    assert ("PluginMissing", "PluginMissing") == _told(story.tell(405))


def test_an_outage_of_nfd_in_the_middle_is_waited_for() -> None:
    """Labels gone, and with them driver and plugin; when they are back, the plugin started before the driver."""
    story = Story(cluster("gpu-0"))
    story.found.drop("driver-pod")
    assert ("DriverMissing", "NodesPending") == _told(story.tell(100))
    lost = labelled(present="false", deploy_driver=None)
    story.found.change("node", lost).drop("plugin-pod")
    story.found.change("daemonset", "status: {desiredNumberScheduled: 0}")
    gone = story.tell(110)
    assert ("Wait", "NoEligibleNode") == (gone.phase.value, gone.reason.value)
    story.found.put("node", obj("node")).change("daemonset", "status: {desiredNumberScheduled: 1}")
    story.driver("d1", 300, "new")
    story.plugin("p1", 299)
    assert ("PluginStale", "NodesPending") == _told(story.tell(311))
    story.plugin("p2", 315)
    assert ("Verified", "Refreshed") == _told(story.tell(330))


def test_a_reboot_needs_no_restart() -> None:
    """The plugin came up in the gap between loaded and Ready; its init container is the proof."""
    story = Story(cluster())
    rebooted = driver_pod(started=500, ready=570, unloaded=498, ended_before=430, restarts=1)
    story.found.only("driver-pod", rebooted)
    story.plugin("plugin-gpu-0", 530)
    assert ("Verified", "NothingStale") == _told(story.tell(600))
    assert [] == story.restarted


def test_an_outage_without_a_reload_needs_no_restart() -> None:
    """Ready moves on every pod of the node; no container was started, so nothing is stale."""
    story = Story(cluster())
    outage = [
        {"type": "Ready", "status": "True", "lastTransitionTime": stamp(900)},
    ]
    for part, since in (("driver-pod", 70), ("plugin-pod", 80)):
        steady = {"type": "ContainersReady", "status": "True", "lastTransitionTime": stamp(since)}
        story.found.change(part, {"status": {"conditions": [*outage, steady]}})
    assert ("Verified", "NothingStale") == _told(story.tell(1000))


def test_a_driver_pod_beside_an_orphan_is_waited_for() -> None:
    """A DaemonSet that was replaced left its pod on the node; the new one is Pending beside it."""
    story = Story(cluster())
    story.found.change("driver-pod", "metadata: {ownerReferences: []}")
    pending = merged(driver_pod(ready=None), parsed("metadata: {name: d1, uid: d1}"))
    story.found.put("driver-pod", pending)
    assert ("SeveralDriverPods", "NodesPending") == _told(story.tell(100))


def test_a_lost_restart_is_made_up_for_by_the_next_run() -> None:
    """Killed between the deletion and its note: the fresh pod is left alone by the next run."""
    story = Story(cluster())
    story.plugin("p0", -400)
    story.tell(100)
    again = Story(story.found)
    again.plugin("p1", 110)
    assert ("Verified", "NothingStale") == _told(again.tell(150))
    assert [] == again.restarted


def test_a_second_run_beside_the_first_asks_for_the_same_pod() -> None:
    """Both name the very pod; the second deletion meets a conflict or an absence, and looks again."""
    story = Story(cluster())
    story.plugin("p0", -400)
    first, second = story.tell(100).actions, Story(story.found).tell(100).actions
    assert first == second


def test_time_alone_never_turns_a_served_fleet_stale() -> None:
    """A run a day later, of the same release, does nothing."""
    story = Story(cluster("a", "b", "c"), Memory(started=at(86400)))
    decision = story.tell(86400 + timedelta(minutes=1).total_seconds())
    assert ([], "NothingStale") == (story.restarted, decision.reason.value)


def _told(decision: Decision) -> tuple[str, str]:
    """Give the reason for the only node, and that of the decision."""
    (judged,) = decision.statuses
    return judged.reason.value, decision.reason.value


def _precompiled() -> dict[str, object]:
    image = "nvcr.io/nvidia/driver:580-5.15.0-105-generic-ubuntu22.04"
    containers = [{"name": "nvidia-driver-ctr", "image": image}]
    found: dict[str, object] = obj(
        "driver-daemonset",
        {
            "metadata": {"name": f"{DRIVER}-5.15.0-105-generic-ubuntu22.04", "uid": "pre-ds"},
            "spec": {"template": {"spec": {"containers": containers}}},
        },
    )
    return found


UNLABELLED = {"metadata": {"labels": {"nvidia.com/gpu.present": "false", "nvidia.com/gpu.deploy.driver": None}}}
ONE = {"status": {"desiredNumberScheduled": 1, "updatedNumberScheduled": 1}}


def _without_labels() -> Story:
    """Give a run in which a node that is about to be served loses its labels, and with them its pods."""
    story = Story(cluster("gpu-0", "gpu-1"))
    story.found.put("driver-pod", driver_pod("gpu-1", ready=None))
    assert ["Verified", "DriverNotReady"] == reasons(story.tell(100).statuses)
    story.found.change("node", UNLABELLED, "gpu-1").change("daemonset", ONE)
    story.found.drop("driver-pod", "driver-gpu-1").drop("plugin-pod", "plugin-gpu-1")
    return story


def test_a_node_that_loses_its_labels_in_the_middle_is_waited_for() -> None:
    """Its driver and plugin pods go with them; they come back, and the plugin is on the driver of then."""
    story = _without_labels()
    decision = story.tell(105)
    assert ("NodesPending", ["Verified", "LabelsMissing"]) == (decision.reason.value, reasons(decision.statuses))
    back = cluster("gpu-0", "gpu-1").put("driver-pod", driver_pod("gpu-1", started=150, ready=180))
    story.found = back.put("plugin-pod", plugin_pod("gpu-1", waited=140, started=141, ready=145))
    assert ["Verified", "PluginStale"] == reasons(story.tell(200).statuses)
    assert [(200, "gpu-1")] == story.restarted


def test_a_node_whose_labels_stay_away_is_left_alone_after_a_while() -> None:
    """As one that is lost; the end of the run tells of it."""
    story = _without_labels()
    grace = Settings().advanced.not_ready_grace.total_seconds()
    assert Phase.WAIT is story.tell(105).phase
    assert Phase.WAIT is story.tell(105 + grace - 1).phase
    late = story.tell(105 + grace)
    assert (Phase.DONE, ["Verified", "LabelsMissing"]) == (late.phase, reasons(late.statuses))
    assert "1 nodes are excluded" in late.message


def test_a_node_that_is_removed_in_the_middle_is_not_missed() -> None:
    """Its object is gone with everything on it."""
    story = _without_labels()
    story.found.drop("node", "gpu-1")
    assert Phase.DONE is story.tell(105).phase


def test_a_node_that_was_never_served_may_lose_its_labels() -> None:
    """It was left alone before."""
    story = Story(cluster("gpu-0", "gpu-1"))
    story.found.change("node", labelled("gpu-1", skip="true"), "gpu-1").put("driver-pod", driver_pod(ready=None))
    assert ["DriverNotReady", "NodeSkipped"] == reasons(story.tell(100).statuses)
    story.found.change("node", UNLABELLED, "gpu-1").change("daemonset", ONE)
    story.found.drop("driver-pod", "driver-gpu-1").drop("plugin-pod", "plugin-gpu-1").put("driver-pod", driver_pod())
    assert Phase.DONE is story.tell(105).phase
