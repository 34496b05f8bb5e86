"""The pods that KWOK plays on simulated nodes: those whose life is only a delay, and no others."""

from __future__ import annotations

from typing import Any, Final

import pytest
import yaml

from devcluster import patience
from devcluster.access import ApiError
from devcluster.boot.cluster import Cluster
from devcluster.boot.components import POD_STAGES
from devcluster.client import path
from devcluster.fleet.clients import HOLDS
from devcluster.fleet.faults import OUTAGE
from devcluster.fleet.kubelet import LIVES
from tests.pool import Pool

NODE, NAME = "gpu-0", "plain"
SECONDS: Final = 60.0
PODS: Final = path("v1", "pods", namespace="default")
STAGES: Final = tuple(yaml.safe_load_all(POD_STAGES.read_text(encoding="utf-8")))


@pytest.mark.parametrize("stage", STAGES, ids=[stage["metadata"]["name"] for stage in STAGES])
def test_pods_with_a_life_of_their_own_are_passed_over(stage: dict[str, Any]) -> None:
    """By the names of their containers, by the annotation of what holds a driver, and by their claims."""
    passed = {each["key"]: set(each.get("values", [])) for each in stage["spec"]["selector"]["matchExpressions"]}
    assert passed[".spec.containers.[].name"] == set(LIVES)
    assert {f'.metadata.annotations["{HOLDS}"]', ".spec.resourceClaims.[].name"} <= passed.keys()


def test_a_pod_is_ready_and_then_gone(pool: Pool) -> None:
    """It is Ready soon, again after an outage of its node and with the same containers, and goes when it is deleted."""
    cluster = pool.take(1)
    main, init = ({"name": name, "image": "image"} for name in ("main", "init"))
    spec = {"nodeName": NODE, "containers": [main], "initContainers": [init]}
    cluster.create(PODS, {"metadata": {"name": NAME}, "spec": spec})
    patience.until(lambda: is_ready(cluster), "the pod is Ready", SECONDS)
    before = cluster.get(f"{PODS}/{NAME}")["status"]
    assert (before["phase"], before["initContainerStatuses"][0]["state"]["terminated"]["exitCode"]) == ("Running", 0)
    outage(cluster, "true")
    patience.until(lambda: not is_ready(cluster), "the node is lost", SECONDS)
    outage(cluster, None)
    patience.until(lambda: is_ready(cluster), "the node is back", SECONDS)
    assert cluster.get(f"{PODS}/{NAME}")["status"]["containerStatuses"] == before["containerStatuses"]
    cluster.delete(f"{PODS}/{NAME}")
    patience.until(lambda: is_gone(cluster), "the pod is gone", SECONDS)


def outage(cluster: Cluster, value: str | None) -> None:
    """Begin or end an outage of the node."""
    cluster.patch(f"{path('v1', 'nodes')}/{NODE}", {"metadata": {"labels": {OUTAGE: value}}})


def is_ready(cluster: Cluster) -> bool:
    """Return whether the pod is Ready."""
    conditions = cluster.get(f"{PODS}/{NAME}").get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def is_gone(cluster: Cluster) -> bool:
    """Return whether the pod is no more."""
    try:
        cluster.get(f"{PODS}/{NAME}")
    except ApiError as error:
        return error.reason == "NotFound"
    return False
