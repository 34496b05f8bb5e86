"""The operands besides the driver: toolkit and MIG manager of a ClusterPolicy, the DRA plugin of a GPUCluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.operator import names as n
from devcluster.operator.driverpod import NODE_NAME, TOLERATION
from devcluster.operator.render import owned_daemonset, user_labels

if TYPE_CHECKING:
    from devcluster.operator.settings import Settings

Object = dict[str, Any]

TOOLKIT = "nvidia-container-toolkit-daemonset"
MIG_MANAGER = "nvidia-mig-manager"
PLUGIN = "nvidia-dra-driver-kubelet-plugin"


def operands(policy: Object, settings: Settings) -> list[Object]:
    """Render the container toolkit and the MIG manager, where a ClusterPolicy wants them."""
    wanted = (("toolkit", TOOLKIT, "nvidia-container-toolkit", "container-toolkit", "nvidia-container-toolkit-ctr"),
              ("migManager", MIG_MANAGER, MIG_MANAGER, "mig-manager", MIG_MANAGER))  # fmt: skip
    found = []
    for key, name, account, operand, container in wanted:
        spec = policy["spec"].get(key, {})
        if spec.get("enabled", False):
            labels = {"app": name} | user_labels(policy["spec"])
            image = f"{spec['repository']}/{spec['image']}:{spec['version']}"
            main = {"name": container, "image": image, "securityContext": {"privileged": True}}
            pod = _pod(account, operand, settings, [main])
            rendered = _spec({"app": name}, labels, pod, "1")
            found.append(owned_daemonset(policy, settings.namespace, name, labels, rendered))
    return found


def dra_plugin(cluster: Object, settings: Settings) -> Object:
    """Render the kubelet plugin of a GPUCluster, which k8s-driver-manager drains with the driver."""
    driver = cluster["spec"]["draDriver"]
    labels = {
        "app": PLUGIN,
        "app.kubernetes.io/name": "nvidia-dra-driver",
        n.COMPONENT: PLUGIN,
    } | user_labels(cluster["spec"])
    image = f"{driver['repository']}/{driver['image']}:{driver['version']}"
    domains = driver.get("computeDomains", {}).get("enabled", True)
    mains = [
        {"name": name, "image": image, "env": [NODE_NAME], "securityContext": {"privileged": True}}
        for name in ("gpus", *(("compute-domains",) if domains else ()))
    ]
    pod = _pod("nvidia-dra-driver-kubeletplugin", "dra-driver", settings, mains)
    return owned_daemonset(cluster, settings.namespace, PLUGIN, labels, _spec({"app": PLUGIN}, labels, pod, "100%"))


def _pod(account: str, operand: str, settings: Settings, mains: list[Object]) -> Object:
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


def _spec(selector: Object, labels: Object, pod: Object, unavailable: str) -> Object:
    limit: str | int = int(unavailable) if unavailable.isdecimal() else unavailable
    return {
        "selector": {"matchLabels": selector},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": limit}},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
