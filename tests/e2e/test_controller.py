"""The controller refreshes each plugin once, whatever reloads its driver, alone or with others that could act."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any, Final

from tests.e2e import acts
from tests.e2e.acts import PATIENCE
from tests.e2e.controllers import LEASE, LOST, STOPPED, Controller, ControllerLab
from tests.e2e.lab import NAMESPACE, NEW, OLD
from tests.e2e.relay import Relay
from tests.promises import promised

NODES: Final = 4
LAB: Final = ControllerLab
DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/gpu-operator-post-controller"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEPLOYED: Final[dict[str, Any]] = {"controller__enabled": True, "controller__replicas": 2}


def test_patched_rebooted_restarted(lab: ControllerLab) -> None:
    """The version is patched with kubectl; then one node reboots, a driver pod is deleted, a driver crashes.

    All drivers reload at once, and never is more than a quarter of the plugins down. The plugin that waited through the
    reboot is fresh, and is not restarted. One process sees all of it.
    """
    one = lab.leading("controller.maxUnavailable=25%")
    lab.patch_driver(OLD)
    lab.await_refreshed(OLD)
    lab.assert_clean(lab.nodes)
    with promised():
        assert lab.most_down() == NODES // 4
    lab.until(lambda: one.metric("nodes", state="Verified") == NODES, "it has verified each", PATIENCE)
    assert one.metric("restarts_total", result="restarted") == one.metric("nodes") == NODES
    assert one.metric("oldest_stale_timestamp_seconds") == 0, "none is stale"

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
    lab.assert_clean(sorted([*lab.nodes, "gpu-1", "gpu-2"]))
    one.assert_ends(STOPPED)


def _stand_by(lab: ControllerLab, identity: str, kubeconfig: Path | None = None) -> Controller:
    """Start a controller besides the leader, and wait until it is ready."""
    controller = lab.start_controller(identity, kubeconfig=kubeconfig)
    lab.until(lambda: controller.asked("/readyz")[0] == 200, f"controller {identity} is a standby", PATIENCE)
    assert not lab.leader().startswith(identity)
    return controller


def test_killed_asleep_cut_off(lab: ControllerLab) -> None:
    """A standby takes over from a leader that is killed between two restarts, and refreshes the rest.

    One that wakes up after another one took its Lease over ends. So does one that is cut off from the API server: the
    next one restarts what became stale in the meantime.
    """
    one = lab.leading("maxParallelRestarts=1")
    two = _stand_by(lab, "two")
    # The API does not tell the order of what happens within one second: a plugin that started in the same one as its
    # driver became Ready is doubted by a controller that has not restarted it. Real containers take longer.
    lab.settings(plugin_start_seconds=1.5)
    lab.crash()
    lab.until(lambda: len(lab.restarts()) == 1, "the first plugin is restarted", PATIENCE)
    one.signal(signal.SIGKILL)
    assert one.ended().code == -signal.SIGKILL, one.said
    lab.until(lambda: set(lab.restarts()) == set(lab.nodes), "every plugin was restarted", PATIENCE)
    lab.await_refreshed(NEW)
    lab.assert_clean(lab.nodes)
    assert lab.leader().startswith("two")

    relay = Relay(lab.cluster)
    three = _stand_by(lab, "three", relay.kubeconfig)
    two.signal(signal.SIGSTOP)
    lab.patch_driver(OLD)
    lab.until(lambda: lab.leader().startswith("three"), "another one leads", PATIENCE)
    two.signal(signal.SIGCONT)
    assert two.ended().code == LOST, two.said
    lab.await_refreshed(OLD)
    lab.assert_clean(sorted(lab.nodes * 2))

    relay.close()
    lab.crash()
    assert three.ended().code == LOST, three.said
    lab.until(lambda: set(lab.truth.stale_now()) == set(lab.nodes), "every plugin is stale", PATIENCE)
    four = lab.leading()
    lab.until(lambda: len(lab.restarts()) == 3 * NODES, "every plugin was restarted once more", PATIENCE)
    lab.await_refreshed(OLD)
    lab.assert_clean(sorted(lab.nodes * 3))
    four.assert_ends(STOPPED)
    assert lab.leader() == ""


def test_two_that_both_lead_and_hooks(lab: ControllerLab) -> None:
    """Two controllers with Leases of their own act at once, and runs next to them: one restart per node."""
    lab.make_stale()
    controllers = [lab.start_controller("one"), lab.start_controller("two", "--lease-name=another")]
    hooks = [lab.begin() for _ in range(2)]
    for controller, lease in zip(controllers, (LEASE, "another"), strict=True):
        lab.await_leader(controller, lease)
    for hook in hooks:
        done = hook.result()
        assert done.code == 0, done.said
    lab.assert_clean(lab.nodes)

    hook = lab.begin(f"expect.driverVersion={OLD}")
    lab.patch_driver(OLD)
    done = hook.result()
    assert done.code == 0, done.said
    lab.await_refreshed(OLD)
    lab.assert_clean(sorted(lab.nodes * 2))
    for controller in controllers:
        controller.assert_ends(STOPPED)


def test_its_pod_is_deleted_then_none_is_left(lab: ControllerLab) -> None:
    """Another replica takes over at once, and `status` names it, or that there is none."""

    def leader() -> str:
        return lab.leader().rpartition("_")[0]

    lab.deploy(**DEPLOYED)
    lab.until(
        lambda: lab.cluster.get(DEPLOYMENT).get("status", {}).get("readyReplicas", 0) == 2, "both are Ready", PATIENCE
    )
    lab.until(lambda: leader() != "", "one leads", PATIENCE)
    before = leader()
    lab.cluster.delete(f"{PODS}/{before}")
    lab.patch_driver(OLD)
    lab.await_refreshed(OLD)
    lab.assert_clean(lab.nodes)
    assert leader() not in ("", before)
    controller = lab.status()["controller"]
    assert (controller["alive"], controller["holder"]) == (True, lab.leader())

    lab.cluster.kubectl("scale", "deployment", "gpu-operator-post-controller", "-n", NAMESPACE, "--replicas=0")
    lab.until(lambda: lab.leader() == "", "the Lease was released", PATIENCE)
    assert not lab.status()["controller"]["alive"]
