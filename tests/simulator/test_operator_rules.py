"""The simulated GPU operator's rules, as measured on the real one: what it renders, and when it reports ready."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devcluster.operator import render
from devcluster.operator.readiness import is_pool_ready, is_ready
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


def node(number: int = 0, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Make a GPU node as NFD labels it, with more labels."""
    return {"metadata": {"name": f"gpu-{number}", "labels": FOUND | dict(labels or {})}}


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
        assert selector == {"nvidia.com/gpu.deploy.driver": "true"} | expected, settings.behaviour


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
