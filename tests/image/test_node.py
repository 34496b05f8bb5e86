"""The real node itself: it takes the pods of its images and no others, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devcluster.access import ApiError
from devcluster.kubelet.names import REAL_NODE, Files
from devcluster.kubelet.node import PROCESS, first_process
from devcluster.layout import SYSTEM_NODE
from tests.image.conftest import default_image
from tests.image.node import PODS as LAB_PODS
from tests.simulator.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.image.node import NodeLab

PATIENCE_SECONDS = 90
PODS = "/api/v1/namespaces/default/pods"


def test_it_is_a_node_and_leaves_nothing_behind(boot: Callable[[int], NodeLab]) -> None:
    """A pod of its image is put there, another one is not; when the recorded process dies, all of it is gone."""
    lab = boot(0)
    cluster = lab.cluster
    cluster.create(PODS, _pod("ours", default_image()))
    cluster.create(PODS, _pod("other", "example.invalid/gpu-operator:1"))
    assert until(lambda: _node(lab, "ours"), PATIENCE_SECONDS) == REAL_NODE
    assert until(lambda: _node(lab, "other"), PATIENCE_SECONDS) == SYSTEM_NODE
    until(lambda: cluster.get(f"{PODS}/ours")["status"]["phase"] == "Succeeded", PATIENCE_SECONDS)
    assert "version" in cluster.kubectl("logs", "ours").stdout

    (record,) = [each for each in cluster.status() if each.name == PROCESS]
    first = first_process(record.pid)
    folders = [Path(line) for line in Files.of(cluster.files).cgroups.read_text().splitlines()]
    assert folders
    assert all(folder.is_dir() for folder in folders)
    os.kill(record.pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{first}").exists(), PATIENCE_SECONDS)
    cluster.down()
    assert not [folder for folder in folders if folder.exists()]
    assert not cluster.state.exists()
    assert str(cluster.state) not in Path("/proc/mounts").read_text()


def test_its_namespace_refuses_what_is_not_restricted(boot: Callable[[int], NodeLab]) -> None:
    """Neither a pod without a security context nor the chart with a looser one gets in where the chart's tests are."""
    lab = boot(0)
    with pytest.raises(ApiError, match="violates PodSecurity") as refused:
        lab.cluster.create(LAB_PODS, _pod("loose", default_image()))
    assert refused.value.reason == "Forbidden"
    hook = lab.start_post(securityContext__allowPrivilegeEscalation=True)
    lab.until(lambda: _refusals(lab) != [], "the Job's pod is refused", PATIENCE_SECONDS)
    assert hook.poll() is None
    assert lab.pods() == []


def _refusals(lab: NodeLab) -> list[str]:
    """Give what the Job controller says of pods that Pod Security refused."""
    events = (each for each in lab.cluster.list("/api/v1/events") if each["involvedObject"]["kind"] == "Job")
    return [each["message"] for each in events if "violates PodSecurity" in each.get("message", "")]


def _node(lab: NodeLab, pod: str) -> str:
    """Name the node of a pod; empty until it has one."""
    return str(lab.cluster.get(f"{PODS}/{pod}")["spec"].get("nodeName", ""))


def _pod(name: str, image: str) -> dict[str, Any]:
    """Describe a pod that says the program's version."""
    container = {"name": "only", "image": image, "args": ["--version"]}
    return {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container]}}
