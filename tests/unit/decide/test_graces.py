"""Grace periods: how long a condition may hold before its node fails or is excluded, and when that ends a run."""

from __future__ import annotations

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.settings import Duration, Settings
from tests.fixtures.cluster import Cluster, cluster, labelled, not_ready_since, reasons, stale, stale_plugin
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import owner, with_exporter, with_toolkit
from tests.fixtures.objects import Object, conditions, driver_pod, merged, obj, plugin_pod, waiting
from tests.unit.decide import patches
from tests.unit.decide.runs import DRIVER, EXPORTER, JOB, Run, deleted, failing, named, unlabelled

WAIT, FAIL, DONE = Phase.WAIT, Phase.FAIL, Phase.DONE
BACK_OFF: Object = {**waiting("nvidia-driver-ctr", "CrashLoopBackOff"), "restartCount": 2}


def crashed(restarts: int) -> Object:
    """Return a driver pod whose container crashed so often, restarted in place, and is not Ready."""
    return driver_pod(ready=None, unloaded=-2, ended_before=-1, restarts=restarts)


def backing_off(node: str = "gpu-0") -> Object:
    """Return a driver pod whose container waits after a crash."""
    pod: Object = merged(driver_pod(node, ready=None, unloaded=-2, ended_before=-1, restarts=2),
                         {"status": {"containerStatuses": [BACK_OFF]}})  # fmt: skip
    return pod


def unscheduled(pod: Object) -> Object:
    """Return a pod of a DaemonSet before the scheduler binds it: only its affinity names its node."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [pod["spec"]["nodeName"]]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no memory"}
    status = {"phase": "Pending", "conditions": [condition], "containerStatuses": [], "initContainerStatuses": []}
    change: Object = {"spec": {"nodeName": None, "affinity": {"nodeAffinity": required}}, "status": status}
    return merged(pod, change)  # type: ignore[no-any-return]


PLUGIN_TIMEOUT, NODE_TIMEOUT = Settings(plugin_timeout=Duration(seconds=9)), Settings(node_timeout=Duration(seconds=9))
FAILED_UPGRADE = labelled(state="upgrade-failed")
FAILS = {
    "plugin not ready": (cluster().put("plugin-pod", plugin_pod(ready=None)), JOB, Reason.PLUGIN_NOT_READY, 300),
    "no slice": (cluster().drop("slice"), PLUGIN_TIMEOUT, Reason.SLICE_MISSING, 9),
    "plugin missing": (cluster().drop("plugin-pod"), JOB, Reason.PLUGIN_MISSING, 300),
    "plugin terminating": (stale().change("plugin-pod", patches.DELETING), JOB, Reason.PLUGIN_RESTARTING, 300),
    "no room for the plugin": (
        cluster().put("plugin-pod", unscheduled(plugin_pod())), JOB, Reason.PLUGIN_STARTING, 300),
    "no room for the driver": (
        cluster().put("driver-pod", unscheduled(driver_pod())), JOB, Reason.DRIVER_FAILING, 300),
    "driver failing": (cluster().put("driver-pod", failing()), NODE_TIMEOUT, Reason.DRIVER_FAILING, 9),
    "driver crashing": (cluster().put("driver-pod", crashed(2)), JOB, Reason.DRIVER_FAILING, 300),
    "upgrade failed": (cluster().change("node", FAILED_UPGRADE), JOB, Reason.UPGRADE_FAILED, 300),
    "taint": (stale().change("node", patches.TAINT), JOB, Reason.TAINT_NOT_TOLERATED, 300),
}  # fmt: skip


@pytest.mark.parametrize(("found", "settings", "reason", "grace"), FAILS.values(), ids=FAILS)
def test_a_condition_that_holds_for_its_grace_fails_with_its_reason(
    found: Cluster, settings: Settings, reason: Reason, grace: int
) -> None:
    """Five minutes by default, not a second less. Each grace is a setting."""
    run = Run(found, settings)
    assert [WAIT, WAIT] == run.phases(0, grace - 1)
    late = run.look(grace)
    assert (FAIL, reason, NodeState.FAILED) == (late.phase, late.reason, late.statuses[0].state)
    assert 1 == late.statuses[0].message.count(f"(waited {grace} s)")


REBOOTED = driver_pod(ready=None, ended_before=-60, restarts=2)
ON_ITS_WAY = {
    "missing": cluster().drop("driver-pod"),
    "being built": cluster().put("driver-pod", driver_pod(ready=None)),
    "after two reboots": cluster().put("driver-pod", REBOOTED),
    "crashed once": cluster().put("driver-pod", crashed(1)),
    "upgrade in progress": cluster().change("node", labelled(state="drain-required")),
    "outdated": cluster().change("driver-pod", patches.OUTDATED),
}


@pytest.mark.parametrize("found", ON_ITS_WAY.values(), ids=ON_ITS_WAY)
def test_a_driver_that_is_on_its_way_has_no_grace(found: Cluster) -> None:
    """Only the deadline ends that wait: a serial upgrade takes hours."""
    assert [WAIT, WAIT] == Run(found).phases(0, 1200)


def test_a_grace_starts_again_after_an_interruption() -> None:
    """A plugin that was verified in between has its whole timeout again, but not one that is in another state."""
    missing = cluster().drop("slice")
    seen = Run(missing).through((0, missing), (200, cluster()), (400, missing))
    assert [WAIT, DONE, WAIT] == [decision.phase for decision in seen]
    # A plugin that terminates, starts and is not ready is one wait; so is a driver that runs between two crashes.
    leaving, unready = stale().change("plugin-pod", patches.DELETING), cluster().change("plugin-pod", patches.NOT_READY)
    seen = Run(leaving).through((0, leaving), (150, unready), (300, missing))
    assert [WAIT, WAIT, FAIL] == [decision.phase for decision in seen]
    run = Run(cluster())
    for number in range(6):
        run.found.put("driver-pod", backing_off() if number % 2 else crashed(restarts=2 + number))
        decision = run.look(60 * number)
        assert (FAIL if number == 5 else WAIT, Reason.DRIVER_FAILING) == (decision.phase, decision.statuses[0].reason)
    # Each driver client on a node has a grace of its own.
    second = with_exporter(cluster())
    second.change("plugin-pod", {"status": {"conditions": conditions(None)}}, "exporter-gpu-0")
    run = Run(with_exporter(cluster()).put("plugin-pod", plugin_pod(ready=None)), Settings(driver_clients=(EXPORTER,)))
    assert [WAIT, WAIT] == run.phases(0, 240)
    run.found = second
    assert [WAIT, WAIT, WAIT, FAIL] == run.phases(241, 300, 540, 541)
    assert ["Verified", "PluginNotReady"] == reasons(run.look(541).statuses)


OTHERS = {
    "verified": (cluster("a", "b"), FAIL, []),
    "excluded": (cluster("a", "b").change("node", labelled("b", skip="true"), "b"), FAIL, []),
    "builds its driver": (cluster("a", "b").put("driver-pod", driver_pod("b", ready=None)), WAIT, []),
    "stale": (stale("a", "b"), WAIT, ["b"]),
    "rotating": (cluster("a", "b").drop("driver-pod", "driver-b"), WAIT, []),
    "drained": (cluster("a", "b").change("node", labelled("b", state="drain-required"), "b"), WAIT, []),
}


@pytest.mark.parametrize(("found", "phase", "restarted"), OTHERS.values(), ids=OTHERS)
def test_the_others_are_refreshed_before_a_run_fails(found: Cluster, phase: Phase, restarted: list[str]) -> None:
    """One node whose driver cannot start must not leave the rest of the fleet stale."""
    run = Run(found.put("driver-pod", failing("a")))
    run.phases(0, 300)
    decision = run.look(1260)
    assert (phase, restarted) == (decision.phase, deleted(decision))


PAUSED = labelled("b", deploy_dra="paused-for-driver-upgrade")
REPLACED: Object = {"metadata": {"ownerReferences": owner("gone")}}
UNMOVED = {
    "behind an upgrade": cluster("a", "b").change("node", labelled("b", state="upgrade-required"), "b"),
    "without labels": cluster("a", "b").change("node", labelled("b", present="false"), "b"),
    "orphaned": cluster("a", "b").change("driver-pod", REPLACED, "driver-b"),
    "two driver pods": cluster("a", "b").put("driver-pod", named(driver_pod("b"), "another")),
    "unknown state": cluster("a", "b").change("node", labelled("b", state="new-required"), "b"),
    "toolkit is not ready": with_toolkit(cluster("a", "b")).drop("provider-pod", "toolkit-b"),
    "untolerated taint": stale("a", "b").change("node", patches.TAINT, "b"),
    "operands paused for good": cluster("a", "b").change("node", PAUSED, "b"),
    "outdated": cluster("a", "b").change("driver-pod", patches.OUTDATED, "driver-b"),
}


@pytest.mark.parametrize("found", UNMOVED.values(), ids=UNMOVED)
def test_nodes_that_do_not_move_do_not_hide_a_failed_one(found: Cluster) -> None:
    """They wait behind it, or for an administrator: after another grace the run fails."""
    settings = Settings(refresh_after=("toolkit",), plugin_timeout=Duration(hours=1))
    run = Run(found.put("driver-pod", failing("a")), settings)
    assert [WAIT, WAIT, FAIL] == run.phases(0, 300, 600)


def test_a_node_that_is_silent_now_and_then_does_not_hide_a_failed_one() -> None:
    """One driver crashes, and the next node waits behind it."""
    run, failures = Run(cluster()), []
    for seconds in range(0, 661, 20):
        run.found = cluster("bad", "next", "silent").change("driver-pod", patches.OUTDATED, "driver-next")
        run.found.put("driver-pod", failing("bad"))
        if seconds % 100 == 0:
            run.found.change("node", not_ready_since(3600 + seconds - 1), "silent")
        decision = run.look(seconds)
        failures += [seconds] if decision.phase is FAIL else []
    assert (620, Reason.DRIVER_FAILING) == (failures[0], decision.reason)


def test_a_node_that_moves_starts_the_grace_of_a_failure_again() -> None:
    """While another node moves, the run continues, and the failed node may recover."""
    failed = named(plugin_pod("a", ready=None), "plugin-a", uid="failed")
    outdated = cluster("a", "b").put("plugin-pod", failed).change("driver-pod", patches.OUTDATED, "driver-b")
    moving = cluster("a", "b").put("plugin-pod", failed).put("driver-pod", driver_pod("b", ready=None))
    run = Run(outdated, Settings(plugin_timeout=Duration()))
    seen = run.through((0, outdated), (240, moving), (300, outdated), (540, outdated), (600, outdated))
    assert [WAIT] * 4 + [FAIL] == [decision.phase for decision in seen]


# Nodes that lose their labels.


def without_labels(run: Run) -> Run:
    """Let node b lose its labels, and with them its driver and its plugin."""
    unlabelled(run.found, "b").drop("plugin-pod", "plugin-b")
    return run


def test_a_node_that_lost_its_labels_and_all_its_pods_is_awaited() -> None:
    """Nothing is left that shows its device, but it was eligible before: NFD may be back in a moment."""
    run = Run(cluster("a", "b").put("plugin-pod", stale_plugin("b")))
    assert ["plugin-b"] == run.restart()
    for seconds, phase, state in ((10, WAIT, NodeState.WAITING), (309, WAIT, NodeState.WAITING),
                                  (310, DONE, NodeState.EXCLUDED), (311, DONE, NodeState.EXCLUDED)):  # fmt: skip
        decision = without_labels(run).look(seconds)
        status = decision.statuses[1]
        assert (phase, state, "LabelsMissing") == (decision.phase, status.state, status.reason), seconds
        assert status.message.startswith("it was eligible before, and lost "), seconds
    run.found.put("node", obj("node", {"metadata": {"name": "b"}}))
    assert ["Verified", "DriverMissing"] == reasons(run.look(320).statuses), "it is back"
    without_labels(run).found.drop("node", "b")
    assert ["Verified"] == reasons(run.look(330).statuses), "it was removed"


def test_a_node_that_was_never_eligible_may_lose_its_labels() -> None:
    """Nor does a controller wait: it sees the node when it is back."""
    run = Run(cluster("a", "b").change("node", labelled("b", skip="true"), "b"))
    for each in (run, Run(cluster("a", "b"), FOLLOWING)):
        each.look()
        assert (DONE, ["Verified"]) == ((decision := without_labels(each).look(20)).phase, reasons(decision.statuses))


def test_the_grace_of_a_lost_gpu_starts_once_the_driver_pod_is_gone() -> None:
    """A node that is labelled again counts again."""
    run = Run(cluster("a", "b").change("node", labelled("b", present="false", deploy_driver=None), "b"))
    run.found.change("driver-pod", patches.DELETING, "driver-b")
    run.found.change("daemonset", "status: {desiredNumberScheduled: 1}", DRIVER)
    assert [WAIT, WAIT] == run.phases(0, 360)
    run.found.drop("driver-pod", "driver-b")
    assert [WAIT, WAIT, DONE] == run.phases(420, 660, 720)
    run.found.change("node", labelled("b", present="true", deploy_driver="true"), "b")
    again = run.look(780)
    assert (WAIT, ["Verified", "DriverMissing"]) == (again.phase, reasons(again.statuses))


def test_a_fleet_that_lost_all_its_labels_is_no_success() -> None:
    """NFD was removed, and with the labels each driver pod."""
    lost = {"nvidia.com/gpu.present": "false", "nvidia.com/gpu.deploy.driver": None}
    run = Run(cluster("a", "b").change("node", {"metadata": {"labels": lost}}).drop("driver-pod"))
    run.found.change("daemonset", patches.NONE_WANTED, DRIVER)
    decisions = [run.look(seconds) for seconds in (0, 300, 600)]
    expected = [(WAIT, ["LabelsMissing"] * 2)] * 3
    assert expected == [(decision.phase, reasons(decision.statuses)) for decision in decisions]
