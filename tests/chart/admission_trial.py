"""What tests of the guard do: wait until it is in effect, try things, and judge the answers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from devcluster.client import path
from devcluster.patience import TooSlowError
from hook.kube.events import COMPONENT
from tests.chart.admission_scene import DRA, HOME, PLUGIN

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from devcluster.cluster import Cluster
    from tests.chart.admission_scene import Account, Answer

PATIENCE: Final = 120.0
"""For a busy machine: a policy takes effect within a second or two of its creation."""
MORE: Final = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete", "deletecollection"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["patch"]},
)
"""Rights that the chart does not grant, or not to all: what is refused all the same is refused by the guard."""
PARTS: Final = ("pods", "daemonsets", "events")
"""What each of the guard's policies is about."""
GROUP: Final = "admissionregistration.k8s.io/v1"
EVENTS: Final = path("v1", "events", namespace=DRA)
OWN: Final = {"source": {"component": COMPONENT}, "reportingComponent": COMPONENT}


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for a condition; too long a wait is tried once more."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise TooSlowError(f"not within {PATIENCE:.0f} s: {what}")
        time.sleep(0.2)


def pods_of(cluster: Cluster, namespace: str, workload: str) -> list[str]:
    """Name the pods of a workload of the scene."""
    found = cluster.list(path("v1", "pods", namespace=namespace), labelSelector=f"workload={workload}")
    return sorted(str(pod["metadata"]["name"]) for pod in found)


def pod_of(cluster: Cluster, namespace: str, name: str, kind: str = "DaemonSet") -> str:
    """Give the path of a workload's pod, once its controller has made it."""
    until(lambda: bool(pods_of(cluster, namespace, f"{kind}-{name}")), f"{kind} {namespace}/{name} has a pod")
    return path("v1", "pods", namespace=namespace, name=pods_of(cluster, namespace, f"{kind}-{name}")[0])


def in_effect(account: Account, pod: str, daemonset: str) -> None:
    """Wait until both policies of an account say no."""
    until(lambda: account.delete(pod).refused_by_guard, "the guard of pods is in effect")
    patch = {"metadata": {"labels": {"a": "b"}}}
    until(lambda: account.patch(daemonset, patch).refused_by_guard, "the guard of DaemonSets is in effect")


def as_it_is(cluster: Cluster, pod: str) -> dict[str, str]:
    """Give the preconditions by which the program deletes this very pod."""
    metadata = cluster.get(pod)["metadata"]
    return {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}


def on_a_node(cluster: Cluster, pod: str) -> bool:
    """Whether a node has the pod: before, the API server deletes it at once whatever the grace."""
    return bool(cluster.get(pod)["spec"].get("nodeName"))


def daemonset(namespace: str, name: str) -> str:
    """Give the path of a DaemonSet."""
    return path("apps/v1", "daemonsets", namespace=namespace, name=name)


def event(name: str, kind: str = "DaemonSet", **more: object) -> dict[str, Any]:
    """Describe an event as the program writes it."""
    about = {"kind": kind, "name": PLUGIN, "namespace": DRA}
    return {"metadata": {"name": name, "namespace": DRA}, "involvedObject": about, "reason": "Test", **OWN, **more}


def judge(subtests: pytest.Subtests, allowed: dict[str, Answer], refused: dict[str, Answer]) -> None:
    """Assert what came of everything that was tried: a refusal must be the guard's."""
    for what, answer in allowed.items():
        with subtests.test(f"allowed: {what}"):
            assert answer.code == 200, answer.message
    for what, answer in refused.items():
        with subtests.test(f"refused: {what}"):
            assert answer.refused_by_guard, answer


def assert_no_warnings(cluster: Cluster, names: list[str], parts: tuple[str, ...] = PARTS) -> None:
    """Wait until the API server has checked the types of every expression, and take no warning for granted."""
    wanted = {f"{HOME}.{name}.{part}" for name in names for part in parts}

    def statuses() -> list[dict[str, Any]]:
        items = cluster.list(path(GROUP, "validatingadmissionpolicies"))
        return [item.get("status", {}) for item in items if item["metadata"]["name"] in wanted]

    until(lambda: sum("typeChecking" in status for status in statuses()) == len(wanted), "the types are checked")
    assert [status["typeChecking"].get("expressionWarnings", []) for status in statuses()] == [[]] * len(wanted)


def image(tag: str, **metadata: object) -> dict[str, Any]:
    """Describe a change of an image, and of more of the template."""
    containers = [{"name": "main", "image": f"example.invalid/nothing:{tag}"}]
    return {"spec": {"template": {"metadata": metadata, "spec": {"containers": containers}}}}
