"""What a real API server admits of all this: the program ends as documented, and names what it cannot read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.e2e import acts
from tests.e2e.conftest import boot
from tests.e2e.lab import NAMESPACE, NEW, PLUGIN_NAMESPACE
from tests.promises import promised
from tests.properties.mutations import ESCAPES, MEBIBYTE
from tests.properties.schemas import FILE, KINDS, reduced

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.acts import Told
    from tests.e2e.lab import Lab

__all__ = ["boot"]
pytestmark = pytest.mark.e2e

POLICY: Final = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
FUTURE: Final = "2099-01-01T00:00:00Z"
SHOWN: Final = ESCAPES.replace("\x00", "")
"""NUL is all that the API server takes out of a status, by refusing it in storage."""


def test_hostile_objects_that_the_api_server_admits(boot: Callable[..., Lab], subtests: pytest.Subtests) -> None:
    """Of three stale nodes the good one is refreshed, the others are named; a policy that cannot be read is named."""
    lab = boot(3)
    with subtests.test("the stored schemas are what this API server says"):
        _assert_schemas(lab)
    lab.stale_fleet(nodes=3)
    # Its operator would repair, or choke on, what is put into the policy.
    lab.cluster.kubectl("scale", "deployment", "gpu-operator", "-n", NAMESPACE, "--replicas=0")
    padded = {"metadata": {"annotations": {"example.com/note": MEBIBYTE[:200_000] + SHOWN}}}
    for path in ("/api/v1/nodes/gpu-0", _pod(lab, PLUGIN_NAMESPACE, "gpu-0"), POLICY):
        lab.cluster.patch(path, padded)
    _forge_plugin(lab, "gpu-1")
    _forge_driver(lab, "gpu-2")
    told = _run(lab, "stallTimeout=15s", code=124)
    assert {"gpu-1": "MalformedObject", "gpu-2": "DriverFailing"} == told.reasons()
    assert "started after all containers were ready" in told.said
    with promised():
        assert ["gpu-0"] == lab.restarts()
    for event in lab.events("DaemonSet", told.story["reason"]):
        assert event.isprintable()
    for name, spec, repaired in (
        ("a version of half a mebibyte", {"driver": {"version": MEBIBYTE[:500_000]}}, {"driver": {"version": NEW}}),
        ("wrong types", {"driver": {"rdma": {"enabled": SHOWN}}}, {"driver": {"rdma": {"enabled": False}}}),
    ):
        with subtests.test(name):
            lab.cluster.patch(POLICY, {"spec": spec})
            told = _run(lab, "stallTimeout=3s", code=124)
            assert "ClusterPolicy cluster-policy" in told.story["message"]
            lab.cluster.patch(POLICY, {"spec": repaired})
    with subtests.test("nested deeper than Python reads"):
        deep = '{"spec":{"deep":' + '{"a":' * 3000 + "1" + "}" * 3002
        lab.cluster.kubectl("patch", "clusterpolicy", "cluster-policy", "--type=merge", "-p", deep)
        assert "clusterpolicies" in _run(lab, code=1).said
    with promised():
        assert ["gpu-0"] == lab.restarts()


def _run(lab: Lab, *words: str, code: int) -> Told:
    """Run to this exit code: nothing in what is said is obeyed by a terminal, or cut in the middle of its JSON."""
    told = acts.run(lab, *words, timeout="60s")
    assert told.code == code, told.said
    assert "Traceback" not in told.said
    assert all(line.isprintable() for line in told.said.split("\n"))
    assert len(json.dumps(told.story)) <= 4096
    return told


def _assert_schemas(lab: Lab) -> None:
    """Compare what the fuzzing goes by with the server's own OpenAPI."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    for kind, (document, name) in KINDS.items():
        schemas = lab.cluster.get(f"/openapi/v3/{document}")["components"]["schemas"]
        assert stored[kind] == reduced(schemas, name), kind


def _forge_plugin(lab: Lab, node: str) -> None:
    """Let a stale plugin claim to have started long after its driver was ready."""
    path = _pod(lab, PLUGIN_NAMESPACE, node)
    statuses = lab.cluster.get(path)["status"]["containerStatuses"]
    for each in statuses:
        each["state"] = {"running": {"startedAt": FUTURE}}
    lab.cluster.patch(f"{path}/status", {"status": {"containerStatuses": statuses}})


def _forge_driver(lab: Lab, node: str) -> None:
    """Let a driver's container fail, with words that a terminal would obey, and too many of them."""
    path = _pod(lab, NAMESPACE, node)
    status: Any = lab.cluster.get(path)["status"]
    waiting = {"reason": "CrashLoopBackOff", "message": SHOWN + MEBIBYTE[:100_000]}
    for each in status["containerStatuses"]:
        each |= {"state": {"waiting": waiting}, "ready": False, "started": False}
    for each in status["conditions"]:
        each["status"] = "False" if each["type"] in ("Ready", "ContainersReady") else each["status"]
    changed = {"containerStatuses": status["containerStatuses"], "conditions": status["conditions"]}
    lab.cluster.patch(f"{path}/status", {"status": changed})


def _pod(lab: Lab, namespace: str, node: str) -> str:
    """Give the path of a node's only pod of a kind."""
    kinds = {NAMESPACE: "nvidia-driver-ctr", PLUGIN_NAMESPACE: "gpus"}
    pods = lab.cluster.list(f"/api/v1/namespaces/{namespace}/pods", fieldSelector=f"spec.nodeName={node}")
    (name,) = [
        pod["metadata"]["name"]
        for pod in pods
        if any(each["name"] == kinds[namespace] for each in pod["spec"]["containers"])
    ]
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
