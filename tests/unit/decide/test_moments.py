"""``refreshAfter``: plugins must start after the toolkit of their node was ready, and after its MIG reconfiguration."""

from __future__ import annotations

from msgspec import structs

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.objects.names import MERGED_MANAGER
from hook.settings import Settings
from tests.fixtures.cluster import Cluster, cluster, reasons
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import with_mig, with_toolkit
from tests.fixtures.objects import Object, R, driver_pod, obj, plugin_pod, running
from tests.unit.decide import patches
from tests.unit.decide.runs import MIG, TOOLKIT, Run, named

TOOLKIT_DAEMONSET = "nvidia-container-toolkit-daemonset"
STARTED = R + 6
"""When the plugin of the base fixtures started."""


def labelled(found: Cluster, **labels: str | None) -> Cluster:
    """Change labels of the nodes."""
    keys = {"state": "nvidia.com/mig.config.state", "deploy": "nvidia.com/gpu.deploy.mig-manager"}
    return found.change("node", {"metadata": {"labels": {keys[key]: value for key, value in labels.items()}}})


def test_a_plugin_must_have_started_after_the_toolkit() -> None:
    """Driver and toolkit of its node must both be settled; either may be the later one."""
    unready, started = Reason.PREREQUISITE_NOT_READY, R + 6
    deploy: Object = {"metadata": {"labels": {"nvidia.com/gpu.deploy.container-toolkit": "false"}}}
    ran: Object = {"status": {"containerStatuses": [running("nvidia-container-toolkit-ctr", 1000, restarts=1)]}}

    def toolkit(ready: float | None = R + 2) -> Cluster:
        return with_toolkit(cluster(), ready)

    for name, found, expected in (
        ("ready before the plugin started", toolkit(), Reason.VERIFIED),
        ("in the same second", toolkit(started), Reason.PLUGIN_STALE),
        ("replaced under the plugin", toolkit(900), Reason.PLUGIN_STALE),
        ("restarted, and still Ready", toolkit().change("provider-pod", ran), Reason.PLUGIN_STALE),
        ("that, and the plugin after it", toolkit().change("provider-pod", ran)
         .put("plugin-pod", plugin_pod(waited=1001, started=1002, ready=1006)), Reason.VERIFIED),
        ("not ready", toolkit(None), unready),
        ("no pod", toolkit().drop("provider-pod"), unready),
        ("terminating", toolkit().change("provider-pod", patches.DELETING), unready),
        ("another owner's pod, too", toolkit()
         .put("provider-pod", obj("toolkit/pod", "metadata: {name: b, uid: b, ownerReferences: []}")), Reason.VERIFIED),
        ("two pods", toolkit().put("provider-pod", obj("toolkit/pod", "metadata: {name: b, uid: b}")), unready),
        ("about to be replaced", toolkit().change("provider-pod", patches.OUTDATED), unready),
        ("outdated, and not replaced", toolkit().change("provider-pod", patches.OUTDATED)
         .change("daemonset", patches.ON_DELETE, TOOLKIT_DAEMONSET), Reason.VERIFIED),
        ("a pod of another owner", toolkit().change("provider-pod", "metadata: {ownerReferences: []}"), unready),
        ("none wanted on this node", toolkit(900).change("node", deploy).drop("provider-pod"), Reason.VERIFIED),
    ):  # fmt: skip
        assert expected is found.judge(TOOLKIT).reason, name
    assert Reason.VERIFIED is toolkit(None).drop("provider-pod").judge().reason


def test_a_missing_toolkit_fails_after_a_grace() -> None:
    """Without a DaemonSet there is none; one that has no pod yet is waited for. Either way the run is not done."""
    late = Settings().node_timeout.total_seconds()
    run = Run(with_toolkit(cluster()).drop("daemonset", TOOLKIT_DAEMONSET).drop("provider-pod"), TOOLKIT)
    assert [Phase.WAIT, Phase.FAIL] == run.phases(0, late)
    status = run.look(late).statuses[0]
    assert Reason.PREREQUISITE_NOT_READY is status.reason
    one_missing = Run(with_toolkit(cluster("a", "b")).drop("provider-pod", "toolkit-b"), TOOLKIT)
    assert [Phase.WAIT, Phase.WAIT] == one_missing.phases(0, late)
    assert ["Verified", "PrerequisiteNotReady"] == reasons(one_missing.look(late).statuses)


def test_a_plugin_must_have_started_after_the_reconfiguration() -> None:
    """The node waits while that is in progress. A failed one may have changed devices, so it counts as well."""
    waits, stale, fresh = Reason.PREREQUISITE_NOT_READY, Reason.PLUGIN_STALE, Reason.VERIFIED
    bare: Object = {"metadata": {"managedFields": None}}
    for name, found, expected in (
        ("before the plugin started", with_mig(cluster(), written=STARTED - 1), fresh),
        ("in the same second", with_mig(cluster(), written=STARTED), stale),
        ("under the plugin", with_mig(cluster(), written=900), stale),
        ("failed under the plugin", with_mig(cluster(), "failed", 900), stale),
        ("failed before", with_mig(cluster(), "failed"), fresh),
        ("at an unknown time", with_mig(cluster(), written=None), stale),
        ("before the plugin, at the latest", with_mig(cluster(), written=STARTED - 1, manager=MERGED_MANAGER), fresh),
        ("perhaps under the plugin", with_mig(cluster(), written=900, manager=MERGED_MANAGER), stale),
        ("without any times", with_mig(cluster()).change("node", bare), stale),
        ("in progress", with_mig(cluster(), "pending"), waits),
        ("before a reboot", with_mig(cluster(), "rebooting"), waits),
        ("in a state of a later version", with_mig(cluster(), "draining"), waits),
        ("never", labelled(with_mig(cluster(), written=900), state=None), fresh),
        ("without a MIG manager", labelled(with_mig(cluster(), "pending", 900), deploy="false"), fresh),
        ("before the pod of the MIG manager", with_mig(cluster()).drop("provider-pod"), waits),
        ("without a reloaded driver", with_mig(cluster(), written=900).drop("driver-pod"), Reason.DRIVER_MISSING),
    ):
        assert expected is found.judge(MIG).reason, name
        assert found.judge().reason in (fresh, Reason.DRIVER_MISSING), name
    status = with_mig(cluster(), written=900).judge(MIG)
    assert status.stale_pod is not None
    assert "did not start after the MIG reconfiguration of its node ended" in status.message


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


def test_a_failed_reconfiguration_is_a_warning() -> None:
    """The plugin is refreshed all the same: nothing else would let it see the devices as they are now."""
    (warning,) = with_mig(cluster("a", "b"), "failed").decide(MIG)[0].warnings
    assert "MIG reconfiguration failed (nvidia.com/mig.config.state=failed): a, b" in warning
    assert with_mig(cluster(), "failed").decide()[0].warnings == ()
