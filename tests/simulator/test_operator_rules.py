"""The simulated GPU operator's rules, as measured on the real one: what it renders, and when it reports ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from devcluster.operator import render
from devcluster.operator.readiness import is_pool_ready, is_ready
from devcluster.operator.settings import Settings

SETTINGS = Settings("pod", "gpu-operator", "v26.3.3", "https://127.0.0.1:1", Path())
NFD = "feature.node.kubernetes.io/"
FOUND = {
    NFD + "pci-10de.present": "true",
    NFD + "kernel-version.full": "5.15.0-139-generic",
    NFD + "system-os_release.ID": "ubuntu",
    NFD + "system-os_release.VERSION_ID": "22.04",
}
NODE: dict[str, Any] = {"metadata": {"name": "gpu-0", "labels": FOUND}}


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


def test_what_is_rendered() -> None:
    """A compiled driver's image names its system, a precompiled one's the kernel too; a pool has no chart's label."""
    (compiled,) = render.daemonsets(policy(), [NODE], SETTINGS)
    assert compiled["metadata"]["name"] == "nvidia-driver-daemonset"
    assert driver_image(compiled) == "nvcr.io/nvidia/driver:580.105.08-ubuntu22.04"
    assert template(compiled)["metadata"]["labels"]["helm.sh/chart"] == "gpu-operator-v26.3.3"
    (precompiled,) = render.daemonsets(policy({"usePrecompiled": True, "version": "580"}), [NODE], SETTINGS)
    assert precompiled["metadata"]["name"] == "nvidia-driver-daemonset-5.15.0-139-generic-ubuntu22.04"
    assert driver_image(precompiled) == "nvcr.io/nvidia/driver:580-5.15.0-139-generic-ubuntu22.04"
    spec = policy()["spec"]["driver"] | {"driverType": "gpu"}
    kind = {"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver"}
    (pool,) = render.pool_daemonsets({**kind, "metadata": {"name": "a", "uid": "a"}, "spec": spec}, [NODE], SETTINGS)
    assert pool["metadata"]["name"].startswith("nvidia-gpu-driver-ubuntu22.04-")
    assert driver_image(pool) == driver_image(compiled)
    assert "helm.sh/chart" not in template(pool)["metadata"]["labels"] | pool["metadata"]["labels"]
    assert all(each["spec"]["updateStrategy"] == {"type": "OnDelete"} for each in (compiled, precompiled, pool))


def test_the_digest_depends_on_the_operator_unless_its_salt_is_fixed() -> None:
    """Two operators render one policy differently: that is what rotates nodes twice."""
    newer = replace(SETTINGS, version="v26.3.4")
    assert render.config_digest(policy(), SETTINGS) != render.config_digest(policy(), newer)
    first, second = (replace(each, digest_salt="x") for each in (SETTINGS, newer))
    assert render.config_digest(policy(), first) == render.config_digest(policy(), second)
    assert render.config_digest(policy(), first) != render.config_digest(policy({"version": "580.2"}), first)


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
