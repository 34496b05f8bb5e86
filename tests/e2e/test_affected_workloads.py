"""Affected workloads: the program reports exactly the pods that hold files of an old driver, and deletes none."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any, Final

from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, RELEASE, Boot, Lab

TEAM: Final = "team"
STATUS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{RELEASE}-status"
CLAIMS: Final = f"/apis/resource.k8s.io/v1/namespaces/{TEAM}/resourceclaims"


def _start(lab: Lab, name: str, node: str, resource: str = "") -> None:
    """Start a pod on a node with an allocated claim, or with a resource instead."""
    # As scheduler and controllers leave it.
    claim, limits = f"{name}-gpu", {resource: "1"} if resource else {}
    pod = lab.cluster.create(f"/api/v1/namespaces/{TEAM}/pods", {
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "registry.example/train", "resources": {"limits": limits}}],
            "resourceClaims": [] if resource else [{"name": "gpu", "resourceClaimName": claim}],
        },
    })  # fmt: skip
    if resource:
        return
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    lab.cluster.create(CLAIMS, {"metadata": {"name": claim}, "spec": {"devices": {"requests": [request]}}})
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": node, "device": "gpu-0"}
    consumer = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    lab.cluster.patch(f"{CLAIMS}/{claim}/status", {"status": status})


def _prepared(lab: Lab, *names: str) -> None:
    """Wait until the claims of pods are prepared, and their kubelet has reported it, in an earlier second than now."""

    def running() -> bool:
        pods = lab.cluster.list(f"/api/v1/namespaces/{TEAM}/pods")
        return {pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"} >= set(names)

    lab.until(running, f"{names} run")
    second = int(time.time())
    lab.until(lambda: int(time.time()) > second, "the next second")


def _object(lab: Lab) -> tuple[list[str], str]:
    data: dict[str, str] = lab.cluster.get(STATUS)["data"]
    return sorted(filter(None, data.get("firstAffectedPods", "").split(", "))), data.get("affectedPods", "")


def _named(pods: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(f"{pod['namespace']}/{pod['name']}" for pod in pods)


def _status(lab: Lab) -> dict[str, Any]:
    """Return what the command `status` says of affected pods."""
    done = lab.run("status", "-o", "json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)["affectedWorkloads"]
    assert found["problem"] == ""
    return found


def test_a_run_reports_what_it_does_not_repair(boot: Boot) -> None:
    """Pods from before the upgrade and from the stale time: in log, Event and status object; and in later runs."""
    lab = boot(2)
    lab.fleet(nodes=2, **ALL_AT_ONCE)
    lab.cluster.kubectl("create", "namespace", TEAM)
    _start(lab, "before", "gpu-0")
    _prepared(lab, "before")
    lab.operator(driver=NEW, **ALL_AT_ONCE)
    lab.until(lambda: lab.settled(2), "all nodes run the new driver", 90)
    _start(lab, "stale-0", "gpu-0")
    _start(lab, "stale-1", "gpu-1")
    _prepared(lab, "before", "stale-0", "stale-1")
    old = list(lab.truth.holding_old_files())
    assert old == ["team/before", "team/stale-0", "team/stale-1"]
    assert _named(_status(lab)["pods"]) == old

    lab.deploy()
    assert _object(lab) == (old, "3")
    assert _named(_status(lab)["pods"]) == old
    assert all(name in lab.log() for name in old)
    (message,) = lab.events("Job", "AffectedWorkloads")
    assert message.startswith("3 pods may hold files of an old driver: team/before on gpu-0, ")

    # A pod that comes later is healthy. A later run finds the same pods as the first one.
    _start(lab, "healthy", "gpu-0")
    _prepared(lab, "healthy")
    assert list(lab.truth.holding_old_files()) == old
    lab.deploy(trigger="again")
    assert _object(lab) == (old, "3")
    pods = lab.cluster.list(f"/api/v1/namespaces/{TEAM}/pods")
    assert ["deletionTimestamp" in pod["metadata"] for pod in pods] == [False] * 4

    # What is deleted as documented is not reported any more.
    for name in ("before", "stale-0", "stale-1"):
        lab.cluster.kubectl("delete", "-n", TEAM, f"pod/{name}", f"resourceclaim/{name}-gpu")
    lab.deploy(trigger="third")
    assert _object(lab) == ([], "0")
