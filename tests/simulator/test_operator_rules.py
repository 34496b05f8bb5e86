"""The simulated GPU operator's rules: what it renders, which labels it sets, when it reports ready.

Its other modes run with the program: OpenShift, toolkit, GPUCluster: tests/e2e/test_stacks_gpu.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devcluster.controller.upgrading import UpgradeError, upgrade
from devcluster.operator import render
from devcluster.operator.conditions import DRIVER_NOT_READY, DRIVER_READY, conditions
from devcluster.operator.labels import missing_metadata, missing_owner, operands_for
from devcluster.operator.owners import conflicts, owner_of
from devcluster.operator.pools import pools
from devcluster.operator.readiness import is_pool_ready, is_quiet, is_ready
from devcluster.operator.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS = Settings("pod", "gpu-operator", "v26.3.3", "https://127.0.0.1:1", Path())
MODERN = replace(SETTINGS, version="v26.7.0", behaviour="26.7")

NFD = "feature.node.kubernetes.io/"
FOUND = {
    NFD + "pci-10de.present": "true",
    NFD + "kernel-version.full": "5.15.0-139-generic",
    NFD + "system-os_release.ID": "ubuntu",
    NFD + "system-os_release.VERSION_ID": "22.04",
}
GPU, DEPLOY = "nvidia.com/gpu.present", "nvidia.com/gpu.deploy."


def node(number: int = 0, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Make a GPU node as NFD labels it, with more labels."""
    return {"metadata": {"name": f"gpu-{number}", "labels": FOUND | dict(labels or {})}}


def bare(**labels: str) -> dict[str, Any]:
    """Make a node that NFD did not label; ``a_b`` stands for ``nvidia.com/gpu.a.b``."""
    return {
        "metadata": {"name": "x", "labels": {f"nvidia.com/gpu.{k.replace('_', '.')}": v for k, v in labels.items()}}
    }


def driver(name: str, **spec: object) -> dict[str, Any]:
    """Make an NVIDIADriver."""
    defaults = {"driverType": "gpu", "repository": "nvcr.io/nvidia", "image": "driver", "version": "580.105.08"}
    kind = {"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver"}
    return kind | {"metadata": {"name": name, "uid": name}, "spec": defaults | spec}


def policy(given: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Make a ClusterPolicy with a driver."""
    kind = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy"}
    defaults = {"enabled": True, "repository": "nvcr.io/nvidia", "image": "driver", "version": "580.105.08"}
    labels = {"labels": {"helm.sh/chart": "gpu-operator-v26.3.3"}}
    meta = {"name": "cluster-policy", "uid": "p"}
    return kind | {"metadata": meta, "spec": {"daemonsets": labels, "driver": defaults | dict(given or {})}}


def template(daemonset: dict[str, Any]) -> Any:  # noqa: ANN401 - as rendered
    """Return the pods' template."""
    return daemonset["spec"]["template"]


def driver_image(daemonset: dict[str, Any]) -> str:
    """Return the driver's image."""
    return str(template(daemonset)["spec"]["containers"][0]["image"])


def test_the_daemonset_of_a_policy() -> None:
    """A compiled driver has one, a precompiled one has one per kernel; without driver or nodes there is none."""
    (compiled,) = render.daemonsets(policy(), [node()], SETTINGS)
    assert compiled["metadata"]["name"] == "nvidia-driver-daemonset"
    assert driver_image(compiled) == "nvcr.io/nvidia/driver:580.105.08-ubuntu22.04"
    assert template(compiled)["metadata"]["labels"]["helm.sh/chart"] == "gpu-operator-v26.3.3"
    assert compiled["spec"]["updateStrategy"] == {"type": "OnDelete"}
    (precompiled,) = render.daemonsets(policy({"usePrecompiled": True, "version": "580"}), [node()], SETTINGS)
    assert precompiled["metadata"]["name"] == "nvidia-driver-daemonset-5.15.0-139-generic-ubuntu22.04"
    assert driver_image(precompiled) == "nvcr.io/nvidia/driver:580-5.15.0-139-generic-ubuntu22.04"
    selector = template(precompiled)["spec"]["nodeSelector"]
    assert selector[NFD + "kernel-version.full"] == "5.15.0-139-generic"
    for name, given, nodes in (
        ("disabled", {"enabled": False}, [node()]),
        ("no node", {}, []),
        ("driver objects", {"useNvidiaDriverCRD": True}, [node()]),
    ):
        assert render.daemonsets(policy(given), nodes, SETTINGS) == [], name


def test_the_digest_depends_on_the_operator_unless_its_salt_is_fixed() -> None:
    """Two operators render one policy differently: that is what rotates nodes twice."""
    newer = replace(SETTINGS, version="v26.3.4")
    assert render.config_digest(policy(), SETTINGS) != render.config_digest(policy(), newer)
    first, second = (replace(each, digest_salt="x") for each in (SETTINGS, newer))
    assert render.config_digest(policy(), first) == render.config_digest(policy(), second)
    assert render.config_digest(policy(), first) != render.config_digest(policy({"version": "580.2"}), first)


def test_the_daemonsets_of_a_driver_object() -> None:
    """One per pool, owned by the object, named after system and object, only for its nodes, without a chart's label."""
    nodes = [node(), node(1, {NFD + "system-os_release.VERSION_ID": "24.04"}), node(2)]
    env = [{"name": "NODE_LABEL_FOR_GPU_POD_EVICTION", "value": "nvidia.com/dra-kubelet-plugin"}]
    first, second = render.pool_daemonsets(driver("a", manager={"env": env}), nodes, MODERN)
    assert first["metadata"]["name"].startswith("nvidia-gpu-driver-ubuntu22.04-")
    assert second["metadata"]["name"].startswith("nvidia-gpu-driver-ubuntu24.04-")
    assert driver_image(first) == "nvcr.io/nvidia/driver:580.105.08-ubuntu22.04"
    assert template(first)["metadata"]["labels"]["app.kubernetes.io/component"] == "nvidia-driver"
    assert "helm.sh/chart" not in template(first)["metadata"]["labels"] | first["metadata"]["labels"]
    (owner,) = first["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("NVIDIADriver", "a", True)
    assert first["spec"]["updateStrategy"] == {"type": "OnDelete"}
    (manager,) = template(first)["spec"]["initContainers"]
    assert env[0] in manager["env"]
    assert render.pool_daemonsets(driver("a"), [], MODERN) == []
    (other,) = render.pool_daemonsets(driver("b"), [node()], MODERN)
    assert other["metadata"]["name"] != first["metadata"]["name"]
    for settings, expected in ((SETTINGS, {"pool": "b"}), (MODERN, {"nvidia.com/gpu-operator.driver.owner": "a"})):
        (rendered,) = render.pool_daemonsets(driver("a", nodeSelector={"pool": "b"}), [node()], settings)
        selector = template(rendered)["spec"]["nodeSelector"]
        assert selector == {DEPLOY + "driver": "true"} | expected, settings.behaviour


def test_which_labels_a_node_gets() -> None:
    """All that a new GPU node lacks; what was set stays; without NFD a node has lost its GPU."""
    new = missing_metadata(node(), auto_upgrade=True)
    assert {GPU: "true", DEPLOY + "driver": "true"}.items() <= new["labels"].items()
    assert new["annotations"] == {"nvidia.com/gpu-driver-upgrade-enabled": "true"}
    assert "annotations" not in missing_metadata(node(), auto_upgrade=False)
    set_before = {DEPLOY + "driver": "pre-installed", DEPLOY + "dcgm": "paused-for-driver-upgrade"}
    assert not set_before.keys() & missing_metadata(node(0, set_before), auto_upgrade=False)["labels"].keys()
    lost = missing_metadata(bare(present="true", deploy_dcgm="true"), auto_upgrade=False)
    assert lost == {"labels": {GPU: "false", DEPLOY + "dcgm": None}}
    assert missing_metadata(node(0, {GPU: "false"}), auto_upgrade=False)["labels"][GPU] == "true"


def test_a_virtual_machines_node_gets_no_driver() -> None:
    """What was deployed to it for containers is removed."""
    for workload, enabled, driver_wanted in (
        ("vm-passthrough", True, False),
        ("vm-vgpu", True, False),
        ("container", True, True),
        ("vm-passthrough", False, True),
    ):
        labelled = node(0, {GPU: "true", "nvidia.com/gpu.workload.config": workload, DEPLOY + "dcgm": "true"})
        wanted = operands_for(labelled, {"spec": {"sandboxWorkloads": {"enabled": enabled}}}, clients=True)
        patch = missing_metadata(labelled, auto_upgrade=False, operands=wanted)["labels"]
        found = (patch.get(DEPLOY + "driver") == "true", DEPLOY + "dcgm" not in patch)
        assert found == (driver_wanted, driver_wanted), (workload, enabled)


def test_which_driver_object_owns_a_node() -> None:
    """One that selects it comes before the default one; two that select it conflict; without a GPU it has none."""
    fallback, pool = driver("default", default=True), driver("b", nodeSelector={"pool": "b"})
    plain, pooled = node(0, {GPU: "true"}), node(0, {GPU: "true", "pool": "b"})
    assert owner_of(pooled, [fallback, pool]) is pool
    assert owner_of(plain, [fallback, pool]) is fallback
    assert owner_of(plain, [pool]) is None
    assert owner_of(bare(), [fallback]) is None
    assert missing_owner(plain, "b") == {"labels": {"nvidia.com/gpu-operator.driver.owner": "b"}}
    assert missing_owner(plain, None) == {}
    assert pools([bare()], precompiled=False, openshift=False) == []
    assert pools([node()], precompiled=False, openshift=True) == []
    assert conflicts([driver("a"), pool], [pooled])
    assert not conflicts([driver("a"), pool], [plain])
    assert not conflicts([fallback, pool], [pooled])


def pod(revision: str, chart: str) -> dict[str, Any]:
    """Make a driver pod that is ready."""
    return {
        "metadata": {"labels": {"app": "d", "helm.sh/chart": chart, "controller-revision-hash": revision}},
        "status": {"phase": "Running", "containerStatuses": [{"ready": True}]},
    }


def daemonset(*, updated: int, available: int = 3) -> dict[str, Any]:
    """Make a driver DaemonSet of three nodes after a chart bump."""
    labels = {"app": "d", "helm.sh/chart": "new"}
    counts = {"desiredNumberScheduled": 3, "updatedNumberScheduled": updated, "numberAvailable": available}
    return {
        "metadata": {"generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": labels}}},
        "status": {"observedGeneration": 2, "numberUnavailable": 3 - available, **counts},
    }


def test_when_a_daemonset_is_ready() -> None:
    """After a chart bump, 26.3 misses the old pods, and a rolling operand; a pool is ready by counts alone."""
    old, new, same = pod("1", "old"), pod("2", "new"), pod("1", "new")
    rolling = {
        "metadata": {"generation": 2},
        "spec": {"updateStrategy": {"type": "RollingUpdate"}},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "numberAvailable": 2},
    }
    for name, behaviour, seen, pods, expected in (
        ("nothing rotated", "26.3", daemonset(updated=0), [old, old, old], False),
        ("after the first node", "26.3", daemonset(updated=1), [new, old, old], True),
        ("the second node reloads", "26.3", daemonset(updated=1, available=2), [new, old], False),
        ("all", "26.3", daemonset(updated=3), [new, new, new], True),
        ("waits for all", "26.7", daemonset(updated=1), [new, old, old], False),
        ("all", "26.7", daemonset(updated=3), [new, new, new], True),
        ("wrong hash", "26.7", daemonset(updated=3), [new, new, same], False),
        ("the same chart", "26.3", daemonset(updated=1), [new, same, same], False),
        ("no pods wanted", "26.3", daemonset(updated=0) | {"status": {}}, [], True),
        ("rolling operand", "26.3", rolling, [], True),
        ("rolling operand", "26.7", rolling, [], False),
    ):
        assert is_ready(behaviour, seen, pods, "2" if pods else "") is expected, (behaviour, name)
    counts = {"desiredNumberScheduled": 2, "numberAvailable": 2}
    for name, status, expected in (
        ("just created", {}, False),
        ("observed without nodes", {"observedGeneration": 1}, True),
        ("rotating", counts | {"updatedNumberScheduled": 1}, False),
        ("all", counts | {"updatedNumberScheduled": 2}, True),
    ):
        assert is_pool_ready({"metadata": {"generation": 9}, "status": status}) is expected, name


def test_the_times_of_conditions_move_with_their_status_only() -> None:
    """As in the real operator's status."""
    before = conditions([], DRIVER_NOT_READY)
    assert [(each["type"], each["status"]) for each in before] == [("Ready", "False"), ("Error", "True")]
    before[0]["lastTransitionTime"] = "long ago"
    assert conditions(before, DRIVER_NOT_READY)[0]["lastTransitionTime"] == "long ago"
    assert conditions(before, DRIVER_READY)[0]["lastTransitionTime"] != "long ago"


def test_a_quiet_node() -> None:
    """Done, unknown, or kept from the upgrade."""
    state, skip = "nvidia.com/gpu-driver-upgrade-state", "nvidia.com/gpu-driver-upgrade.skip"
    for labels, expected in (
        ({state: "upgrade-required"}, False),
        ({state: "upgrade-required", skip: "true"}, True),
        ({}, True),
    ):
        assert is_quiet({"metadata": {"labels": labels}}) is expected, labels


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
