"""Driver stacks, under their former module name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hook.objects.stacks import (
    DRA_PLUGIN,
    GPU_OPERATOR,
    NETWORK_OPERATOR,
    OTHER_PLUGIN,
    STACKS,
    Label,
    NodeChange,
    PluginKind,
    PolicyKind,
    Prerequisite,
    Stack,
    StackName,
)

if TYPE_CHECKING:
    from hook.objects.daemonsets import DaemonSet

__all__ = [
    "DRA_PLUGIN",
    "GPU_OPERATOR",
    "NETWORK_OPERATOR",
    "OTHER_PLUGIN",
    "STACKS",
    "NodeChange",
    "PluginKind",
    "PolicyKind",
    "Prerequisite",
    "Stack",
    "StackName",
    "is_driver",
    "is_provider",
    "selector",
]


def is_driver(daemonset: DaemonSet, stack: Stack) -> bool:
    """Return whether a DaemonSet loads the stack's driver."""
    return stack.loads_driver(daemonset)


def is_provider(daemonset: DaemonSet, stack: Stack) -> bool:
    """Return whether a DaemonSet is a prerequisite of the stack."""
    return stack.is_prerequisite(daemonset)


def selector(label: Label) -> str:
    """Return a label as a selector."""
    return label.selector
