"""The simulated operator's other modes: what it renders for each, and which nodes belong to whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devcluster.operator import operands, render
from devcluster.operator.conditions import DRIVER_NOT_READY, DRIVER_READY, conditions
from devcluster.operator.labels import missing_metadata, missing_owner, operands_for
from devcluster.operator.owners import conflicts, owner_of
from devcluster.operator.pools import Pool, image, pools
from devcluster.operator.readiness import is_pool_ready, is_quiet, is_ready
from devcluster.operator.settings import Settings

HERE = ("pod", "gpu-operator", "v26.7.0", "https://127.0.0.1:1", Path())
SETTINGS = Settings(*HERE, behaviour="26.7")
OPENSHIFT = Settings(*HERE, openshift=True, driver_image="nvcr.io/nvidia/driver@sha256:0", loaded_version="580.126.20")

NFD = "feature.node.kubernetes.io/"
UBUNTU = {
    NFD + "pci-10de.present": "true",
    NFD + "kernel-version.full": "5.15.0-139-generic",
    NFD + "system-os_release.ID": "ubuntu",
    NFD + "system-os_release.VERSION_ID": "22.04",
    "nvidia.com/gpu.present": "true",
}
RHCOS = UBUNTU | {
    NFD + "system-os_release.ID": "rhcos",
    NFD + "system-os_release.VERSION_ID": "4.18",
    NFD + "system-os_release.OSTREE_VERSION": "418.94.202509100653-0",
}
WORKLOAD = "nvidia.com/gpu.workload.config"


def node(number: int = 0, **labels: str) -> dict[str, Any]:
    """Make a GPU node; ``a__b`` stands for ``nvidia.com/a.b``."""
    own = {key.replace("__", "."): value for key, value in labels.items()}
    return {"metadata": {"name": f"gpu-{number}", "labels": UBUNTU | own}}


def driver(name: str, **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - an NVIDIADriver's spec
    """Make an NVIDIADriver."""
    defaults = {"driverType": "gpu", "repository": "nvcr.io/nvidia", "image": "driver", "version": "580.105.08"}
    meta = {"name": name, "uid": name}
    kind = {"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver"}
    return kind | {"metadata": meta, "spec": defaults | spec}


def policy(**spec: Any) -> dict[str, Any]:  # noqa: ANN401 - a ClusterPolicy's spec
    """Make a ClusterPolicy."""
    kind = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy"}
    return kind | {"metadata": {"name": "cluster-policy", "uid": "p"}, "spec": {"driver": {}} | spec}


def containers(daemonset: dict[str, Any]) -> list[str]:
    """Name the main containers."""
    return [each["name"] for each in daemonset["spec"]["template"]["spec"]["containers"]]


def test_a_driver_object_is_one_daemonset_a_pool() -> None:
    """Owned by the object, named after its system, without any chart's label."""
    other = node(1)
    other["metadata"]["labels"][NFD + "system-os_release.VERSION_ID"] = "24.04"
    first, second = render.pool_daemonsets(driver("a"), [node(), other, node(2)], SETTINGS)
    assert first["metadata"]["name"].startswith("nvidia-gpu-driver-ubuntu22.04-")
    assert second["metadata"]["name"].startswith("nvidia-gpu-driver-ubuntu24.04-")
    template = first["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "nvcr.io/nvidia/driver:580.105.08-ubuntu22.04"
    assert template["metadata"]["labels"]["app.kubernetes.io/component"] == "nvidia-driver"
    assert "helm.sh/chart" not in template["metadata"]["labels"] | first["metadata"]["labels"]
    (owner,) = first["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("NVIDIADriver", "a", True)
    assert first["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_a_driver_object_without_nodes_is_nothing() -> None:
    """It has no DaemonSet, and another one of the same pool has another name."""
    assert render.pool_daemonsets(driver("a"), [], SETTINGS) == []
    (one,), (other,) = (render.pool_daemonsets(driver(name), [node()], SETTINGS) for name in "ab")
    assert one["metadata"]["name"] != other["metadata"]["name"]


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        pytest.param("26.3", {"pool": "b"}, id="26.3-by-the-users-selector"),
        pytest.param("26.7", {"nvidia.com/gpu-operator.driver.owner": "a"}, id="26.7-by-the-owner"),
    ],
)
def test_the_pods_of_a_driver_object(behaviour: str, expected: dict[str, str]) -> None:
    """They go only where its nodes are."""
    settings = Settings(*HERE, behaviour=behaviour)
    (rendered,) = render.pool_daemonsets(driver("a", nodeSelector={"pool": "b"}), [node(pool="b")], settings)
    selector = rendered["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {"nvidia.com/gpu.deploy.driver": "true"} | expected


def test_a_delegating_policy_renders_no_driver() -> None:
    """The driver objects do."""
    assert render.daemonsets(policy(driver={"useNvidiaDriverCRD": True}), [node()], SETTINGS) == []


def test_openshift_builds_with_its_own_toolkit() -> None:
    """One DaemonSet an RHCOS version; the policy names no driver, its image is a digest, no chart's label is there."""
    rhcos = {"metadata": {"name": "gpu-0", "labels": RHCOS}}
    (rendered,) = render.daemonsets(policy(), [rhcos, node(1)], OPENSHIFT)
    assert rendered["metadata"]["name"] == "nvidia-driver-daemonset-418.94.202509100653-0"
    assert containers(rendered) == ["nvidia-driver-ctr", "openshift-driver-toolkit-ctr"]
    template = rendered["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "nvcr.io/nvidia/driver@sha256:0"
    assert template["metadata"]["annotations"] == {"devcluster/driver-version": "580.126.20"}
    assert "helm.sh/chart" not in template["metadata"]["labels"]
    assert template["metadata"]["labels"]["openshift.driver-toolkit"] == "true"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"version": "580.1.2"}, "r/driver:580.1.2-ubuntu22.04", id="version"),
        pytest.param({"version": "580"}, "r/driver:580-ubuntu22.04", id="branch"),
        pytest.param({"version": "sha256:ab"}, "r/driver@sha256:ab", id="digest"),
        pytest.param({}, "default:1-ubuntu22.04", id="absent"),
    ],
)
def test_the_drivers_image(spec: dict[str, str], expected: str) -> None:
    """A digest says it all; everything else gets the node's system."""
    found = image({"repository": "r", "image": "driver"} | spec, Pool("ubuntu22.04"), "default:1")
    assert found == expected


def test_nodes_that_nfd_did_not_label_are_in_no_pool() -> None:
    """Neither are those that are not RHCOS on OpenShift."""
    bare: dict[str, Any] = {"metadata": {"name": "x", "labels": {}}}
    assert pools([bare], precompiled=False, openshift=False) == []
    assert pools([node()], precompiled=False, openshift=True) == []


def test_a_users_label_replaces_the_operators() -> None:
    """Before 26.7.2 even the one by which drivers are found, but never `app`."""
    given = policy(driver={"version": "1"}, daemonsets={"labels": {"app.kubernetes.io/component": "x", "app": "y"}})
    given["spec"]["driver"] |= {"repository": "r", "image": "driver"}
    (rendered,) = render.daemonsets(given, [node()], SETTINGS)
    labels = rendered["spec"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "x"
    assert labels["app"] == "nvidia-driver-daemonset"


def test_the_driver_managers_environment() -> None:
    """It reaches the init container, which reads the label to pause there."""
    env = [{"name": "NODE_LABEL_FOR_GPU_POD_EVICTION", "value": "nvidia.com/dra-kubelet-plugin"}]
    (rendered,) = render.pool_daemonsets(driver("a", manager={"env": env}), [node()], SETTINGS)
    (manager,) = rendered["spec"]["template"]["spec"]["initContainers"]
    assert env[0] in manager["env"]


def test_whose_a_node_is() -> None:
    """One that selects it comes before the default one; a node without a GPU is nobody's."""
    fallback, pool = driver("default", default=True), driver("b", nodeSelector={"pool": "b"})
    assert owner_of(node(pool="b"), [fallback, pool]) is pool
    assert owner_of(node(), [fallback, pool]) is fallback
    assert owner_of(node(), [pool]) is None
    assert owner_of({"metadata": {"name": "x", "labels": {}}}, [fallback]) is None
    assert missing_owner(node(), "b") == {"labels": {"nvidia.com/gpu-operator.driver.owner": "b"}}
    assert missing_owner(node(), None) == {}


def test_two_that_select_one_node_conflict() -> None:
    """A default one never does."""
    everything, pool = driver("a"), driver("b", nodeSelector={"pool": "b"})
    assert conflicts([everything, pool], [node(pool="b")])
    assert not conflicts([everything, pool], [node()])
    assert not conflicts([driver("default", default=True), pool], [node(pool="b")])


@pytest.mark.parametrize(
    ("workload", "enabled", "driver_wanted"),
    [
        pytest.param("vm-passthrough", True, False, id="passthrough"),
        pytest.param("vm-vgpu", True, False, id="vgpu"),
        pytest.param("container", True, True, id="container"),
        pytest.param("vm-passthrough", False, True, id="sandboxes-off"),
    ],
)
def test_a_virtual_machines_node_gets_no_driver(workload: str, enabled: bool, driver_wanted: bool) -> None:
    """What was deployed to it for containers is taken off."""
    labelled = node()
    labelled["metadata"]["labels"] |= {WORKLOAD: workload, "nvidia.com/gpu.deploy.dcgm": "true"}
    wanted = operands_for(labelled, policy(sandboxWorkloads={"enabled": enabled}), clients=True)
    patch = missing_metadata(labelled, auto_upgrade=False, operands=wanted)["labels"]
    assert (patch.get("nvidia.com/gpu.deploy.driver") == "true") is driver_wanted
    assert ("nvidia.com/gpu.deploy.dcgm" in patch) is not driver_wanted


def test_the_operands_besides_the_driver() -> None:
    """The toolkit waits with the validator; the operator's own DRA plugin goes by a label that is paused."""
    assert operands.toolkits(policy(), SETTINGS) == []
    wanted = {"enabled": True, "repository": "r", "image": "container-toolkit", "version": "v1"}
    (toolkit,) = operands.toolkits(policy(toolkit=wanted), SETTINGS)
    assert toolkit["metadata"]["labels"]["app"] == "nvidia-container-toolkit-daemonset"
    assert containers(toolkit) == ["nvidia-container-toolkit-ctr"]
    dra = {"repository": "r", "image": "dra", "version": "v1", "computeDomains": {"enabled": False}}
    cluster = {"apiVersion": "nvidia.com/v1alpha1", "kind": "GPUCluster", "metadata": {"name": "c", "uid": "c"}}
    plugin = operands.dra_plugin(cluster | {"spec": {"draDriver": dra}}, SETTINGS)
    assert plugin["metadata"]["name"] == "nvidia-dra-driver-kubelet-plugin"
    assert plugin["spec"]["template"]["spec"]["nodeSelector"] == {"nvidia.com/gpu.deploy.dra-driver": "true"}
    assert containers(plugin) == ["gpus"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, False, id="just-created"),
        pytest.param({"observedGeneration": 1}, True, id="observed-without-nodes"),
        pytest.param(
            {"desiredNumberScheduled": 2, "numberAvailable": 2, "updatedNumberScheduled": 1}, False, id="rotating"
        ),
        pytest.param({"desiredNumberScheduled": 2, "numberAvailable": 2, "updatedNumberScheduled": 2}, True, id="all"),
    ],
)
def test_a_pool_is_ready(status: dict[str, int], expected: bool) -> None:
    """By counts alone, whatever generation they are of."""
    assert is_pool_ready({"metadata": {"generation": 9}, "status": status}) is expected


def test_a_rolling_operand_is_ready_too_early_before_26_7() -> None:
    """26.3 asks only whether something is unavailable."""
    rolling = {
        "metadata": {"generation": 2},
        "spec": {"updateStrategy": {"type": "RollingUpdate"}},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "numberAvailable": 2},
    }
    assert is_ready("26.3", rolling, [], "")
    assert not is_ready("26.7", rolling, [], "")


def test_conditions_follow_the_verdict() -> None:
    """Their times move with their status only."""
    before = conditions([], DRIVER_NOT_READY)
    assert [(each["type"], each["status"]) for each in before] == [("Ready", "False"), ("Error", "True")]
    before[0]["lastTransitionTime"] = "long ago"
    assert conditions(before, DRIVER_NOT_READY)[0]["lastTransitionTime"] == "long ago"
    assert conditions(before, DRIVER_READY)[0]["lastTransitionTime"] != "long ago"


def test_a_quiet_node() -> None:
    """Done, unknown, or kept from it."""
    state = "nvidia.com/gpu-driver-upgrade"
    busy = {"metadata": {"labels": {f"{state}-state": "upgrade-required"}}}
    assert not is_quiet(busy)
    busy["metadata"]["labels"][f"{state}.skip"] = "true"
    assert is_quiet(busy)
    assert is_quiet({"metadata": {"labels": {}}})
