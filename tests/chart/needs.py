"""Which permissions the program needs: what the chart's rules are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from hook.kube import requests
from hook.kube.requests import GroupVersionResource, policies_of
from hook.objects.drivers import Stack

READ: Final = ("list", "watch")
Permissions = Mapping[GroupVersionResource, tuple[str, ...]]
"""Verbs by resource."""
ALWAYS: Final[Permissions] = {
    requests.DAEMON_SETS: READ,
    requests.PODS: READ,
    requests.EVENTS: ("create", "patch"),
    requests.NODES: READ,
    requests.CONTROLLER_REVISIONS: READ,
    requests.DEPLOYMENTS: READ,
    requests.REPLICA_SETS: READ,
    requests.LEASES: READ,
}
WRITES: Final[Permissions] = {requests.PODS: ("delete",)}
"""To restart plugins."""


class Role(StrEnum):
    """Each use of the program that has an account of its own."""

    JOB = "job"
    CONTROLLER = "controller"


STATUS: Final[Permissions] = {requests.CONFIG_MAPS: ("patch",)}
"""To write the status object, which the chart creates."""
OWN: Final[Mapping[Role, Permissions]] = {
    Role.JOB: {requests.JOBS: ("get",), **STATUS},
    Role.CONTROLLER: {requests.DEPLOYMENTS: ("get",), requests.LEASES: ("create", "get", "patch"), **STATUS},
}
"""What each needs of its own objects, in its own namespace and by name (but for creating, which has no name yet)."""


def permissions(stack: Stack, role: Role) -> dict[GroupVersionResource, tuple[str, ...]]:
    """Return what a run about this stack needs."""
    wanted: dict[GroupVersionResource, tuple[str, ...]] = {
        policies_of(kind): READ for kind in (stack.policy, stack.pool) if kind
    }
    if stack.plugin.slice_driver:
        wanted[requests.RESOURCE_SLICES] = READ
    if stack.plugin.claim_drivers:
        wanted[requests.RESOURCE_CLAIMS] = READ
    for part in (ALWAYS, WRITES, OWN[role]):
        for resource, verbs in part.items():
            wanted[resource] = (*wanted.get(resource, ()), *verbs)
    return wanted
