"""The controller refreshes each plugin once, whatever reloads its driver, alone or with others that could act."""

from __future__ import annotations

import signal
import time
from typing import Any, Final

from tests.e2e import acts
from tests.e2e.acts import PATIENCE
from tests.e2e.controller.ground import LEASE, LOST, STOPPED, Controller, Field
from tests.e2e.faults.cluster.doorway import Doorway, Moment, Stop
from tests.e2e.lab import NAMESPACE, NEW, OLD

NODES = 3
DELETED: Final = ("delete pods", Moment.AFTER)
DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/gpu-operator-post-controller"
ACCOUNT: Final = "gpu-operator-post-controller"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEPLOYED: Final[dict[str, Any]] = {"controller__enabled": True, "controller__replicas": 2}


def test_patched_rebooted_restarted(field: Field) -> None:
    """The version is patched with kubectl; then one node reboots, a driver pod is deleted, a driver crashes.

    The plugin that waited through the reboot is fresh, and is not restarted. One process sees all of it.
    """
    one = field.leading()
    field.patch_driver(OLD)
    field.await_refreshed(OLD)
    field.assert_clean(field.nodes)
    field.until(lambda: one.scrape().value("nodes", state="Verified") == NODES, "it has verified each", PATIENCE)
    seen = one.scrape()
    assert seen.value("restarts_total", result="restarted") == seen.value("nodes") == NODES
    assert seen.value("oldest_stale_timestamp_seconds") == 0, "none is stale"

    field.began = time.time()
    field.annotate("gpu-0", "reboot", str(field.began))
    field.until(lambda: acts.happened(field, "reboot", "gpu-0", field.began), "gpu-0 reboots", PATIENCE)
    acts.delete_driver(field, "gpu-1")
    field.annotate("gpu-2", "restart-driver-container", str(field.began))
    field.until(lambda: {"gpu-1", "gpu-2"} <= set(field.restarts()), "both plugins are restarted", PATIENCE)
    field.await_refreshed(OLD)
    field.assert_clean(["gpu-1", "gpu-2"])

    field.patch_driver(NEW)
    field.await_refreshed(NEW)
    field.assert_clean(["gpu-0", "gpu-1", "gpu-1", "gpu-2", "gpu-2"])
    one.assert_ends(STOPPED)


def _stand_by(field: Field, identity: str) -> Controller:
    """Start a controller besides the leader, and wait until it is ready."""
    controller = field.start_controller(identity)
    field.until(lambda: controller.asked("/readyz")[0] == 200, f"controller {identity} is a standby", PATIENCE)
    assert not field.leader().startswith(identity)
    return controller


def _all_refreshed(field: Field, version: str, by: Controller) -> None:
    """Wait until every plugin was restarted, once, and assert which controller leads now."""
    field.until(lambda: set(field.restarts()) == set(field.nodes), "every plugin was restarted", PATIENCE)
    field.await_refreshed(version)
    field.assert_clean(field.nodes)
    assert field.leader().startswith(by.identity)


def test_killed_between_a_restart_and_its_answer(field: Field, door: Doorway) -> None:
    """Nothing remembers what it asked for: the standby takes the Lease over, and refreshes the rest."""
    one = field.leading("one", kubeconfig=door.through())
    two = _stand_by(field, "two")

    def stops(now: Stop) -> bool:
        if now == DELETED and not one.over:
            one.signal(signal.SIGKILL)
        return now == DELETED

    door.stops = stops
    # The API does not tell the order of what happens within one second: a plugin that started in the same one as its
    # driver became Ready is doubted by a controller that has not restarted it. Real containers take longer.
    field.settings(plugin_start_seconds=1.5)
    try:
        field.crash()
        assert one.ended().code == -signal.SIGKILL, one.said
        _all_refreshed(field, NEW, two)
    finally:
        field.settings()
    two.assert_ends(STOPPED)
    assert field.leader() == ""


def test_partitioned_then_asleep(field: Field, door: Doorway) -> None:
    """A controller ends if it cannot renew its Lease, and if it wakes up after another one took it over."""
    one = field.leading("one", kubeconfig=door.through())
    two = _stand_by(field, "two")
    door.stops = lambda _: True
    door.cut()
    field.crash()
    _all_refreshed(field, NEW, two)
    assert one.ended().code == LOST, one.said

    three = _stand_by(field, "three")
    two.signal(signal.SIGSTOP)
    field.patch_driver(OLD)
    field.until(lambda: field.leader().startswith("three"), "another one leads", PATIENCE)
    two.signal(signal.SIGCONT)
    assert two.ended().code == LOST, two.said
    field.await_refreshed(OLD)
    field.assert_clean(sorted(field.nodes * 2))
    three.assert_ends(STOPPED)


def test_two_that_both_lead_and_hooks(field: Field) -> None:
    """Two controllers with Leases of their own act at once, and runs next to them: one restart per node."""
    field.spoil()
    controllers = [field.start_controller("one"), field.start_controller("two", "--lease-name=another")]
    hooks = [field.begin() for _ in range(2)]
    for controller, lease in zip(controllers, (LEASE, "another"), strict=True):
        field.await_leader(controller, lease)
    for hook in hooks:
        told = hook.told()
        assert told.code == 0, told.said
    field.assert_clean(field.nodes)

    hook = field.begin(f"expect.driverVersion={OLD}")
    field.patch_driver(OLD)
    told = hook.told()
    assert told.code == 0, told.said
    field.await_refreshed(OLD)
    field.assert_clean(sorted(field.nodes * 2))
    for controller in controllers:
        controller.assert_ends(STOPPED)


def _both_ready(field: Field) -> None:
    """Install the chart, and wait until both replicas of the controller are Ready."""
    field.deploy(**DEPLOYED)
    field.until(
        lambda: field.cluster.get(DEPLOYMENT).get("status", {}).get("readyReplicas", 0) == 2, "both are Ready", PATIENCE
    )


def test_its_account_is_enough(field: Field) -> None:
    """Its own permissions, under its admission policy; each restart is reported once."""
    _both_ready(field)
    before = len(field.events("DaemonSet", "StalePluginRestarted")), field.writes(ACCOUNT).count("delete pods")
    field.patch_driver(OLD)
    field.await_refreshed(OLD)
    field.assert_clean(field.nodes)

    def counted() -> tuple[int, int]:
        now = len(field.events("DaemonSet", "StalePluginRestarted")), field.writes(ACCOUNT).count("delete pods")
        return now[0] - before[0], now[1] - before[1]

    field.until(lambda: counted() == (NODES, NODES), "each restart is reported once", PATIENCE)


def test_its_pod_is_deleted_then_none_is_left(field: Field) -> None:
    """Another replica takes over at once, and `status` names it, or that there is none."""

    def leader() -> str:
        return field.leader().rpartition("_")[0]

    _both_ready(field)
    field.until(lambda: leader() != "", "one leads", PATIENCE)
    before = leader()
    field.cluster.delete(f"{PODS}/{before}")
    field.patch_driver(OLD)
    field.await_refreshed(OLD)
    field.assert_clean(field.nodes)
    assert leader() not in ("", before)
    controller = field.status()["controller"]
    assert (controller["alive"], controller["holder"]) == (True, field.leader())

    field.cluster.kubectl("scale", "deployment", ACCOUNT, "-n", NAMESPACE, "--replicas=0")
    field.until(lambda: field.leader() == "", "the Lease was released", PATIENCE)
    assert not field.status()["controller"]["alive"]
