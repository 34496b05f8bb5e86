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
LARGE: Final = MEBIBYTE[:500_000]
"""Two of them fit into what etcd keeps of one object (1.5 MiB)."""
SHOWN: Final = ESCAPES.replace("\x00", "")
"""NUL is all that the API server takes out of a status, by refusing it in storage."""
ONCE_STALLED: Final = ("stallTimeout=15s",)
"""Nothing moves any more: no need to wait for the whole time."""


def test_hostile_objects_that_the_api_server_admits(boot: Callable[..., Lab], subtests: pytest.Subtests) -> None:
    """Of three stale nodes the good one is refreshed, the others are named; later all is repaired."""
    lab = boot(3)
    with subtests.test("the stored schemas are what this API server says"):
        _assert_schemas(lab)
    lab.stale_fleet(nodes=3)
    # Its operator would mend, or choke on, what is put into the policy.
    lab.cluster.kubectl("scale", "deployment", "gpu-operator", "-n", NAMESPACE, "--replicas=0")
    _pad(lab)
    _forge_plugin(lab, "gpu-1")
    _forge_driver(lab, "gpu-2")

    told = acts.run(lab, *ONCE_STALLED)
    _assert_clean_words(told)
    assert (told.code, told.story["phase"]) == (124, "Deadline"), told.said
    assert {"gpu-1": "MalformedObject", "gpu-2": "DriverFailing"} == told.reasons()
    assert "started after all containers were ready" in told.said
    with promised():
        assert ["gpu-0"] == lab.restarts()
    for event in lab.events("DaemonSet", told.story["reason"]):
        assert event.isprintable()

    with subtests.test("a policy with half a mebibyte for a version"):
        _assert_blind(lab, {"driver": {"version": LARGE}}, {"driver": {"version": NEW}})
    with subtests.test("a policy that is nested without end"):
        _assert_too_deep(lab)
    with subtests.test("a policy with the wrong types"):
        _assert_blind(lab, {"driver": {"rdma": {"enabled": SHOWN}}}, {"driver": {"rdma": {"enabled": False}}})

    _repair(lab)
    done = acts.run(lab)
    assert done.code == 0, done.said
    with promised():
        assert lab.truth.stale_now() == ()
        assert lab.truth.early_restarts(since=lab.began) == ()
        assert lab.truth.needless_restarts(since=lab.began) == ()


def _assert_schemas(lab: Lab) -> None:
    """Compare what the fuzzing goes by with the server's own OpenAPI."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    for kind, (document, name) in KINDS.items():
        schemas = lab.cluster.get(f"/openapi/v3/{document}")["components"]["schemas"]
        assert stored[kind] == reduced(schemas, name), kind


def _pad(lab: Lab) -> None:
    """Give a node, a plugin's pod and the policy the largest annotations that are admitted, with escapes."""
    padded = {"metadata": {"annotations": {"example.com/note": MEBIBYTE[:200_000] + SHOWN}}}
    for path in ("/api/v1/nodes/gpu-0", _pod(lab, PLUGIN_NAMESPACE, "gpu-0"), POLICY):
        lab.cluster.patch(path, padded)
    lab.cluster.patch(POLICY, {"spec": {"note": LARGE + SHOWN}})


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


def _assert_blind(lab: Lab, spec: dict[str, Any], repaired: dict[str, Any]) -> None:
    """Put something into the policy: it is named, nothing is concluded, nothing is touched; and take it out again."""
    lab.cluster.patch(POLICY, {"spec": spec})
    before = lab.restarts()
    told = acts.run(lab, "stallTimeout=3s", timeout="60s")
    _assert_clean_words(told)
    assert told.code == 124, told.said
    assert "ClusterPolicy cluster-policy" in told.story["message"]
    with promised():
        assert before == lab.restarts()
    lab.cluster.patch(POLICY, {"spec": repaired})


def _assert_too_deep(lab: Lab) -> None:
    """Nest the policy deeper than Python reads: that is no traceback, and what it is about is said."""
    deep = '{"a":' * 3000 + "1" + "}" * 3000
    lab.cluster.kubectl(
        "patch", "clusterpolicy", "cluster-policy", "--type=merge", "-p", f'{{"spec":{{"deep":{deep}}}}}'
    )
    told = acts.run(lab, timeout="60s")
    _assert_clean_words(told)
    assert told.code == 1, told.said
    assert "clusterpolicies" in told.said
    lab.cluster.kubectl("patch", "clusterpolicy", "cluster-policy", "--type=merge", "-p", '{"spec":{"deep":null}}')


def _assert_clean_words(told: Told) -> None:
    """Nothing in what was said is obeyed by a terminal, and nothing is cut in the middle of its JSON."""
    assert "Traceback" not in told.said
    assert all(line.isprintable() for line in told.said.split("\n"))
    assert len(json.dumps(told.story)) <= 4096


def _repair(lab: Lab) -> None:
    """Replace both forged pods, and let the operator work again."""
    acts.delete_driver(lab, "gpu-2")
    lab.cluster.delete(_pod(lab, PLUGIN_NAMESPACE, "gpu-1"))
    lab.cluster.patch(POLICY, {"spec": {"note": None}})
    lab.cluster.kubectl("scale", "deployment", "gpu-operator", "-n", NAMESPACE, "--replicas=1")


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
