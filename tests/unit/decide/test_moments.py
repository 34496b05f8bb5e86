"""``refreshAfter``: plugins must start after the toolkit of their node was ready, and after its MIG reconfiguration."""

from __future__ import annotations

import pytest
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


UNREADY, PLUGIN_STARTED = Reason.PREREQUISITE_NOT_READY, R + 6
NOT_DEPLOYED: Object = {"metadata": {"labels": {"nvidia.com/gpu.deploy.container-toolkit": "false"}}}
RAN_AGAIN: Object = {"status": {"containerStatuses": [running("nvidia-container-toolkit-ctr", 1000, restarts=1)]}}


def _toolkit(ready: float | None = R + 2) -> Cluster:
    return with_toolkit(cluster(), ready)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(_toolkit(), Reason.VERIFIED, id="ready before the plugin started"),
        pytest.param(_toolkit(PLUGIN_STARTED), Reason.PLUGIN_STALE, id="in the same second"),
        pytest.param(_toolkit(900), Reason.PLUGIN_STALE, id="replaced under the plugin"),
        pytest.param(
            _toolkit().change("provider-pod", RAN_AGAIN), Reason.PLUGIN_STALE, id="restarted, and still Ready"
        ),
        pytest.param(
            _toolkit()
            .change("provider-pod", RAN_AGAIN)
            .put("plugin-pod", plugin_pod(waited=1001, started=1002, ready=1006)),
            Reason.VERIFIED,
            id="that, and the plugin after it",
        ),
        pytest.param(_toolkit(None), UNREADY, id="not ready"),
        pytest.param(_toolkit().drop("provider-pod"), UNREADY, id="no pod"),
        pytest.param(_toolkit().change("provider-pod", patches.DELETING), UNREADY, id="terminating"),
        pytest.param(
            _toolkit().put("provider-pod", obj("toolkit/pod", "metadata: {name: b, uid: b, ownerReferences: []}")),
            Reason.VERIFIED,
            id="another owner's pod, too",
        ),
        pytest.param(
            _toolkit().put("provider-pod", obj("toolkit/pod", "metadata: {name: b, uid: b}")), UNREADY, id="two pods"
        ),
        pytest.param(_toolkit().change("provider-pod", patches.OUTDATED), UNREADY, id="about to be replaced"),
        pytest.param(
            _toolkit()
            .change("provider-pod", patches.OUTDATED)
            .change("daemonset", patches.ON_DELETE, TOOLKIT_DAEMONSET),
            Reason.VERIFIED,
            id="outdated, and not replaced",
        ),
        pytest.param(
            _toolkit().change("provider-pod", "metadata: {ownerReferences: []}"), UNREADY, id="a pod of another owner"
        ),
        pytest.param(
            _toolkit(900).change("node", NOT_DEPLOYED).drop("provider-pod"),
            Reason.VERIFIED,
            id="none wanted on this node",
        ),
    ],
)
def test_a_plugin_must_have_started_after_the_toolkit(found: Cluster, expected: Reason) -> None:
    """Driver and toolkit of its node must both be settled; either may be the later one."""
    assert expected is found.judge(TOOLKIT).reason


def test_the_toolkit_counts_on_request_alone() -> None:
    """Without it, its pod is not looked for."""
    assert Reason.VERIFIED is _toolkit(None).drop("provider-pod").judge().reason


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


WAITS, STALE, FRESH = Reason.PREREQUISITE_NOT_READY, Reason.PLUGIN_STALE, Reason.VERIFIED
WITHOUT_TIMES: Object = {"metadata": {"managedFields": None}}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(with_mig(cluster(), written=STARTED - 1), FRESH, id="before the plugin started"),
        pytest.param(with_mig(cluster(), written=STARTED), STALE, id="in the same second"),
        pytest.param(with_mig(cluster(), written=900), STALE, id="under the plugin"),
        pytest.param(with_mig(cluster(), "failed", 900), STALE, id="failed under the plugin"),
        pytest.param(with_mig(cluster(), "failed"), FRESH, id="failed before"),
        pytest.param(with_mig(cluster(), written=None), STALE, id="at an unknown time"),
        pytest.param(
            with_mig(cluster(), written=STARTED - 1, manager=MERGED_MANAGER),
            FRESH,
            id="before the plugin, at the latest",
        ),
        pytest.param(with_mig(cluster(), written=900, manager=MERGED_MANAGER), STALE, id="perhaps under the plugin"),
        pytest.param(with_mig(cluster()).change("node", WITHOUT_TIMES), STALE, id="without any times"),
        pytest.param(with_mig(cluster(), "pending"), WAITS, id="in progress"),
        pytest.param(with_mig(cluster(), "rebooting"), WAITS, id="before a reboot"),
        pytest.param(with_mig(cluster(), "draining"), WAITS, id="in a state of a later version"),
        pytest.param(labelled(with_mig(cluster(), written=900), state=None), FRESH, id="never"),
        pytest.param(labelled(with_mig(cluster(), "pending", 900), deploy="false"), FRESH, id="without a MIG manager"),
        pytest.param(with_mig(cluster()).drop("provider-pod"), WAITS, id="before the pod of the MIG manager"),
        pytest.param(
            with_mig(cluster(), written=900).drop("driver-pod"), Reason.DRIVER_MISSING, id="without a reloaded driver"
        ),
    ],
)
def test_a_plugin_must_have_started_after_the_reconfiguration(found: Cluster, expected: Reason) -> None:
    """The node waits while that is in progress. A failed one may have changed devices, so it counts as well."""
    assert expected is found.judge(MIG).reason
    assert found.judge().reason in (FRESH, Reason.DRIVER_MISSING)


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
