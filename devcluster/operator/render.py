"""Which DaemonSets a ClusterPolicy, an NVIDIADriver and a GPUCluster ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.controller.objects import digest
from devcluster.operator import names as n
from devcluster.operator.driverpod import DriverPod, rdma_environment, version_note
from devcluster.operator.labels import is_gpu_node
from devcluster.operator.pools import Pool, image, pools

if TYPE_CHECKING:
    from collections.abc import Iterable

    from devcluster.operator.settings import Settings

Object = dict[str, Any]

NAME = "nvidia-driver-daemonset"

PROTECTED = {"app", "app.kubernetes.io/part-of"}
"""The only labels that a user's do not replace (before 26.7.2)."""


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


def owned_daemonset(owner: Object, namespace: str, name: str, labels: Object, spec: Object) -> Object:
    """Spell a DaemonSet that belongs to one of the operator's own objects."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": {n.APPLIED_HASH: digest(spec)},
            "ownerReferences": [_reference(owner)],
        },
        "spec": spec,
    }


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
    return owned_daemonset(policy, settings.namespace, name, labels, _spec(name, labels, pod, settings, {}))


def _of_driver(driver: Object, settings: Settings, pool: Pool) -> Object:
    spec = driver["spec"]
    name = "-".join(["nvidia", spec.get("driverType", "gpu"), "driver", pool.os_tag, _pool_hash(driver, pool)])
    labels = _labels(name, pool, spec) | {"nvidia.com/node.os-version": pool.os_tag}
    told = {key: spec.get(key) for key in ("version", "image", "repository", "usePrecompiled", "driverType")}
    selector = pool.selector | spec.get("nodeSelector", {})
    if settings.is_modern:
        selector = pool.selector | {n.DRIVER_OWNER: n.name_of(driver)}
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
    return owned_daemonset(driver, settings.namespace, name, labels, rendered)


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


def _reference(owner: Object) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": n.name_of(owner),
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
