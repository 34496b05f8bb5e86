"""Which DaemonSets a ClusterPolicy, an NVIDIADriver and a GPUCluster ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.controller.objects import NODE_NAME, TOLERATION, digest, image_of, name_of, owned_daemonset
from devcluster.operator import names as n
from devcluster.operator.driverpod import DriverPod, rdma_environment, version_note
from devcluster.operator.nodes import Pool, is_gpu_node, pools

if TYPE_CHECKING:
    from collections.abc import Iterable

    from devcluster.operator.settings import Settings

Object = dict[str, Any]

NAME = "nvidia-driver-daemonset"

PROTECTED = {"app", "app.kubernetes.io/part-of"}
"""The only labels that a user's do not replace (before 26.7.2)."""

TOOLKIT = "nvidia-container-toolkit-daemonset"
MIG_MANAGER = "nvidia-mig-manager"
PLUGIN = "nvidia-dra-driver-kubelet-plugin"


def daemonsets(policy: Object, nodes: Iterable[Object], settings: Settings) -> list[Object]:
    """Render a ClusterPolicy's driver: one DaemonSet, or one a kernel or RHCOS version."""
    driver = policy["spec"]["driver"]
    gpu_nodes = [node for node in nodes if is_gpu_node(node)]
    if not driver.get("enabled", True) or n.delegates(policy) or not gpu_nodes:
        return []
    found = pools(gpu_nodes, precompiled=driver.get("usePrecompiled", False), openshift=settings.openshift)
    plain = bool(found) and not (found[0].kernel or found[0].rhcos)
    return [_of_policy(policy, settings, pool) for pool in (found[:1] if plain else found)]


def pool_daemonsets(driver: Object, nodes: Iterable[Object], settings: Settings) -> list[Object]:
    """Render an NVIDIADriver: one DaemonSet a pool of the nodes that are its own, none where it has none."""
    spec = driver["spec"]
    found = pools(nodes, precompiled=spec.get("usePrecompiled", False), openshift=settings.openshift)
    return [_of_driver(driver, settings, pool) for pool in found]


def config_digest(policy: Object, settings: Settings) -> str:
    """Return DRIVER_CONFIG_DIGEST: what k8s-driver-manager compares to keep a loaded driver.

    It depends on the operator's version, because each renders other variables and mounts,
    unless the settings fix its salt.
    """
    driver = policy["spec"]["driver"]
    told = {key: driver.get(key) for key in ("version", "image", "repository", "usePrecompiled", "rdma")}
    return digest([told, settings.driver_image, settings.digest_salt or settings.version])


def user_labels(spec: Object) -> dict[str, str]:
    """Return what a user wants on everything, as far as it is taken."""
    labels: dict[str, str] = spec.get("daemonsets", {}).get("labels", {})
    return {key: value for key, value in labels.items() if key not in PROTECTED}


def _of_policy(policy: Object, settings: Settings, pool: Pool) -> Object:
    driver = policy["spec"]["driver"]
    name = NAME
    if pool.kernel:
        name = f"{NAME}-{pool.short_kernel}-{pool.os_tag}"
    elif pool.rhcos:
        name = f"{NAME}-{pool.rhcos}"
    labels = _labels(name, pool, driver) | user_labels(policy["spec"])
    reference = image(driver, pool, settings.driver_image)
    pod = DriverPod(
        reference,
        config_digest(policy, settings),
        pool.selector,
        manager_env=driver.get("manager", {}).get("env", []),
        toolkit=bool(pool.rhcos),
        rdma=rdma_environment(driver),
        probe=driver.get("startupProbe", {}),
    )
    return _daemonset(policy, settings, name, labels, _spec(name, labels, pod, settings, {}))


def _of_driver(driver: Object, settings: Settings, pool: Pool) -> Object:
    spec = driver["spec"]
    name = "-".join(["nvidia", spec.get("driverType", "gpu"), "driver", pool.os_tag, _pool_hash(driver, pool)])
    labels = _labels(name, pool, spec) | {"nvidia.com/node.os-version": pool.os_tag}
    told = {key: spec.get(key) for key in ("version", "image", "repository", "usePrecompiled", "driverType")}
    selector = pool.selector | spec.get("nodeSelector", {})
    if settings.is_modern:
        selector = pool.selector | {n.DRIVER_OWNER: name_of(driver)}
    pod = DriverPod(
        image(spec, pool, settings.driver_image),
        # The real one does not depend on the operator's version here: its manifests are the CR's.
        digest([told, settings.digest_salt]),
        selector,
        manager_env=spec.get("manager", {}).get("env", []),
        toolkit=bool(pool.rhcos),
        rdma=rdma_environment(spec),
        probe=spec.get("startupProbe", {}),
    )
    template_labels = labels | spec.get("labels", {})
    rendered = _spec(name, template_labels, pod, settings, spec.get("annotations", {}))
    return _daemonset(driver, settings, name, labels, rendered)


def _pool_hash(driver: Object, pool: Pool) -> str:
    further = pool.kernel or pool.rhcos
    return digest("-".join(filter(None, [driver["metadata"]["uid"], further])))


def _labels(name: str, pool: Pool, driver: Object) -> dict[str, str]:
    precompiled = "true" if driver.get("usePrecompiled") else "false"
    labels = {"app": name, n.COMPONENT: n.DRIVER, "nvidia.com/precompiled": precompiled}
    if pool.rhcos:
        labels |= {"openshift.driver-toolkit": "true", "openshift.driver-toolkit.rhcos": pool.rhcos}
    return labels


def _spec(name: str, labels: Object, pod: DriverPod, settings: Settings, annotations: Object) -> Object:
    told = version_note(pod.image, settings.loaded_version) | annotations
    return {
        "selector": {"matchLabels": {"app": name}},
        "updateStrategy": {"type": "OnDelete"},
        "template": {"metadata": {"labels": labels, "annotations": told}, "spec": pod.spec()},
    }


def _daemonset(owner: Object, settings: Settings, name: str, labels: Object, spec: Object) -> Object:
    metadata = {"name": name, "namespace": settings.namespace, "labels": labels}
    return owned_daemonset(owner, metadata, spec, n.APPLIED_HASH)


def image(spec: Object, pool: Pool, default: str) -> str:
    """Spell the driver's image: a digest says it all, a version needs the node's system; none is the default's."""
    version = str(spec.get("version", ""))
    if not version:
        return default if "@" in default else f"{default}-{pool.os_tag}"
    name = "/".join(filter(None, [spec.get("repository", ""), spec["image"]]))
    if version.startswith("sha256:"):
        return f"{name}@{version}"
    return f"{name}:" + "-".join(filter(None, [version, pool.kernel, pool.os_tag]))


def operands(policy: Object, settings: Settings) -> list[Object]:
    """Render the container toolkit and the MIG manager, where a ClusterPolicy wants them."""
    wanted = (("toolkit", TOOLKIT, "nvidia-container-toolkit", "container-toolkit", "nvidia-container-toolkit-ctr"),
              ("migManager", MIG_MANAGER, MIG_MANAGER, "mig-manager", MIG_MANAGER))  # fmt: skip
    found = []
    for key, name, account, operand, container in wanted:
        spec = policy["spec"].get(key, {})
        if spec.get("enabled", False):
            labels = {"app": name} | user_labels(policy["spec"])
            image = image_of(spec)
            main = {"name": container, "image": image, "securityContext": {"privileged": True}}
            pod = _operand_pod(account, operand, settings, [main])
            rendered = _rolling({"app": name}, labels, pod, "1")
            found.append(_daemonset(policy, settings, name, labels, rendered))
    return found


def dra_plugin(cluster: Object, settings: Settings) -> Object:
    """Render the kubelet plugin of a GPUCluster, which k8s-driver-manager drains with the driver."""
    driver = cluster["spec"]["draDriver"]
    labels = {
        "app": PLUGIN,
        "app.kubernetes.io/name": "nvidia-dra-driver",
        n.COMPONENT: PLUGIN,
    } | user_labels(cluster["spec"])
    image = image_of(driver)
    domains = driver.get("computeDomains", {}).get("enabled", True)
    mains = [
        {"name": name, "image": image, "env": [NODE_NAME], "securityContext": {"privileged": True}}
        for name in ("gpus", *(("compute-domains",) if domains else ()))
    ]
    pod = _operand_pod("nvidia-dra-driver-kubeletplugin", "dra-driver", settings, mains)
    return _daemonset(cluster, settings, PLUGIN, labels, _rolling({"app": PLUGIN}, labels, pod, "100%"))


def _operand_pod(account: str, operand: str, settings: Settings, mains: list[Object]) -> Object:
    """Spell an operand's pod, which waits for the driver by the operator's own validator."""
    validation = {
        "name": "driver-validation",
        "image": f"nvcr.io/nvidia/gpu-operator:{settings.version}",
        "command": ["nvidia-validator"],
        "env": [{"name": "WITH_WAIT", "value": "true"}, {"name": "COMPONENT", "value": "driver"}],
        "securityContext": {"privileged": True},
    }
    return {
        "serviceAccountName": account,
        "priorityClassName": "system-node-critical",
        "nodeSelector": {n.DEPLOY + operand: "true"},
        "tolerations": [TOLERATION],
        "initContainers": [validation],
        "containers": mains,
    }


def _rolling(selector: Object, labels: Object, pod: Object, unavailable: str) -> Object:
    limit: str | int = int(unavailable) if unavailable.isdecimal() else unavailable
    return {
        "selector": {"matchLabels": selector},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": limit}},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
