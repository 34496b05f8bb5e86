"""The pod runner: real processes, and the statuses a kubelet would write of them."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from devcluster.client import STRATEGIC_PATCH, ApiError
from devcluster.watching import follow
from tests.simulator.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from devcluster.client import Api, Object
    from devcluster.cluster import Cluster


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
    """Read a pod's log the way a person does."""
    *_, namespace, _, name = pod.split("/")
    return cluster.kubectl("logs", "-n", namespace, name, *options).stdout


@pytest.mark.parametrize(
    ("code", "reason", "phase"),
    [
        pytest.param(0, "Completed", "Succeeded", id="zero"),
        pytest.param(124, "Error", "Failed", id="deadline"),
    ],
)
def test_exit_code_reaches_the_pod_status(
    cluster: Cluster, pod: Callable[..., str], code: int, reason: str, phase: str
) -> None:
    """A process's exit code becomes the container's, and decides over the pod's phase."""
    path = pod("sleep=1.1", f"exit={code}")
    end = ended(cluster, path)
    assert (end["exitCode"], end["reason"]) == (code, reason)
    assert end["startedAt"] < end["finishedAt"]
    assert until(lambda: cluster.get(path)["status"]["phase"]) == phase


def test_running_pod_is_ready_and_a_completed_one_is_not(cluster: Cluster, pod: Callable[..., str]) -> None:
    """Conditions follow the process, and say when they changed."""
    path = pod("sleep=2")
    started(cluster, path)
    before = conditions(cluster, path)
    ended(cluster, path)
    after = conditions(cluster, path)
    assert {kind: value["status"] for kind, value in before.items()} == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
        "PodScheduled": "True",
    }
    assert (after["Ready"]["status"], after["Ready"]["reason"]) == ("False", "PodCompleted")
    assert after["ContainersReady"]["lastTransitionTime"] > before["ContainersReady"]["lastTransitionTime"]
    assert after["Initialized"] == before["Initialized"]


def test_ready_is_said_again_where_the_node_was_only_silent(cluster: Cluster, pod: Callable[..., str]) -> None:
    """The node controller takes Ready away from pods of a node that it cannot hear; a kubelet gives it back."""
    path = pod("sleep=30")
    started(cluster, path)
    lost = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    cluster.patch(f"{path}/status", lost, STRATEGIC_PATCH)
    until(lambda: conditions(cluster, path)["Ready"]["status"] == "True")


def conditions(cluster: Cluster, pod: str) -> dict[str, Object]:
    """Return a pod's conditions by type."""
    return {each["type"]: each for each in cluster.get(pod)["status"]["conditions"]}


def test_logs_are_served_followed_and_cut(cluster: Cluster, pod: Callable[..., str]) -> None:
    """`kubectl logs` works as on any node: whole, the last lines, and until the end."""
    path = pod("print=one", "print=two", "sleep=2", "print=three")
    started(cluster, path)
    until(lambda: log(cluster, path) == "one\ntwo\n")
    assert log(cluster, path, "--tail=1") == "two\n"
    assert log(cluster, path, "-f") == "one\ntwo\nthree\n"


def test_termination_message_from_file(cluster: Cluster, pod: Callable[..., str]) -> None:
    """What the program writes to its termination log ends up in its status, cut at 4 KiB."""
    path = pod("message=" + "x" * 5000, "exit=3")
    assert ended(cluster, path)["message"] == "x" * 4096


@pytest.mark.parametrize(("code", "expected"), [(1, "it broke\n"), (0, None)])
def test_termination_message_falls_back_to_the_log(
    cluster: Cluster, pod: Callable[..., str], code: int, expected: str | None
) -> None:
    """FallbackToLogsOnError takes the log's end, and only on error."""
    path = pod("print=it broke", f"exit={code}", terminationMessagePolicy="FallbackToLogsOnError")
    assert ended(cluster, path).get("message") == expected


def test_environment_and_arguments_are_made_as_by_a_kubelet(
    cluster: Cluster, namespace: str, pod: Callable[..., str]
) -> None:
    """Values, fields, ConfigMaps, `$(NAME)` references and the pod's name as its host's reach the process."""
    cluster.kubectl("create", "configmap", "settings", "-n", namespace, "--from-literal=color=green")
    env = [
        {"name": "PLAIN", "value": "1"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color"}}},
        {"name": "BOTH", "value": "$(PLAIN)-$(COLOR)"},
    ]
    path = pod("environment=PLAIN,NODE,WHERE,BOTH,USER,HOSTNAME", "print=$(COLOR) $$(COLOR)", env=env)
    ended(cluster, path)
    variables, printed = log(cluster, path).splitlines()
    expected = {
        "PLAIN": "1",
        "NODE": "system-0",
        "WHERE": namespace,
        "BOTH": "1-green",
        "USER": None,
        "HOSTNAME": "probe",
    }
    assert json.loads(variables) == expected
    assert printed == "green $(COLOR)"


def test_missing_config_map_is_waited_for(cluster: Cluster, namespace: str, pod: Callable[..., str]) -> None:
    """A container whose ConfigMap is missing waits, and starts when it appears."""
    path = pod("exit=0", envFrom=[{"configMapRef": {"name": "later"}}])
    until(lambda: state_of(cluster, path).get("waiting", {}).get("reason") == "CreateContainerConfigError")
    cluster.kubectl("create", "configmap", "later", "-n", namespace)
    assert ended(cluster, path)["exitCode"] == 0


def test_service_account_token_is_real_and_bound_to_rbac(
    cluster: Cluster, namespace: str, pod: Callable[..., str]
) -> None:
    """The process speaks as its ServiceAccount: refused without a role, served with one, and audited."""
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    post = f'post={maps} {{"metadata": {{"name": "written"}}}}'
    refused = pod(f"get={maps}", post, name="refused")
    ended(cluster, refused)
    grant = ["--clusterrole=edit", f"--serviceaccount={namespace}:default", "-n", namespace]
    cluster.kubectl("create", "rolebinding", "editor", *grant)
    served = pod(f"get={maps}", post, name="served")
    ended(cluster, served)
    assert log(cluster, refused) == "GET 403\nPOST 403\n"
    assert log(cluster, served) == "GET 200\nPOST 201\n"
    written = [
        (event["verb"], event["objectRef"]["resource"], event["responseStatus"]["code"])
        for event in cluster.audit()
        if event["user"]["username"] == f"system:serviceaccount:{namespace}:default"
    ]
    assert written == [("create", "configmaps", 403), ("create", "configmaps", 201)]


def test_token_dies_with_its_pod(cluster: Cluster, pod: Callable[..., str]) -> None:
    """The token is bound to the pod, as a kubelet's tokens are: deleted pod, useless token."""
    path = pod("sleep=60")
    started(cluster, path)
    *_, namespace, _, name = path.split("/")
    token = (cluster.files.pod(namespace, name) / "serviceaccount" / "token").read_text()
    cluster.delete(path, {"gracePeriodSeconds": 0})
    until(lambda: gone(cluster, path))
    # Not asked before: the API server remembers a good token for ten seconds.
    answer = cluster.kubectl("get", "--raw=/api", f"--token={token}", check=False)
    assert "Unauthorized" in answer.stderr


def test_unknown_image_cannot_be_pulled(cluster: Cluster, pod: Callable[..., str]) -> None:
    """Nothing is ever pretended to run: an image without a program stays in ErrImagePull."""
    path = pod("exit=0", image="example.invalid/other:1")
    waiting = until(lambda: state_of(cluster, path).get("waiting", {}).get("message") and state_of(cluster, path))
    assert waiting["waiting"]["reason"] == "ErrImagePull"
    assert "example.invalid/other:1" in waiting["waiting"]["message"]
    assert cluster.get(path)["status"]["phase"] == "Pending"
    cluster.delete(path)
    until(lambda: gone(cluster, path))


def gone(cluster: Cluster, path: str) -> bool:
    """Whether an object does not exist any more."""
    try:
        cluster.get(path)
    except ApiError as error:
        return error.code == 404
    return False


def test_deletion_asks_before_it_kills(cluster: Cluster, pod: Callable[..., str]) -> None:
    """A deleted pod gets SIGTERM, and its own exit code is the last thing its status says."""
    path = pod("on-sigterm=143", "print=ready", "sleep=60")
    until(lambda: state_of(cluster, path).get("running") and log(cluster, path) == "ready\n")
    collection, name = path.rsplit("/", 1)

    async def codes(api: Api) -> list[int]:
        seen: list[int] = []
        async for event in follow(api, collection, fieldSelector=f"metadata.name={name}"):
            if event.kind == "SYNCED":
                await api.delete(path)
            if event.kind == "DELETED":
                return seen
            for status in event.object.get("status", {}).get("containerStatuses", []):
                seen += [end["exitCode"] for end in [status["state"].get("terminated")] if end]
        raise AssertionError("a watch does not end")

    assert set(cluster.run(codes)) == {143}


def test_process_that_ignores_sigterm_is_killed_after_its_grace_period(
    cluster: Cluster, pod: Callable[..., str]
) -> None:
    """The pod's grace period is honoured; it would sleep for a minute."""
    path = pod("on-sigterm=", "print=ready", "sleep=60")
    until(lambda: state_of(cluster, path).get("running") and log(cluster, path) == "ready\n")
    asked = time.monotonic()
    cluster.delete(path, {"gracePeriodSeconds": 2})
    until(lambda: gone(cluster, path), seconds=10)
    assert 1.9 <= time.monotonic() - asked < 30


def test_killed_process_is_reported_as_a_runtime_does(cluster: Cluster, pod: Callable[..., str]) -> None:
    """SIGKILL from outside (out of memory, say) is 128 + 9, and takes the process's children along."""
    path = pod("child=60", "sleep=60")
    until(lambda: state_of(cluster, path).get("running") and log(cluster, path))
    *_, namespace, _, name = path.split("/")
    pid = int((cluster.files.pod(namespace, name) / "pid").read_text())
    child = int(log(cluster, path))
    os.kill(pid, signal.SIGKILL)
    assert ended(cluster, path)["exitCode"] == 137
    until(lambda: not is_running(child))


def is_running(pid: int) -> bool:
    """Whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_failed_container_is_restarted_on_failure(cluster: Cluster, pod: Callable[..., str]) -> None:
    """With OnFailure a container gets one restart, the first end in lastState, and both logs."""
    path = pod("print=again", "fail-once=7", "exit=0", spec={"restartPolicy": "OnFailure"})
    until(lambda: cluster.get(path)["status"]["phase"] == "Succeeded")
    status = cluster.get(path)["status"]["containerStatuses"][0]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 7
    assert log(cluster, path, "--previous") == log(cluster, path) == "again\n"


def test_probes_start_show_and_restart_a_container(cluster: Cluster, pod: Callable[..., str]) -> None:
    """Not started before its startup probe passes, Ready as its readiness probe says, restarted where it is not alive.

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
    files = cluster.files.pod(path.split("/")[4], "probed") / "tmp"
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
    """Say whether a pod's container has started, whether it is ready, and how often it was restarted."""
    (only,) = cluster.get(pod)["status"]["containerStatuses"]
    return only["started"], only["ready"], only["restartCount"]


def test_a_probe_that_cannot_be_made_is_told(cluster: Cluster, pod: Callable[..., str]) -> None:
    """A container with a probe that is no HTTP request does not run as if it had none."""
    path = pod("exit=0", readinessProbe={"exec": {"command": ["true"]}})
    waiting = until(lambda: state_of(cluster, path).get("waiting", {}).get("message") and state_of(cluster, path))
    assert waiting["waiting"]["reason"] == "RunContainerError"
    assert "readinessProbe" in waiting["waiting"]["message"]


def test_init_container_runs_first_and_its_failure_fails_the_pod(cluster: Cluster, pod: Callable[..., str]) -> None:
    """The main container of a pod whose init container failed never starts."""
    init = [{"name": "init", "image": "test/probe:1", "args": ["exit=5"]}]
    path = pod("exit=0", spec={"initContainers": init})
    until(lambda: cluster.get(path)["status"]["phase"] == "Failed")
    status = cluster.get(path)["status"]
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
    assert "waiting" in status["containerStatuses"][0]["state"]


def test_pods_on_fake_nodes_are_left_alone(cluster: Cluster, pod: Callable[..., str]) -> None:
    """A pod on a GPU node is the fleet simulator's: nobody else pretends that it runs."""
    path = pod("exit=0", spec={"nodeName": "gpu-0"})
    time.sleep(2)
    assert cluster.get(path)["status"]["phase"] == "Pending"
    assert "containerStatuses" not in cluster.get(path)["status"]
