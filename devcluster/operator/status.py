"""Whether a DaemonSet is ready.

Two generations of the real operator answer differently, and both ask too little. 26.3 lists pods by the template's
labels: after a chart bump these carry the new chart's label, the old pods drop out of the list, and one upgraded pod is
enough to be ready.
"""

from __future__ import annotations

from typing import Any

from devcluster.controller.objects import HASH, labels_of

Object = dict[str, Any]


def is_ready(behaviour: str, daemonset: Object, pods: list[Object], newest_hash: str) -> bool:
    """Judge one DaemonSet; `pods` are all that it owns."""
    status = daemonset.get("status", {})
    if status.get("desiredNumberScheduled", 0) == 0:
        return True
    if status.get("numberUnavailable", 0) != 0:
        return False
    if daemonset["spec"].get("updateStrategy", {}).get("type") == "RollingUpdate":
        return behaviour == "26.3" or _is_rolled_out(daemonset)
    if behaviour == "26.3":
        listed = _matching(pods, labels_of(daemonset["spec"]["template"]))
    else:
        if not _is_rolled_out(daemonset):
            return False
        listed = _matching(pods, daemonset["spec"]["selector"]["matchLabels"])
    return bool(listed) and all(_is_new_and_ready(pod, newest_hash) for pod in listed)


def is_pool_ready(daemonset: Object) -> bool:
    """Judge a DaemonSet of an NVIDIADriver or a GPUCluster, by its status alone and whatever generation that is of."""
    status = daemonset.get("status", {})
    desired = status.get("desiredNumberScheduled", 0)
    if desired == 0:
        return bool(status.get("observedGeneration", 0) > 0)
    return bool(desired == status.get("numberAvailable") == status.get("updatedNumberScheduled"))


def _matching(pods: list[Object], labels: dict[str, str]) -> list[Object]:
    return [pod for pod in pods if labels.items() <= labels_of(pod).items()]


def _is_rolled_out(daemonset: Object) -> bool:
    status = daemonset["status"]
    desired = status["desiredNumberScheduled"]
    observed = bool(status.get("observedGeneration") == daemonset["metadata"]["generation"])
    return observed and desired == status.get("updatedNumberScheduled") == status.get("numberAvailable")


def _is_new_and_ready(pod: Object, newest_hash: str) -> bool:
    containers = pod.get("status", {}).get("containerStatuses", [])
    return (
        labels_of(pod).get(HASH) == newest_hash
        and pod["status"].get("phase") == "Running"
        and all(each["ready"] for each in containers)
    )
