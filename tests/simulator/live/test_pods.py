"""The pod runner: real processes, and the statuses a kubelet would write of them.

That Helm succeeds and fails with the process of its hook, each test of tests/e2e asserts.
"""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Final

import pytest

from devcluster.client import STRATEGIC_PATCH, ApiError
from devcluster.processes import start_mark
from devcluster.watching import follow
from tests.simulator.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from devcluster.client import Api, Object
    from devcluster.cluster import Cluster

pytestmark = pytest.mark.e2e

FALLBACK: Final = {"terminationMessagePolicy": "FallbackToLogsOnError"}


def state_of(cluster: Cluster, pod: str) -> Object:
    """Return the state of a pod's first container."""
    return dict((cluster.get(pod)["status"].get("containerStatuses") or [{"state": {}}])[0]["state"])


def ended(cluster: Cluster, pod: str) -> Object:
    """Wait for a container's end and return it."""
    return until(lambda: dict(state_of(cluster, pod).get("terminated", {})))


def started(cluster: Cluster, pod: str) -> Object:
    """Wait for a container's start and return it."""
    return until(lambda: dict(state_of(cluster, pod).get("running", {})))


def log(cluster: Cluster, pod: str, *options: str) -> str:
    """Read a pod's log as `kubectl logs` shows it."""
    *_, namespace, _, name = pod.split("/")
    return cluster.kubectl("logs", "-n", namespace, name, *options).stdout


def conditions(cluster: Cluster, pod: str) -> dict[str, Object]:
    """Return a pod's conditions by type."""
    return {each["type"]: each for each in cluster.get(pod)["status"].get("conditions", [])}


def files_of(cluster: Cluster, pod: str) -> Path:
    """Return the folder in which a pod's process finds its files."""
    *_, namespace, _, name = pod.split("/")
    return cluster.files.pod(namespace, name) / "tmp"


def let_go(cluster: Cluster, pod: str) -> None:
    """Let a process continue that waits for this."""
    (files_of(cluster, pod) / "go").touch()


def gone(cluster: Cluster, path: str) -> bool:
    """Whether an object does not exist any more."""
    try:
        cluster.get(path)
    except ApiError as error:
        return error.code == 404
    return False


def test_how_a_container_ends(cluster: Cluster, pod: Callable[..., str]) -> None:
    """The exit code decides over reason and phase; the message is from the file, cut, or from the log on an error."""
    cases = {
        "completed": (("sleep=1.1", "exit=0"), {}, (0, "Completed", "Succeeded", None)),
        "deadline": (("sleep=1.1", "exit=124"), {}, (124, "Error", "Failed", None)),
        "message": (("message=" + "x" * 5000, "exit=3"), {}, (3, "Error", "Failed", "x" * 4096)),
        "from-the-log": (("print=it broke", "exit=1"), FALLBACK, (1, "Error", "Failed", "it broke\n")),
        "not-an-error": (("print=it broke", "exit=0"), FALLBACK, (0, "Completed", "Succeeded", None)),
    }
    paths = {name: pod(*args, name=name, **more) for name, (args, more, _expected) in cases.items()}
    for name, (args, _more, expected) in cases.items():
        end = ended(cluster, paths[name])
        until(lambda path=paths[name]: cluster.get(path)["status"]["phase"] in ("Succeeded", "Failed"))  # type: ignore[misc]
        phase = cluster.get(paths[name])["status"]["phase"]
        assert (end["exitCode"], end["reason"], phase, end.get("message")) == expected, name
        assert end["startedAt"] < end["finishedAt"] or "sleep=1.1" not in args, name


def test_conditions_follow_the_process(cluster: Cluster, pod: Callable[..., str]) -> None:
    """A running pod is Ready, also after its node was only silent; a completed one is not; times move with changes."""
    path = pod("serve=:8080", "exit=0")
    started(cluster, path)
    until(lambda: conditions(cluster, path)["Ready"]["status"] == "True")
    before = conditions(cluster, path)
    wanted = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    assert {kind: each["status"] for kind, each in before.items()} == dict.fromkeys(wanted, "True")
    lost = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    cluster.patch(f"{path}/status", lost, STRATEGIC_PATCH)
    until(lambda: conditions(cluster, path)["Ready"]["status"] == "True")
    done = pod("await=go", "sleep=1.1", "exit=0", name="done")
    until(lambda: conditions(cluster, done).get("Ready", {}).get("status") == "True")
    ready = conditions(cluster, done)
    let_go(cluster, done)
    ended(cluster, done)
    after = conditions(cluster, done)
    assert (after["Ready"]["status"], after["Ready"]["reason"]) == ("False", "PodCompleted")
    assert after["ContainersReady"]["lastTransitionTime"] > ready["ContainersReady"]["lastTransitionTime"]
    assert after["Initialized"] == ready["Initialized"]


def test_logs_are_served_followed_and_cut(cluster: Cluster, pod: Callable[..., str]) -> None:
    """`kubectl logs` works as on any node: whole, the last lines, and until the end."""
    path = pod("print=one", "print=two", "await=go", "print=three")
    started(cluster, path)
    until(lambda: log(cluster, path) == "one\ntwo\n")
    assert log(cluster, path, "--tail=1") == "two\n"
    let_go(cluster, path)
    assert log(cluster, path, "-f") == "one\ntwo\nthree\n"


def test_environment_and_arguments(cluster: Cluster, namespace: str, pod: Callable[..., str]) -> None:
    """Values, fields, ConfigMaps and `$(NAME)` reach the process; a container waits for a ConfigMap that is missing."""
    fields = {"NODE": "spec.nodeName", "WHERE": "metadata.namespace", "IP": "status.podIP"}
    env = [
        {"name": "PLAIN", "value": "1"},
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color"}}},
        {"name": "BOTH", "value": "$(PLAIN)-$(COLOR)"},
    ]
    words = ("environment=PLAIN,NODE,WHERE,IP,BOTH,USER,HOSTNAME", "print=$(COLOR) $$(COLOR) $(MISSING) $PLAIN")
    path = pod(*words, env=env)
    until(lambda: state_of(cluster, path).get("waiting", {}).get("reason") == "CreateContainerConfigError")
    cluster.kubectl("create", "configmap", "settings", "-n", namespace, "--from-literal=color=green")
    assert ended(cluster, path)["exitCode"] == 0
    variables, printed = log(cluster, path).splitlines()
    assert json.loads(variables) == {
        "PLAIN": "1", "NODE": "system-0", "WHERE": namespace, "IP": "127.0.0.1", "BOTH": "1-green",
        "USER": None, "HOSTNAME": "probe",
    }  # fmt: skip
    assert printed == "green $(COLOR) $(MISSING) $PLAIN"


def test_the_token_is_real_bound_to_rbac_and_to_its_pod(
    cluster: Cluster, namespace: str, pod: Callable[..., str]
) -> None:
    """The process is its ServiceAccount: refused without a role, allowed with one, audited; its token ends with it."""
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    post = f'post={maps} {{"metadata": {{"name": "written"}}}}'
    refused = pod(f"get={maps}", post, name="refused")
    ended(cluster, refused)
    grant = ["--clusterrole=edit", f"--serviceaccount={namespace}:default", "-n", namespace]
    cluster.kubectl("create", "rolebinding", "editor", *grant)
    allowed = pod(f"get={maps}", post, "sleep=60", name="allowed")
    until(lambda: log(cluster, allowed) == "GET 200\nPOST 201\n" if started(cluster, allowed) else False)
    assert log(cluster, refused) == "GET 403\nPOST 403\n"
    written = [
        (event["verb"], event["objectRef"]["resource"], event["responseStatus"]["code"])
        for event in cluster.audit()
        if event["user"]["username"] == f"system:serviceaccount:{namespace}:default"
    ]
    assert written == [("create", "configmaps", 403), ("create", "configmaps", 201)]
    unused = pod("sleep=60", name="unused")
    started(cluster, unused)
    token = (cluster.files.pod(namespace, "unused") / "serviceaccount" / "token").read_text()
    cluster.delete(unused, {"gracePeriodSeconds": 0})
    until(lambda: gone(cluster, unused))
    # Not asked before: the API server remembers a good token for ten seconds.
    answer = cluster.kubectl("get", "--raw=/api", f"--token={token}", check=False)
    assert "Unauthorized" in answer.stderr


def test_what_cannot_run_waits_with_its_reason(cluster: Cluster, pod: Callable[..., str]) -> None:
    """An image without a program, or a probe that is no HTTP request: nothing only seems to run."""
    for name, spec, reason, message in (
        ("image", {"image": "example.invalid/other:1"}, "ErrImagePull", "example.invalid/other:1"),
        ("probe", {"readinessProbe": {"exec": {"command": ["true"]}}}, "RunContainerError", "readinessProbe"),
    ):
        path = pod("exit=0", name=name, **spec)
        until(lambda path=path: state_of(cluster, path).get("waiting", {}).get("message"))  # type: ignore[misc]
        waiting = state_of(cluster, path)["waiting"]
        assert waiting["reason"] == reason, name
        assert message in waiting["message"], name
        assert cluster.get(path)["status"]["phase"] == "Pending", name
        cluster.delete(path)
        until(lambda path=path: gone(cluster, path))  # type: ignore[misc]


def test_deletion_asks_before_it_kills(cluster: Cluster, pod: Callable[..., str]) -> None:
    """A deleted pod gets SIGTERM, and SIGKILL after its grace period; its exit code is the last of its statuses."""
    for name, answer, grace, expected in (("obeys", "143", 30, 143), ("ignores", "", 2, 137)):
        path = pod(f"on-sigterm={answer}", "print=ready", "sleep=60", name=name)
        until(lambda path=path: state_of(cluster, path).get("running") and log(cluster, path) == "ready\n")  # type: ignore[misc]
        assert set(cluster.run(lambda api, path=path, grace=grace: deleted(api, path, grace))) == {expected}, name  # type: ignore[misc]


async def deleted(api: Api, path: str, grace: int) -> list[int]:
    """Delete a pod and return the exit codes that its statuses have until it is gone."""
    seen: list[int] = []
    collection, name = path.rsplit("/", 1)
    async for event in follow(api, collection, fieldSelector=f"metadata.name={name}"):
        if event.kind == "SYNCED":
            await api.delete(path, {"gracePeriodSeconds": grace})
        if event.kind == "DELETED":
            return seen
        for status in event.object.get("status", {}).get("containerStatuses", []):
            seen += [end["exitCode"] for end in [status["state"].get("terminated")] if end]
    raise AssertionError("a watch does not end")


def test_a_killed_process_is_reported_as_a_runtime_does(cluster: Cluster, pod: Callable[..., str]) -> None:
    """SIGKILL from outside (out of memory, for example) is 128 + 9, and ends the process's children too."""
    path = pod("child=60", "sleep=60")
    until(lambda: state_of(cluster, path).get("running") and log(cluster, path))
    *_, namespace, _, name = path.split("/")
    child = int(log(cluster, path))
    os.kill(int((cluster.files.pod(namespace, name) / "pid").read_text()), signal.SIGKILL)
    assert ended(cluster, path)["exitCode"] == 137
    until(lambda: start_mark(child) is None)


def test_containers_that_fail(cluster: Cluster, pod: Callable[..., str]) -> None:
    """With OnFailure a container is restarted, and both ends and logs stay; a failed init container fails the pod."""
    path = pod("print=again", "fail-once=7", "exit=0", spec={"restartPolicy": "OnFailure"})
    until(lambda: cluster.get(path)["status"]["phase"] == "Succeeded")
    (restarted,) = cluster.get(path)["status"]["containerStatuses"]
    assert (restarted["restartCount"], restarted["lastState"]["terminated"]["exitCode"]) == (1, 7)
    assert log(cluster, path, "--previous") == log(cluster, path) == "again\n"
    init = [{"name": "init", "image": "test/probe:1", "args": ["exit=5"]}]
    other = pod("exit=0", name="other", spec={"initContainers": init})
    until(lambda: cluster.get(other)["status"]["phase"] == "Failed")
    status = cluster.get(other)["status"]
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
    assert "waiting" in status["containerStatuses"][0]["state"]


def test_probes_start_show_and_restart_a_container(cluster: Cluster, pod: Callable[..., str]) -> None:
    """Not started before its startup probe passes, Ready as its readiness probe says, restarted when it is not alive.

    The port is the container's own: two pods that listen on the same one do not meet.
    """
    every = {"periodSeconds": 1, "failureThreshold": 2}
    probes = {
        f"{kind}Probe": {"httpGet": {"path": f"/{kind}", "port": "web"}, **every, **more}
        for kind, more in (("startup", {"failureThreshold": 100}), ("liveness", {}), ("readiness", {}))
    }
    ports = [{"name": "web", "containerPort": 8080}]
    always = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 1}
    path, neighbour = (
        pod("serve=:8080", name=name, ports=ports, spec=always, **probes) for name in ("probed", "neighbour")
    )
    files = files_of(cluster, path)
    started(cluster, path)
    assert (shown(cluster, path), conditions(cluster, path)["Ready"]["status"]) == ((False, False, 0), "False")
    (files / "liveness").touch()
    (files / "startup").touch()
    until(lambda: shown(cluster, path) == (True, False, 0))
    (files / "readiness").touch()
    until(lambda: shown(cluster, path) == (True, True, 0))
    until(lambda: conditions(cluster, path)["Ready"]["status"] == "True")
    (files / "readiness").unlink()
    until(lambda: shown(cluster, path) == (True, False, 0))
    assert conditions(cluster, path)["ContainersReady"]["reason"] == "ContainersNotReady"
    (files / "liveness").unlink()
    until(lambda: shown(cluster, path)[2] == 1)
    (files / "liveness").touch()
    (files / "readiness").touch()
    until(lambda: shown(cluster, path)[:2] == (True, True), 60)
    assert shown(cluster, neighbour) == (False, False, 0)


def shown(cluster: Cluster, pod: str) -> tuple[bool, bool, int]:
    """Return whether a pod's container has started, whether it is ready, and how often it was restarted."""
    (only,) = cluster.get(pod)["status"]["containerStatuses"]
    return only["started"], only["ready"], only["restartCount"]
