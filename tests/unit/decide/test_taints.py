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
from tests.fixtures.objects import Object, conditions, driver_pod, running
from tests.unit.decide import patches
from tests.unit.decide.runs import EXPORTER, MIG, TOOLKIT, Run, ending, named

GPU: Final = Place("gpu.nvidia.com", "gpu-0")
COMPUTE_DOMAIN: Final = Place("compute-domain.nvidia.com", "gpu-0")
BOTH: Final = (GPU, COMPUTE_DOMAIN)

UPGRADING: Final[Object] = labelled(state="upgrade-required")


def _taints(found: Cluster, existing: Collection[Place] = (), settings: Settings | None = None) -> dict[Place, str]:
    decision, memory = found.decide(settings)
    assert memory.evaluation is not None
    return dict(wanted(decision, memory.evaluation.fleet, existing))


def _silent(found: Cluster) -> Cluster:
    """Its kubelet is silent, so the node controller has set its pods to not Ready."""
    silent: Object = {"status": {"conditions": [{"type": "Ready", "status": "False"}, conditions(60)[1]]}}
    return found.change("node", not_ready_since(3590)).change("driver-pod", silent).change("plugin-pod", silent)


LOADING = cluster().put("driver-pod", driver_pod(ready=None))
REBOOTING = cluster().put("driver-pod", driver_pod(ready=None)).change("node", not_ready_since(3590))
RESTARTED: Object = {"status": {"containerStatuses": [running("nvidia-driver-ctr", 500, restarts=1)]}}
"""The driver container runs again, while its pod shows when the run before was ready."""
EXPOSED = {
    "no driver pod": (cluster().drop("driver-pod"), Reason.DRIVER_MISSING),
    "driver terminates": (cluster().only("driver-pod", ending(driver_pod())), Reason.DRIVER_MISSING),
    "two driver pods": (cluster().put("driver-pod", named(driver_pod(), "b")), Reason.SEVERAL_DRIVER_PODS),
    "driver loads": (LOADING, Reason.DRIVER_NOT_READY),
    "driver restarted in place": (cluster().change("driver-pod", RESTARTED), Reason.DRIVER_NOT_READY),
    "node reboots": (REBOOTING, Reason.DRIVER_NOT_READY),
    "stale": (stale(), Reason.PLUGIN_STALE),
    "stale and not restarted": (stale().change("node", patches.TAINT), Reason.PLUGIN_STALE),
    # An administrator replaced the driver pod while the upgrade controller waits: the new driver is loaded.
    "stale while labels veto": (stale().change("node", UPGRADING), Reason.PLUGIN_STALE),
}


@pytest.mark.parametrize(("found", "reason"), EXPOSED.values(), ids=EXPOSED)
def test_a_node_whose_driver_is_unsettled_or_whose_plugin_is_stale_gets_taints(found: Cluster, reason: Reason) -> None:
    """Each DRA driver of the plugin gets one, whether it has one already or not, with the reason as it is now."""
    assert _taints(found) == dict.fromkeys(BOTH, reason)
    assert _taints(found, BOTH) == dict.fromkeys(BOTH, reason)


NO_DRIVER_DEPLOYED = cluster().drop("driver-pod").change("node", labelled(deploy_driver="false"))
CALM = {
    "verified": cluster(),
    "waits for its upgrade": cluster().change("node", UPGRADING),
    "failed and verified": cluster().change("node", labelled(state="upgrade-failed")),
    "is silent": _silent(cluster()),
    "skipped": stale().change("node", labelled(skip="true")),
    "without a driver": NO_DRIVER_DEPLOYED,
    "nothing to protect": without_operator(cluster()).drop("driver-pod"),
}


@pytest.mark.parametrize("found", CALM.values(), ids=CALM)
def test_a_node_that_needs_none_loses_its_taints(found: Cluster) -> None:
    """Also one that only waits for its upgrade, and one that nothing would verify."""
    assert _taints(found, BOTH) == {}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (cluster().drop("plugin-pod"), Reason.PLUGIN_MISSING),
        (cluster().change("plugin-pod", patches.NOT_READY), Reason.PLUGIN_NOT_READY),
    ],
)
def test_a_taint_stays_until_the_plugin_is_verified(found: Cluster, reason: Reason) -> None:
    """A plugin that restarts for another reason than its driver begins none."""
    assert _taints(found, BOTH) == dict.fromkeys(BOTH, reason)
    assert _taints(found) == {}


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
