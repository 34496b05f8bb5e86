"""The real node itself: it takes the pods of its images and no others, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devcluster.kubelet.names import REAL_NODE, Files
from devcluster.kubelet.node import PROCESS, first_process
from devcluster.layout import SYSTEM_NODE
from tests.devcluster.waiting import until
from tests.image.conftest import default_image

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.image.node import NodeLab

pytestmark = pytest.mark.e2e

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


def _node(lab: NodeLab, pod: str) -> str:
    """Name the node of a pod; empty until it has one."""
    return str(lab.cluster.get(f"{PODS}/{pod}")["spec"].get("nodeName", ""))


def _pod(name: str, image: str) -> dict[str, Any]:
    """Describe a pod that says the program's version."""
    container = {"name": "only", "image": image, "args": ["--version"]}
    return {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container]}}
