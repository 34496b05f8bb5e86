"""The follower as the chart deploys it: beside the hook, with its own rights, probed, and in the hook's place."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.e2e.acts import PATIENCE
from tests.e2e.controller.ground import LEASE
from tests.e2e.lab import NAMESPACE, NEW, OLD, RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.controller.ground import Field

pytestmark = pytest.mark.e2e

NODES = 3
DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/gpu-operator-post-controller"
ACCOUNT: Final = "gpu-operator-post-controller"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
FOLLOWERS: Final = "app.kubernetes.io/component=controller"
FOLLOWED: Final[dict[str, Any]] = {"controller__enabled": True, "controller__replicas": 2}


@pytest.fixture(autouse=True)
def _uninstalled(field: Field) -> Iterator[None]:
    """Take the chart away after each story, and wait until nobody follows."""
    yield
    field.cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--ignore-not-found")
    field.until(lambda: field.cluster.list(PODS, labelSelector=FOLLOWERS) == [], "no follower is left", PATIENCE)


def _ready(field: Field) -> int:
    """Count the follower's pods that are Ready, as the Deployment's controller does."""
    return int(field.cluster.get(DEPLOYMENT).get("status", {}).get("readyReplicas", 0))


def _told(field: Field) -> Counter[str]:
    """Count what the Job and the Deployment have been seen to do so far."""
    return Counter(
        {
            "handed over": len(field.events("Job", "Delegated")),
            "restarts": field.writes(ACCOUNT).count("delete pods"),
            "restarts told": len(field.events("Deployment", "StalePluginRestarted")),
        }
    )


def _leader(field: Field) -> str:
    """Name the pod that leads; its identity is its name and something random."""
    return field.leader().rpartition("_")[0]


def test_handed_over(field: Field) -> None:
    """The Job ends while a node cannot be served yet, and says who serves it; the follower does, and nobody twice.

    The Job has no right to restart anything then; the follower's own rights, under its guard, are enough.
    """
    installed = field.post(**FOLLOWED)
    assert installed.code == 0, installed.output
    field.until(lambda: _ready(field) == 2, "both followers are Ready", PATIENCE)

    before = _told(field)
    field.annotate("gpu-2", "driver-fault", "unready")
    try:
        field.patch_driver(OLD)
        done = field.post(job__mode="delegate", expect__driverVersion=OLD, **FOLLOWED)
        assert done.code == 0, done.output
        assert "gpu-2" not in field.restarts()
    finally:
        field.annotate("gpu-2", "driver-fault", None)
    assert field.story()["reason"] == "Delegated"
    assert "nodes remaining" in field.story()["message"]
    field.await_served(OLD)
    field.assert_clean(field.nodes)
    assert field.writes() == []
    expected = {"handed over": 1, "restarts": NODES, "restarts told": NODES}
    field.until(lambda: _told(field) - before == expected, "every restart is told at the Deployment, once", PATIENCE)


def test_its_pod_is_deleted_then_nobody_follows(field: Field) -> None:
    """Another replica takes over at once, and `status` says who; where none is left, a handover waits in vain."""
    installed = field.post(**FOLLOWED)
    assert installed.code == 0, installed.output
    field.until(lambda: _ready(field) == 2 and _leader(field) != "", "both are Ready, one leads", PATIENCE)
    before = _leader(field)
    field.cluster.delete(f"{PODS}/{before}")
    field.patch_driver(OLD)
    field.await_served(OLD)
    field.assert_clean(field.nodes)
    assert _leader(field) not in ("", before)
    told = field.status()["controller"]
    assert (told["alive"], told["holder"]) == (True, field.leader())

    field.cluster.kubectl("scale", "deployment", ACCOUNT, "-n", NAMESPACE, "--replicas=0")
    field.until(lambda: field.leader() == "", "the Lease was released", PATIENCE)
    told = field.status()["controller"]
    assert not told["alive"]
    field.began = time.time()
    field.patch_driver(NEW)
    alone = field.begin("job.mode=delegate", f"--lease-namespace={NAMESPACE}", f"--lease-name={LEASE}", timeout="25s")
    end = alone.told()
    assert end.code == 124, end.said
    assert end.story["next"].startswith("ControllerMissing")
    assert f"{NAMESPACE}/{LEASE}" in end.story["message"]
    field.assert_untouched()
