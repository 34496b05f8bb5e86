"""``refreshAfter: [mig]``: plugins must start after the MIG reconfiguration of their node ended."""

from __future__ import annotations

from msgspec import structs

from hook.decide.reasons import Reason
from hook.decide.result import Cause, NodeState, Phase
from hook.objects.names import MERGED_MANAGER
from tests.fixtures.cluster import Cluster, cluster, reasons
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import with_mig
from tests.fixtures.objects import Object, R, plugin_pod
from tests.unit.decide.runs import MIG, Run, named

STARTED = R + 6
"""When the plugin of the base fixtures started."""


def labelled(found: Cluster, **labels: str | None) -> Cluster:
    """Change labels of the nodes."""
    keys = {"state": "nvidia.com/mig.config.state", "deploy": "nvidia.com/gpu.deploy.mig-manager"}
    return found.change("node", {"metadata": {"labels": {keys[key]: value for key, value in labels.items()}}})


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
    assert status.stale_pod.cause is Cause.PREREQUISITE
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


def test_a_reconfiguration_without_an_end_needs_manual_action() -> None:
    """A Job fails after the grace period of a failed driver. The controller reports the node until it is done."""
    run = Run(with_mig(cluster(), "pending"), MIG)
    assert [Phase.WAIT, Phase.WAIT, Phase.FAIL] == run.phases(0, 299, 300)
    scene = Run(run.found, structs.replace(FOLLOWING, refresh_after=("mig",)))
    (status,) = scene.through((0, run.found), (300, run.found))[1].statuses
    assert (NodeState.FAILED, Reason.PREREQUISITE_NOT_READY) == (status.state, status.reason)
    assert "mig.config.state=pending) (for 300 s)" in status.message
    with_mig(run.found, written=900)
    assert len(scene.restart(301)) == 1


def test_a_failed_reconfiguration_is_a_warning() -> None:
    """The plugin is refreshed all the same: nothing else would let it see the devices as they are now."""
    (warning,) = with_mig(cluster("a", "b"), "failed").decide(MIG)[0].warnings
    assert "MIG reconfiguration failed (nvidia.com/mig.config.state=failed): a, b" in warning
    assert with_mig(cluster(), "failed").decide()[0].warnings == ()
