"""``refreshAfter``: plugins must start after the toolkit of their node was ready, and after its MIG reconfiguration."""

from __future__ import annotations

import pytest
from msgspec import structs

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.objects.names import MERGED_MANAGER
from hook.settings import ControllerSettings, Settings
from tests.fixtures.cluster import Cluster, cluster, reasons
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import with_mig, with_toolkit
from tests.fixtures.objects import Object, R, conditions, driver_pod, merged, obj, plugin_pod, running, waiting
from tests.unit.decide import patches
from tests.unit.decide.runs import MIG, TOOLKIT, Run, named

TOOLKIT_DAEMONSET = "nvidia-container-toolkit-daemonset"
STARTED = R + 6
"""When the plugin of the base fixtures started."""


def labelled(found: Cluster, **labels: str | None) -> Cluster:
    """Change labels of the nodes."""
    keys = {"state": "nvidia.com/mig.config.state", "deploy": "nvidia.com/gpu.deploy.mig-manager"}
    return found.change("node", {"metadata": {"labels": {keys[key]: value for key, value in labels.items()}}})


WAITS, STALE, FRESH = Reason.PREREQUISITE_NOT_READY, Reason.PLUGIN_STALE, Reason.VERIFIED
NOT_DEPLOYED: Object = {"metadata": {"labels": {"nvidia.com/gpu.deploy.container-toolkit": "false"}}}
RAN_AGAIN: Object = {"status": {"containerStatuses": [running("nvidia-container-toolkit-ctr", 1000, restarts=1)]}}


def _toolkit(ready: float | None = R + 2) -> Cluster:
    return with_toolkit(cluster(), ready)


RESTARTED_LATER = _toolkit().change("provider-pod", RAN_AGAIN)
OTHER_POD = obj("toolkit/pod", "metadata: {name: b, uid: b, ownerReferences: []}")
OUTDATED = _toolkit().change("provider-pod", patches.OUTDATED)
AFTER_THE_TOOLKIT = {
    "ready before the plugin started": (_toolkit(), FRESH),
    "in the same second": (_toolkit(STARTED), STALE),
    "restarted, and still Ready": (RESTARTED_LATER, STALE),
    "that, and the plugin after it": (
        _toolkit().change("provider-pod", RAN_AGAIN).put(
            "plugin-pod", plugin_pod(waited=1001, started=1002, ready=1006)), FRESH),
    "no pod": (_toolkit().drop("provider-pod"), WAITS),
    "terminating": (_toolkit().change("provider-pod", patches.DELETING), WAITS),
    "another owner's pod, too": (_toolkit().put("provider-pod", OTHER_POD), FRESH),
    "two pods": (_toolkit().put("provider-pod", obj("toolkit/pod", "metadata: {name: b, uid: b}")), WAITS),
    "about to be replaced": (OUTDATED, WAITS),
    "outdated, and not replaced": (
        _toolkit().change("provider-pod", patches.OUTDATED).change("daemonset", patches.ON_DELETE, TOOLKIT_DAEMONSET),
        FRESH),
    "none wanted on this node": (_toolkit(900).change("node", NOT_DEPLOYED).drop("provider-pod"), FRESH),
}  # fmt: skip


@pytest.mark.parametrize(("found", "expected"), AFTER_THE_TOOLKIT.values(), ids=AFTER_THE_TOOLKIT)
def test_a_plugin_must_have_started_after_the_toolkit(found: Cluster, expected: Reason) -> None:
    """Driver and toolkit of its node must both be settled; either may be the later one."""
    assert expected is found.judge(TOOLKIT).reason


def test_a_prerequisite_counts_on_request_alone() -> None:
    """Without it, its pod is not looked for. A restart of the MIG manager is no reconfiguration."""
    assert FRESH is _toolkit(None).drop("provider-pod").judge().reason
    assert FRESH is with_mig(cluster(), "pending", 900).judge().reason
    assert FRESH is with_mig(_toolkit(), "pending", 900).judge(TOOLKIT).reason
    both = with_mig(_toolkit()).change("provider-pod", {"status": {"conditions": conditions(900)}}, "mig-gpu-0")
    assert FRESH is both.judge(Settings(refresh_after=("toolkit", "mig"))).reason


def test_a_missing_toolkit_fails_after_a_grace() -> None:
    """Without a DaemonSet there is none; one that has no pod yet is waited for. Either way the run is not done."""
    run = Run(with_toolkit(cluster()).drop("daemonset", TOOLKIT_DAEMONSET).drop("provider-pod"), TOOLKIT)
    assert [Phase.WAIT, Phase.FAIL] == run.phases(0, 300)
    assert Reason.PREREQUISITE_NOT_READY is run.look(300).reason
    one_missing = Run(with_toolkit(cluster("a", "b")).drop("provider-pod", "toolkit-b"), TOOLKIT)
    assert [Phase.WAIT, Phase.WAIT] == one_missing.phases(0, 300)


@pytest.mark.parametrize("settings", [TOOLKIT, ControllerSettings(refresh_after=("toolkit",))])
def test_each_restart_of_the_toolkit_is_another_run(settings: Settings) -> None:
    """In its pod, or as another pod. The restart that each needs is the first one under it."""
    run = Run(_toolkit(), settings)
    run.look()
    for number in (1, 2):
        began = 1000 * number
        ran = [running("nvidia-container-toolkit-ctr", began, restarts=1, ended_before=began - 9)]
        run.found.change("provider-pod", {"status": {"containerStatuses": ran, "conditions": conditions(began + 3)}})
        run.found.only("provider-pod", named(run.found.of("provider-pod")[0], f"toolkit-{number}"))
        assert 1 == len(run.restart(60 * number))
        assert [1] == [record.tries for record in run.memory.records.values()]
        fresh = plugin_pod(waited=began + 60, started=began + 61, ready=began + 65)
        run.found.put("plugin-pod", named(fresh, f"next-{number}"))
        assert ["Verified"] == reasons(run.look(60 * number).statuses)


WITHOUT_TIMES: Object = {"metadata": {"managedFields": None}}
NOT_STARTED = merged(plugin_pod(ready=None), {"status": {"containerStatuses": [waiting("gpus", "PodInitializing")]}})
AFTER_MIG = {
    "before the plugin started": (with_mig(cluster(), written=STARTED - 1), FRESH),
    "in the same second": (with_mig(cluster(), written=STARTED), STALE),
    "failed under the plugin": (with_mig(cluster(), "failed", 900), STALE),
    "before the plugin, at the latest": (
        with_mig(cluster(), written=STARTED - 1, manager=MERGED_MANAGER), FRESH),
    "perhaps under the plugin": (with_mig(cluster(), written=900, manager=MERGED_MANAGER), STALE),
    "without any times": (with_mig(cluster()).change("node", WITHOUT_TIMES), STALE),
    "at an unknown time, but the plugin has not started": (
        with_mig(cluster(), written=None).put("plugin-pod", NOT_STARTED), Reason.PLUGIN_STARTING),
    "in a state of a later version": (with_mig(cluster(), "draining"), WAITS),
    "never": (labelled(with_mig(cluster(), written=900), state=None), FRESH),
    "without a MIG manager": (labelled(with_mig(cluster(), "pending", 900), deploy="false"), FRESH),
    "before the pod of the MIG manager": (with_mig(cluster()).drop("provider-pod"), WAITS),
    "without a reloaded driver": (
        with_mig(cluster(), written=900).drop("driver-pod"), Reason.DRIVER_MISSING),
}  # fmt: skip


@pytest.mark.parametrize(("found", "expected"), AFTER_MIG.values(), ids=AFTER_MIG)
def test_a_plugin_must_have_started_after_the_reconfiguration(found: Cluster, expected: Reason) -> None:
    """The node waits while that is in progress. A failed one may have changed devices, so it counts as well."""
    assert expected is found.judge(MIG).reason


@pytest.mark.parametrize(
    ("state", "written", "expected"), [("pending", R, WAITS), ("success", 900, STALE), ("success", R, FRESH)]
)
def test_a_prerequisite_that_is_not_deployed_hides_no_other_one(state: str, written: float, expected: Reason) -> None:
    """The node has no toolkit, but a MIG manager."""
    found = with_mig(_toolkit().change("node", NOT_DEPLOYED), state, written)
    assert expected is found.judge(Settings(refresh_after=("toolkit", "mig"))).reason


def test_each_reconfiguration_takes_one_restart() -> None:
    """Also one whose time is not known: then only a plugin that this program restarted is known to be fresh."""
    run = Run(with_mig(cluster()), MIG)
    run.look()
    for number, written in enumerate((900, 1900, None)):
        with_mig(run.found, written=written)
        assert len(run.restart(100 * number)) == 1, written
        began = 910 + 1000 * number
        new = plugin_pod(waited=began, started=began + 1, ready=began + 5)
        run.found.only("plugin-pod", named(new, f"next-{number}"))
        assert reasons(run.look(100 * number + 50).statuses) == ["Verified"], written


def test_a_time_of_merged_writers_moves_without_a_reconfiguration() -> None:
    """It costs one restart per run."""
    run = Run(with_mig(cluster(), written=900, manager=MERGED_MANAGER), MIG)
    assert len(run.restart()) == 1
    run.found.only("plugin-pod", named(plugin_pod(waited=910, started=911, ready=915), "next"))
    assert reasons(run.look(50).statuses) == ["Verified"]
    with_mig(run.found, written=1900, manager=MERGED_MANAGER)
    assert reasons(run.look(60).statuses) == ["Verified"]
    with_mig(run.found, written=1900)
    assert len(run.restart(70)) == 1


def test_a_proof_does_not_outlast_the_next_reconfiguration() -> None:
    """Also where its time is one of several writers: that a second one was seen is enough. The toolkit has none."""
    both = Settings(refresh_after=("toolkit", "mig"))
    for found, settings in ((cluster(), MIG), (_toolkit(), both)):
        run = Run(with_mig(found, written=900, manager=MERGED_MANAGER), settings)
        assert ["plugin-gpu-0"] == run.restart()
        run.found.only("plugin-pod", named(plugin_pod(waited=910, started=911, ready=915), "next"))
        assert ["Verified"] == reasons(run.look(50).statuses)
        with_mig(run.found, "pending", written=1900, manager=MERGED_MANAGER)
        assert ["PrerequisiteNotReady"] == reasons(run.look(60).statuses)
        with_mig(run.found, written=1900, manager=MERGED_MANAGER)
        assert ["next"] == run.restart(70)


def test_a_leftover_state_of_a_reconfiguration_voids_no_proof() -> None:
    """Nothing changes devices on a node without a MIG manager, so a plugin is fresh as long as its driver runs."""
    run = Run(labelled(with_mig(cluster(), "pending"), deploy=None), MIG)
    assert reasons(run.look().statuses) == ["Verified"]
    run.found.put("driver-pod", driver_pod(unloaded=-9, ended_before=-5, ready=3650))
    assert reasons(run.look(60).statuses) == ["Verified"]


def test_a_reconfiguration_without_an_end_needs_manual_action() -> None:
    """A Job fails after the grace period of a failed driver. The controller reports the node until it is done."""
    run = Run(with_mig(cluster(), "pending"), MIG)
    assert [Phase.WAIT, Phase.WAIT, Phase.FAIL] == run.phases(0, 299, 300)
    scene = Run(run.found, structs.replace(FOLLOWING, refresh_after=("mig",)))
    (status,) = scene.through((0, run.found), (300, run.found))[1].statuses
    assert (NodeState.FAILED, Reason.PREREQUISITE_NOT_READY) == (status.state, status.reason)
    assert "mig.config.state=pending) (waited 300 s)" in status.message
    with_mig(run.found, written=900)
    assert len(scene.restart(301)) == 1
