"""State between decisions: since when conditions hold, which have a grace, and what is remembered."""

from __future__ import annotations

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.settings import Duration, Settings
from tests.fixtures.cluster import cluster, labelled, not_ready_since, reasons, stale
from tests.fixtures.modes import owner, with_exporter, with_toolkit
from tests.fixtures.objects import Object, conditions, driver_pod, merged, plugin_pod, waiting
from tests.unit.decide import patches
from tests.unit.decide.runs import DRIVER, EXPORTER, Run, deleted, failing, named, unlabelled

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


def test_a_condition_that_holds_for_its_grace_fails_with_its_reason() -> None:
    """Five minutes by default, not a second less. Each grace is a setting."""
    plugin, driver = Settings(plugin_timeout=Duration(seconds=9)), Settings(node_timeout=Duration(seconds=9))
    for found, reason, settings, grace in (
        (cluster().put("plugin-pod", plugin_pod(ready=None)), Reason.PLUGIN_NOT_READY, Settings(), 300),
        (cluster().drop("slice"), Reason.SLICE_MISSING, plugin, 9),
        (cluster().drop("plugin-pod"), Reason.PLUGIN_MISSING, Settings(), 300),
        (stale().change("plugin-pod", patches.DELETING), Reason.PLUGIN_RESTARTING, Settings(), 300),
        (cluster().put("driver-pod", failing()), Reason.DRIVER_FAILING, Settings(), 300),
        (cluster().put("driver-pod", failing()), Reason.DRIVER_FAILING, driver, 9),
        (cluster().put("driver-pod", crashed(2)), Reason.DRIVER_FAILING, Settings(), 300),
        (cluster().change("node", labelled(state="upgrade-failed")), Reason.UPGRADE_FAILED, Settings(), 300),
    ):
        run = Run(found, settings)
        assert [WAIT, WAIT] == run.phases(0, grace - 1), reason
        late = run.look(grace)
        assert (FAIL, reason, NodeState.FAILED) == (late.phase, late.reason, late.statuses[0].state)
        assert 1 == late.statuses[0].message.count(f"(waited {grace} s)"), reason


def test_a_driver_that_is_on_its_way_has_no_grace() -> None:
    """Only the deadline ends that wait: a serial upgrade takes hours."""
    for name, found in (
        ("missing", cluster().drop("driver-pod")),
        ("being built", cluster().put("driver-pod", driver_pod(ready=None))),
        ("after two reboots", cluster().put("driver-pod", driver_pod(ready=None, ended_before=-60, restarts=2))),
        ("once more", cluster().put("driver-pod", crashed(1))),
        ("upgrade in progress", cluster().change("node", labelled(state="drain-required"))),
        ("outdated", cluster().change("driver-pod", patches.OUTDATED)),
    ):
        assert [WAIT, WAIT] == Run(found).phases(0, 1200), name


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


def test_the_others_are_refreshed_before_a_run_fails() -> None:
    """One node whose driver cannot start must not leave the rest of the fleet stale."""
    for name, found, phase in (
        ("verified", cluster("a", "b"), FAIL),
        ("excluded", cluster("a", "b").change("node", labelled("b", skip="true"), "b"), FAIL),
        ("builds its driver", cluster("a", "b").put("driver-pod", driver_pod("b", ready=None)), WAIT),
        ("stale", stale("a", "b"), WAIT),
        ("rotating", cluster("a", "b").drop("driver-pod", "driver-b"), WAIT),
    ):
        run = Run(found.put("driver-pod", failing("a")))
        run.look()
        decision = run.look(300)
        assert phase is decision.phase, name
        assert (["b"] if name == "stale" else []) == deleted(decision), name


def test_nodes_that_do_not_move_do_not_hide_a_failed_one() -> None:
    """They wait behind it, or for an administrator: after another grace the run fails."""
    for name, found in (
        ("behind an upgrade", cluster("a", "b").change("node", labelled("b", state="upgrade-required"), "b")),
        ("without labels", cluster("a", "b").change("node", labelled("b", present="false"), "b")),
        ("orphaned", cluster("a", "b").change("driver-pod", {"metadata": {"ownerReferences": owner("gone")}},
                                              "driver-b")),
        ("two driver pods", cluster("a", "b").put("driver-pod", named(driver_pod("b"), "another"))),
        ("unknown state", cluster("a", "b").change("node", labelled("b", state="new-required"), "b")),
        ("toolkit is not ready", with_toolkit(cluster("a", "b")).drop("provider-pod", "toolkit-b")),
        ("untolerated taint", stale("a", "b").change("node", patches.TAINT, "b")),
    ):  # fmt: skip
        settings = Settings(refresh_after=("toolkit",), plugin_timeout=Duration(hours=1))
        run = Run(found.put("driver-pod", failing("a")), settings)
        assert [WAIT, WAIT, FAIL] == run.phases(0, 300, 600), name
    # One driver crashes, the next node waits behind it, and a third one is not Ready now and then.
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
    run = Run(cluster("a", "b").put("driver-pod", driver_pod("b", ready=None)))
    run.found.change("node", labelled("a", state="upgrade-failed"), "a")
    assert [NodeState.WAITING, NodeState.FAILED] == [run.look(seconds).statuses[0].state for seconds in (0, 400)]
    assert [DONE] == run.then(cluster("a", "b")).phases(500)


def test_a_node_that_lost_its_gpu_is_excluded_after_a_grace() -> None:
    """A plugin still runs there, but no driver pod comes; a warning names it."""
    for found in (unlabelled(cluster("a", "b")), unlabelled(cluster("b"))):
        run = Run(found)
        first = run.look()
        assert (WAIT, NodeState.WAITING) == (first.phase, first.statuses[-1].state)
        status = (later := run.look(300)).statuses[-1]
        assert (DONE, NodeState.EXCLUDED, Reason.LABELS_MISSING) == (later.phase, status.state, status.reason)
        assert 1 == len(later.warnings)
    # The grace starts once the driver pod is gone; a node that is labelled again counts again.
    run = Run(cluster("a", "b").change("node", labelled("b", present="false", deploy_driver=None), "b"))
    run.found.change("driver-pod", patches.DELETING, "driver-b")
    run.found.change("daemonset", "status: {desiredNumberScheduled: 1}", DRIVER)
    assert [WAIT, WAIT] == run.phases(0, 360)
    run.found.drop("driver-pod", "driver-b")
    assert [WAIT, WAIT, DONE] == run.phases(420, 660, 720)
    run.found.change("node", labelled("b", present="true", deploy_driver="true"), "b")
    again = run.look(780)
    assert (WAIT, ["Verified", "DriverMissing"]) == (again.phase, reasons(again.statuses))
    # A fleet that lost all its labels is no success: NFD was removed, and with the labels each driver pod.
    run = Run(cluster("a", "b").change("node", {"metadata": {"labels": {
        "nvidia.com/gpu.present": "false", "nvidia.com/gpu.deploy.driver": None}}}).drop("driver-pod"))  # fmt: skip
    run.found.change("daemonset", "status: {desiredNumberScheduled: 0}", DRIVER)
    for minutes in (0, 5, 10):
        decision = run.look(60 * minutes)
        assert (WAIT, ["LabelsMissing"] * 2) == (decision.phase, reasons(decision.statuses))
