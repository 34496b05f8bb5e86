"""The table of driver stacks: what reloads a kernel driver, and who holds it.

A new stack is a row here. No other module compares a stack's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hook.core import names


@dataclass(frozen=True, slots=True)
class ConsumerKind:
    """A kind of DaemonSet whose pods hold the driver."""

    waiter: str
    """Init container that finishes only once a driver works; proof of freshness by start-up."""
    publisher: str
    """Container that publishes devices; a consumer without it has no slice to verify."""
    containers: frozenset[str]
    """A DaemonSet with only such containers is one of this kind, whatever its name."""
    operator_managed: str
    """DaemonSet name of the same consumer where the stack's operator restarts it itself."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A driver stack: the names under which its parts are found."""

    driver_component: str
    """Value of the component label on driver DaemonSets, their pods and revisions."""
    driver_container: str
    unloader: str
    """Init container of a driver pod that unloads the old driver and unmounts its root."""
    present_label: str
    deploy_label: str
    operands_label: str
    paused_prefix: str
    """Labels under this prefix say that the old driver is being unloaded."""
    state_label: str
    skip_label: str
    consumer: ConsumerKind


DRA_PLUGIN: Final = ConsumerKind(
    waiter=names.PLUGIN_WAITER,
    publisher=names.PLUGIN_PUBLISHER,
    containers=names.PLUGIN_CONTAINERS,
    operator_managed=names.OPERATOR_MANAGED_PLUGIN,
)

GPU_OPERATOR: Final = Stack(
    driver_component=names.DRIVER_COMPONENT,
    driver_container=names.DRIVER_CONTAINER,
    unloader=names.DRIVER_MANAGER_CONTAINER,
    present_label=names.GPU_PRESENT_LABEL,
    deploy_label=names.DEPLOY_DRIVER_LABEL,
    operands_label=names.DEPLOY_OPERANDS_LABEL,
    paused_prefix=names.DEPLOY_LABEL_PREFIX,
    state_label=names.UPGRADE_STATE_LABEL,
    skip_label=names.UPGRADE_SKIP_LABEL,
    consumer=DRA_PLUGIN,
)
