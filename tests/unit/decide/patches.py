"""Patches of API objects that many tests of this folder apply."""

from __future__ import annotations

from typing import Final

from tests.fixtures.objects import Object, conditions, merged, waiting

BROKEN: Final[Object] = {"status": {"phase": "Pending", "conditions": [], "containerStatuses": []}}
BY_HAND: Final[Object] = {"spec": {"driver": {"upgradePolicy": {"autoUpgrade": False}}}}
DELETING: Final[Object] = {"metadata": {"deletionTimestamp": "2026-01-01T10:30:00Z"}}
DISABLED: Final = "spec: {driver: {enabled: false}}"
"""Of a policy that deploys no drivers."""
ILL: Final = "status: {state: notReady}"
"""Of a policy or a pool that the operator reports as not ready."""
NONE_WANTED: Final = "status: {desiredNumberScheduled: 0}"
NOT_READY: Final[Object] = {"status": {"conditions": conditions(None)}}
ON_DELETE: Final[Object] = {"spec": {"updateStrategy": {"type": "OnDelete"}}}
OUTDATED: Final[Object] = {"metadata": {"labels": {"controller-revision-hash": "old"}}}
STARTING: Final[Object] = merged(NOT_READY, {"status": {"containerStatuses": [waiting("gpus", "ContainerCreating")]}})
TAINT: Final[Object] = {"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}}


def publishing(version: str) -> Object:
    """Return a patch of a slice whose device shows a driver version."""
    return {"spec": {"devices": [{"name": "g", "attributes": {"driverVersion": {"version": version}}}]}}


def running(image: str, container: str = "nvidia-driver-ctr") -> Object:
    """Return a patch of a DaemonSet whose only container has an image."""
    return {"spec": {"template": {"spec": {"containers": [{"name": container, "image": image}]}}}}
