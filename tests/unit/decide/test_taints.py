"""Device taints: which nodes have one, from when on, and until when."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pytest

from hook.decide.reasons import Reason
from hook.decide.taints import wanted
from hook.objects.taints import Place
from hook.settings import Settings
from tests.fixtures.cluster import Cluster, cluster, labelled, not_ready_since, reasons, stale, without_operator
from tests.fixtures.modes import network, with_exporter, with_mig, with_toolkit
from tests.fixtures.objects import Object, conditions, driver_pod, merged, plugin_pod, running
from tests.unit.decide import patches
from tests.unit.decide.runs import EXPORTER, MIG, TOOLKIT, Run, ending, failing, named

GPU: Final = Place("gpu.nvidia.com", "gpu-0")
COMPUTE_DOMAIN: Final = Place("compute-domain.nvidia.com", "gpu-0")
BOTH: Final = (GPU, COMPUTE_DOMAIN)

UPGRADING: Final[Object] = labelled(state="upgrade-required")
WITHOUT_SLICE: Final[Object] = {"spec": {"devices": []}}


def _taints(found: Cluster, existing: Collection[Place] = (), settings: Settings | None = None) -> dict[Place, str]:
    decision, memory = found.decide(settings)
    assert memory.evaluation is not None
    return dict(wanted(decision, memory.evaluation.fleet, existing))


def _without_driver(found: Cluster) -> Cluster:
    return found.drop("driver-pod")


def _terminating() -> Cluster:
    return cluster().only("driver-pod", ending(driver_pod()))


def _restarted_in_place() -> Cluster:
    """Let the driver container run again, while its pod shows when the run before was ready."""
    driver = merged(driver_pod(), {"status": {"containerStatuses": [running("nvidia-driver-ctr", 500, restarts=1)]}})
    return cluster().put("driver-pod", driver)


def _replaced_by_hand() -> Cluster:
    """Let an administrator replace the driver pod while the upgrade controller waits: the new driver is loaded."""
    return stale().change("node", UPGRADING)


def _silent(found: Cluster) -> Cluster:
    """Its kubelet is silent, so the node controller has set its pods to not Ready."""
    silent: Object = {"status": {"conditions": [{"type": "Ready", "status": "False"}, conditions(60)[1]]}}
    return found.change("node", not_ready_since(3590)).change("driver-pod", silent).change("plugin-pod", silent)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(_without_driver(cluster()), Reason.DRIVER_MISSING, id="no-driver-pod"),
        pytest.param(_terminating(), Reason.DRIVER_MISSING, id="driver-terminates"),
        pytest.param(
            cluster().put("driver-pod", named(driver_pod(), "b")), Reason.SEVERAL_DRIVER_PODS, id="two-driver-pods"
        ),
        pytest.param(cluster().put("driver-pod", driver_pod(ready=None)), Reason.DRIVER_NOT_READY, id="driver-loads"),
        pytest.param(_restarted_in_place(), Reason.DRIVER_NOT_READY, id="driver-restarted-in-place"),
        pytest.param(cluster().put("driver-pod", failing()), Reason.DRIVER_NOT_READY, id="driver-fails"),
        pytest.param(
            cluster().put("driver-pod", driver_pod(ready=None)).change("node", not_ready_since(3590)),
            Reason.DRIVER_NOT_READY,
            id="node-reboots",
        ),
        pytest.param(stale(), Reason.PLUGIN_STALE, id="stale"),
        pytest.param(stale().change("node", patches.TAINT), Reason.PLUGIN_STALE, id="stale-and-not-restarted"),
        pytest.param(_replaced_by_hand(), Reason.PLUGIN_STALE, id="stale-while-labels-veto"),
    ],
)
def test_a_node_whose_driver_is_unsettled_or_whose_plugin_is_stale_gets_taints(found: Cluster, reason: Reason) -> None:
    """Each DRA driver of the plugin gets one, whether it has one already or not, with the reason as it is now."""
    assert _taints(found) == dict.fromkeys(BOTH, reason)
    assert _taints(found, BOTH) == dict.fromkeys(BOTH, reason)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(cluster(), id="verified"),
        pytest.param(cluster().change("node", UPGRADING), id="waits-for-its-upgrade"),
        pytest.param(cluster().change("node", labelled(state="drain-required")), id="is-drained"),
        pytest.param(cluster().change("driver-pod", patches.OUTDATED), id="driver-is-outdated"),
        pytest.param(cluster().change("node", labelled(state="upgrade-failed")), id="failed-and-verified"),
        pytest.param(_silent(cluster()), id="is-silent"),
        pytest.param(stale().change("node", labelled(skip="true")), id="skipped"),
        pytest.param(_without_driver(cluster()).change("node", labelled(deploy_driver="false")), id="without-driver"),
        pytest.param(_without_driver(without_operator(cluster())), id="nothing-to-protect"),
    ],
)
def test_a_node_that_needs_none_loses_its_taints(found: Cluster) -> None:
    """Also one that only waits for its upgrade, and one that nothing would verify."""
    assert _taints(found, BOTH) == {}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(cluster().only("plugin-pod", ending(plugin_pod())), Reason.PLUGIN_RESTARTING, id="terminates"),
        pytest.param(cluster().drop("plugin-pod"), Reason.PLUGIN_MISSING, id="missing"),
        pytest.param(cluster().change("plugin-pod", patches.NOT_READY), Reason.PLUGIN_NOT_READY, id="not-ready"),
        pytest.param(cluster().change("slice", WITHOUT_SLICE), Reason.SLICE_MISSING, id="no-devices"),
    ],
)
def test_a_taint_stays_until_the_plugin_is_verified(found: Cluster, reason: Reason) -> None:
    """A plugin that restarts for another reason than its driver begins none."""
    assert _taints(found, BOTH) == dict.fromkeys(BOTH, reason)
    assert _taints(found) == {}


def test_a_restart_keeps_the_taint_until_the_successor_is_verified() -> None:
    """From the stale pod to the verified one, through the decisions between them."""
    run = Run(stale())
    assert run.restart() == ["plugin-gpu-0"]
    assert _taints(run.found, BOTH) == dict.fromkeys(BOTH, Reason.PLUGIN_MISSING)
    run.found.put("plugin-pod", plugin_pod())
    assert _taints(run.found, BOTH) == {}


def test_pools_are_those_of_the_slices() -> None:
    """DRA names a pool by its node; where slices name it otherwise, they count."""
    found = stale().change("slice", {"spec": {"pool": {"name": "rack/gpu-0"}}})
    assert {place.pool for place in _taints(found)} == {"rack/gpu-0"}
    assert {place.pool for place in _taints(found.drop("slice"))} == {"gpu-0"}


def test_only_nodes_that_need_it_get_a_taint() -> None:
    """A fleet in which one plugin is stale."""
    found = cluster("a", "b").put("plugin-pod", *stale("b").of("plugin-pod"))
    assert {place.pool for place in _taints(found)} == {"b"}


def test_a_driver_client_that_prepares_no_claims_causes_no_taint() -> None:
    """A stale exporter is restarted, and new claims are as good as ever."""
    settings = Settings(driver_clients=(EXPORTER,))
    found = with_exporter(cluster(), -9)
    assert reasons(found.decide(settings)[0].statuses) == ["Verified", "PluginStale"]
    assert _taints(found, BOTH, settings) == {}
    # Also while labels keep it from being evaluated.
    assert _taints(found.change("node", UPGRADING), BOTH, settings) == {}


def test_a_component_that_plugins_must_start_after_counts_like_the_driver() -> None:
    """The container toolkit restarts: the plugin is stale once it is back, and even before."""
    found = with_toolkit(cluster()).change("provider-pod", patches.NOT_READY)
    assert set(_taints(found, settings=TOOLKIT).values()) == {Reason.PLUGIN_STALE}


def test_a_reconfiguration_counts_from_the_moment_in_which_it_is_seen() -> None:
    """Devices change under a plugin that only the memory proves to be fresh: another container moved the times."""
    run = Run(with_mig(cluster()), MIG)
    assert reasons(run.look().statuses) == ["Verified"]
    with_mig(run.found, "pending").put("driver-pod", driver_pod(unloaded=-9, ended_before=-5, ready=3650))
    assert [Reason.PLUGIN_STALE] == [status.exposed for status in run.look(60).statuses]


def test_a_stack_without_dra_drivers_has_no_taints() -> None:
    """Device plugins publish no devices that a rule could select."""
    found = network().drop("driver-pod")
    assert found.decide()[0].statuses
    assert _taints(found) == {}
