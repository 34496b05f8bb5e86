"""The simulated operator's other rules: what it renders, which labels it sets, when it says ready."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devcluster.controller.upgrading import UpgradeError, upgrade
from devcluster.operator import render
from devcluster.operator.labels import missing_metadata
from devcluster.operator.readiness import is_ready
from devcluster.operator.settings import Settings

SETTINGS = Settings("pod", "gpu-operator", "v26.3.3", "https://127.0.0.1:1", Path())

NODE = {
    "metadata": {
        "name": "gpu-0",
        "labels": {
            "feature.node.kubernetes.io/pci-10de.present": "true",
            "feature.node.kubernetes.io/kernel-version.full": "5.15.0-139-generic",
            "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
            "feature.node.kubernetes.io/system-os_release.VERSION_ID": "22.04",
        },
    }
}


def policy(**driver: object) -> dict[str, Any]:
    """Make a ClusterPolicy."""
    defaults = {"enabled": True, "repository": "nvcr.io/nvidia", "image": "driver", "version": "580.105.08"}
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy", "uid": "p"},
        "spec": {
            "daemonsets": {"labels": {"helm.sh/chart": "gpu-operator-v26.3.3"}},
            "driver": defaults | driver,
        },
    }


def image(daemonset: dict[str, Any]) -> str:
    """Return the driver's image."""
    return str(daemonset["spec"]["template"]["spec"]["containers"][0]["image"])


def test_a_compiled_driver_is_one_daemonset() -> None:
    """Its tag is ``<version>-<os>``, and its template carries the chart's label."""
    (rendered,) = render.daemonsets(policy(), [NODE], SETTINGS)
    assert rendered["metadata"]["name"] == "nvidia-driver-daemonset"
    assert image(rendered) == "nvcr.io/nvidia/driver:580.105.08-ubuntu22.04"
    assert rendered["spec"]["template"]["metadata"]["labels"]["helm.sh/chart"] == "gpu-operator-v26.3.3"
    assert rendered["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_a_precompiled_driver_is_one_daemonset_a_kernel() -> None:
    """Its name and tag carry the kernel, and its pods go only where that runs."""
    (rendered,) = render.daemonsets(policy(usePrecompiled=True, version="580"), [NODE], SETTINGS)
    assert rendered["metadata"]["name"] == "nvidia-driver-daemonset-5.15.0-139-generic-ubuntu22.04"
    assert image(rendered) == "nvcr.io/nvidia/driver:580-5.15.0-139-generic-ubuntu22.04"
    selector = rendered["spec"]["template"]["spec"]["nodeSelector"]
    assert selector["feature.node.kubernetes.io/kernel-version.full"] == "5.15.0-139-generic"


@pytest.mark.parametrize(
    ("asked", "nodes"),
    [pytest.param({"enabled": False}, [NODE], id="disabled"), pytest.param({}, [], id="no-gpu-node")],
)
def test_no_driver_no_daemonset(asked: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
    """Nothing is rendered where nothing is wanted."""
    assert render.daemonsets(policy(**asked), nodes, SETTINGS) == []


def test_the_digest_depends_on_the_operator_unless_its_salt_is_fixed() -> None:
    """Two operators render one policy differently: that is what rotates nodes twice."""
    newer = Settings("pod", "gpu-operator", "v26.3.4", "https://127.0.0.1:1", Path())
    assert render.config_digest(policy(), SETTINGS) != render.config_digest(policy(), newer)
    fixed = [
        Settings("pod", "gpu-operator", version, "https://127.0.0.1:1", Path(), digest_salt="x")
        for version in ("v26.3.3", "v26.3.4")
    ]
    assert render.config_digest(policy(), fixed[0]) == render.config_digest(policy(), fixed[1])
    assert render.config_digest(policy(), fixed[0]) != render.config_digest(policy(version="580.2"), fixed[0])


def test_a_new_gpu_node_gets_all_labels() -> None:
    """As NFD found it; the upgrade annotation follows autoUpgrade."""
    patch = missing_metadata(NODE, auto_upgrade=True)
    assert patch["labels"]["nvidia.com/gpu.present"] == "true"
    assert patch["labels"]["nvidia.com/gpu.deploy.driver"] == "true"
    assert patch["annotations"] == {"nvidia.com/gpu-driver-upgrade-enabled": "true"}
    assert "annotations" not in missing_metadata(NODE, auto_upgrade=False)


def test_values_that_somebody_set_stay() -> None:
    """Users disable operands, and k8s-driver-manager pauses them."""
    labels = NODE["metadata"]["labels"] | {  # type: ignore[operator]
        "nvidia.com/gpu.deploy.driver": "pre-installed",
        "nvidia.com/gpu.deploy.dcgm": "paused-for-driver-upgrade",
    }
    patch = missing_metadata({"metadata": {"name": "gpu-0", "labels": labels}}, auto_upgrade=False)
    assert not {"nvidia.com/gpu.deploy.driver", "nvidia.com/gpu.deploy.dcgm"} & patch["labels"].keys()


def test_without_nfd_a_node_has_lost_its_gpu() -> None:
    """An outage of node feature discovery does that."""
    node = {
        "metadata": {"name": "x", "labels": {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.dcgm": "true"}}
    }
    patch = missing_metadata(node, auto_upgrade=False)
    assert patch == {"labels": {"nvidia.com/gpu.present": "false", "nvidia.com/gpu.deploy.dcgm": None}}


def test_a_gpu_that_came_back_is_labelled_again() -> None:
    """The mark of a lost GPU is replaced."""
    labels = NODE["metadata"]["labels"] | {"nvidia.com/gpu.present": "false"}  # type: ignore[operator]
    patch = missing_metadata({"metadata": {"name": "gpu-0", "labels": labels}}, auto_upgrade=False)
    assert patch["labels"]["nvidia.com/gpu.present"] == "true"


def pod(revision: str, chart: str, *, ready: bool = True) -> dict[str, Any]:
    """Make a driver pod."""
    return {
        "metadata": {"labels": {"app": "d", "helm.sh/chart": chart, "controller-revision-hash": revision}},
        "status": {"phase": "Running", "containerStatuses": [{"ready": ready}]},
    }


def daemonset(*, updated: int, available: int = 3) -> dict[str, Any]:
    """Make a driver DaemonSet of three nodes after a chart bump."""
    return {
        "metadata": {"generation": 2},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d", "helm.sh/chart": "new"}}},
        },
        "status": {
            "observedGeneration": 2,
            "desiredNumberScheduled": 3,
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "numberUnavailable": 3 - available,
        },
    }


OLD, NEW = pod("1", "old"), pod("2", "new")


@pytest.mark.parametrize(
    ("behaviour", "seen", "pods", "expected"),
    [
        pytest.param("26.3", daemonset(updated=0), [OLD, OLD, OLD], False, id="26.3-nothing-rotated"),
        pytest.param("26.3", daemonset(updated=1), [NEW, OLD, OLD], True, id="26.3-ready-after-the-first-node"),
        pytest.param("26.3", daemonset(updated=1, available=2), [NEW, OLD], False, id="26.3-second-node-reloads"),
        pytest.param("26.3", daemonset(updated=3), [NEW, NEW, NEW], True, id="26.3-all"),
        pytest.param("26.7", daemonset(updated=1), [NEW, OLD, OLD], False, id="26.7-waits-for-all"),
        pytest.param("26.7", daemonset(updated=3), [NEW, NEW, NEW], True, id="26.7-all"),
        pytest.param("26.7", daemonset(updated=3), [NEW, NEW, pod("1", "new")], False, id="26.7-wrong-hash"),
    ],
)
def test_ready(behaviour: str, seen: dict[str, Any], pods: list[dict[str, Any]], expected: bool) -> None:
    """After a chart bump, 26.3 does not see the old pods; 26.7 does."""
    assert expected == is_ready(behaviour, seen, pods, "2")


def test_a_driver_bump_on_the_same_chart_is_judged_well() -> None:
    """Then the old pods match the template's labels."""
    same = pod("1", "new")
    assert not is_ready("26.3", daemonset(updated=1), [NEW, same, same], "2")


def test_a_daemonset_that_wants_no_pods_is_ready() -> None:
    """Just created, or without nodes: the real operator calls both ready."""
    assert is_ready("26.3", daemonset(updated=0) | {"status": {}}, [], "")


def test_an_operator_ends_with_its_upgrade_controller() -> None:
    """Without one no node would advance, and nothing would say why."""
    with pytest.raises(UpgradeError, match="gpu ended with 1"):
        asyncio.run(upgrade(replace(SETTINGS, upgrade_program="false"), "gpu"))


def test_the_upgrade_controller_ends_with_its_operator(tmp_path: Path) -> None:
    """An operator that no longer leads leaves no process behind that upgrades nodes."""
    program, started = tmp_path / "upgrade", tmp_path / "started"
    program.write_text(f'#!/bin/sh\necho "$$ $*" > {started}.new && mv {started}.new {started}\nexec cat\n')
    program.chmod(0o755)

    async def lead_for_a_moment() -> None:
        leading = asyncio.create_task(upgrade(replace(SETTINGS, upgrade_program=str(program), requeue=7.5), "ofed"))
        while not (started.exists() or leading.done()):  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.01)
        leading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leading

    asyncio.run(lead_for_a_moment())
    pid, *arguments = started.read_text().split()
    assert {"--driver=ofed", "--namespace=gpu-operator", "--requeue=7.5s"} <= set(arguments)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
