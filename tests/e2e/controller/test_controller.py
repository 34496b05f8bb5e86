"""The controller refreshes each plugin once, whatever reloads its driver, alone or with others that could act."""

from __future__ import annotations

import signal
import time
from typing import Any, Final

from tests.e2e import acts
from tests.e2e.acts import PATIENCE
from tests.e2e.controller.controllers import LEASE, LOST, STOPPED, Controller, ControllerLab
from tests.e2e.faults.cluster.stopping import Moment, Stop, StoppingProxy
from tests.e2e.lab import NAMESPACE, NEW, OLD

NODES = 3
DELETED: Final = ("delete pods", Moment.AFTER)
DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/gpu-operator-post-controller"
ACCOUNT: Final = "gpu-operator-post-controller"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEPLOYED: Final[dict[str, Any]] = {"controller__enabled": True, "controller__replicas": 2}


def test_patched_rebooted_restarted(lab: ControllerLab) -> None:
    """The version is patched with kubectl; then one node reboots, a driver pod is deleted, a driver crashes.

    The plugin that waited through the reboot is fresh, and is not restarted. One process sees all of it.
    """
    one = lab.leading()
    lab.patch_driver(OLD)
    lab.await_refreshed(OLD)
    lab.assert_clean(lab.nodes)
    lab.until(lambda: one.scrape().value("nodes", state="Verified") == NODES, "it has verified each", PATIENCE)
    seen = one.scrape()
    assert seen.value("restarts_total", result="restarted") == seen.value("nodes") == NODES
    assert seen.value("oldest_stale_timestamp_seconds") == 0, "none is stale"

    lab.began = time.time()
    lab.annotate("gpu-0", "reboot", str(lab.began))
    lab.until(lambda: acts.happened(lab, "reboot", "gpu-0", lab.began), "gpu-0 reboots", PATIENCE)
    acts.delete_driver(lab, "gpu-1")
    lab.annotate("gpu-2", "restart-driver-container", str(lab.began))
    lab.until(lambda: {"gpu-1", "gpu-2"} <= set(lab.restarts()), "both plugins are restarted", PATIENCE)
    lab.await_refreshed(OLD)
    lab.assert_clean(["gpu-1", "gpu-2"])

    lab.patch_driver(NEW)
    lab.await_refreshed(NEW)
    lab.assert_clean(["gpu-0", "gpu-1", "gpu-1", "gpu-2", "gpu-2"])
    one.assert_ends(STOPPED)


def _stand_by(lab: ControllerLab, identity: str) -> Controller:
    """Start a controller besides the leader, and wait until it is ready."""
    controller = lab.start_controller(identity)
    lab.until(lambda: controller.asked("/readyz")[0] == 200, f"controller {identity} is a standby", PATIENCE)
    assert not lab.leader().startswith(identity)
    return controller


def _all_refreshed(lab: ControllerLab, version: str, by: Controller) -> None:
    """Wait until every plugin was restarted, once, and assert which controller leads now."""
    lab.until(lambda: set(lab.restarts()) == set(lab.nodes), "every plugin was restarted", PATIENCE)
    lab.await_refreshed(version)
    lab.assert_clean(lab.nodes)
    assert lab.leader().startswith(by.identity)


def test_killed_between_a_restart_and_its_answer(lab: ControllerLab, stopping: StoppingProxy) -> None:
    """Nothing remembers what it asked for: the standby takes the Lease over, and refreshes the rest."""
    one = lab.leading("one", kubeconfig=stopping.through())
    two = _stand_by(lab, "two")

    def stops(now: Stop) -> bool:
        if now == DELETED and not one.over:
            one.signal(signal.SIGKILL)
        return now == DELETED

    stopping.stops = stops
    # The API does not tell the order of what happens within one second: a plugin that started in the same one as its
    # driver became Ready is doubted by a controller that has not restarted it. Real containers take longer.
    lab.settings(plugin_start_seconds=1.5)
    try:
        lab.crash()
        assert one.ended().code == -signal.SIGKILL, one.said
        _all_refreshed(lab, NEW, two)
    finally:
        lab.settings()
    two.assert_ends(STOPPED)
    assert lab.leader() == ""


def test_partitioned_then_asleep(lab: ControllerLab, stopping: StoppingProxy) -> None:
    """A controller ends if it cannot renew its Lease, and if it wakes up after another one took it over."""
    one = lab.leading("one", kubeconfig=stopping.through())
    two = _stand_by(lab, "two")
    stopping.stops = lambda _: True
    stopping.cut()
    lab.crash()
    _all_refreshed(lab, NEW, two)
    assert one.ended().code == LOST, one.said

    three = _stand_by(lab, "three")
    two.signal(signal.SIGSTOP)
    lab.patch_driver(OLD)
    lab.until(lambda: lab.leader().startswith("three"), "another one leads", PATIENCE)
    two.signal(signal.SIGCONT)
    assert two.ended().code == LOST, two.said
    lab.await_refreshed(OLD)
    lab.assert_clean(sorted(lab.nodes * 2))
    three.assert_ends(STOPPED)


def test_two_that_both_lead_and_hooks(lab: ControllerLab) -> None:
    """Two controllers with Leases of their own act at once, and runs next to them: one restart per node."""
    lab.make_stale()
    controllers = [lab.start_controller("one"), lab.start_controller("two", "--lease-name=another")]
    hooks = [lab.begin() for _ in range(2)]
    for controller, lease in zip(controllers, (LEASE, "another"), strict=True):
        lab.await_leader(controller, lease)
    for hook in hooks:
        told = hook.told()
        assert told.code == 0, told.said
    lab.assert_clean(lab.nodes)

    hook = lab.begin(f"expect.driverVersion={OLD}")
    lab.patch_driver(OLD)
    told = hook.told()
    assert told.code == 0, told.said
    lab.await_refreshed(OLD)
    lab.assert_clean(sorted(lab.nodes * 2))
    for controller in controllers:
        controller.assert_ends(STOPPED)


def _both_ready(lab: ControllerLab) -> None:
    """Install the chart, and wait until both replicas of the controller are Ready."""
    lab.deploy(**DEPLOYED)
    lab.until(
        lambda: lab.cluster.get(DEPLOYMENT).get("status", {}).get("readyReplicas", 0) == 2, "both are Ready", PATIENCE
    )


def test_its_account_is_enough(lab: ControllerLab) -> None:
    """Its own permissions, under its admission policy; each restart is reported once."""
    _both_ready(lab)
    before = len(lab.events("DaemonSet", "StalePluginRestarted")), lab.writes(ACCOUNT).count("delete pods")
    lab.patch_driver(OLD)
    lab.await_refreshed(OLD)
    lab.assert_clean(lab.nodes)

    def counted() -> tuple[int, int]:
        now = len(lab.events("DaemonSet", "StalePluginRestarted")), lab.writes(ACCOUNT).count("delete pods")
        return now[0] - before[0], now[1] - before[1]

    lab.until(lambda: counted() == (NODES, NODES), "each restart is reported once", PATIENCE)


def test_its_pod_is_deleted_then_none_is_left(lab: ControllerLab) -> None:
    """Another replica takes over at once, and `status` names it, or that there is none."""

    def leader() -> str:
        return lab.leader().rpartition("_")[0]

    _both_ready(lab)
    lab.until(lambda: leader() != "", "one leads", PATIENCE)
    before = leader()
    lab.cluster.delete(f"{PODS}/{before}")
    lab.patch_driver(OLD)
    lab.await_refreshed(OLD)
    lab.assert_clean(lab.nodes)
    assert leader() not in ("", before)
    controller = lab.status()["controller"]
    assert (controller["alive"], controller["holder"]) == (True, lab.leader())

    lab.cluster.kubectl("scale", "deployment", ACCOUNT, "-n", NAMESPACE, "--replicas=0")
    lab.until(lambda: lab.leader() == "", "the Lease was released", PATIENCE)
    assert not lab.status()["controller"]["alive"]
