"""Find the DaemonSets whose pods hold the driver, by exact name.

The same names confine what the program may delete, so a plugin under another name is never
half-handled: it is reported, with the value to set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hook.core import names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hook.core.stacks import ConsumerKind
    from hook.core.views import DaemonSet
    from hook.settings import Settings


@dataclass(frozen=True, slots=True)
class Consumers:
    """What was found, and what looks like a consumer but was not named."""

    named: tuple[DaemonSet, ...]
    unnamed: tuple[DaemonSet, ...]
    operator_managed: tuple[DaemonSet, ...]


def named(daemonsets: Iterable[DaemonSet], settings: Settings) -> tuple[DaemonSet, ...]:
    """Give the DaemonSets to serve: of the names and the namespace that are set, and no ComputeDomain daemon."""
    return tuple(
        ds
        for ds in daemonsets
        if ds.name in settings.consumer_names
        and settings.consumer_namespace in ("", ds.namespace)
        and not _is_compute_domain_daemon(ds)
    )


def find(daemonsets: Iterable[DaemonSet], kind: ConsumerKind, settings: Settings) -> Consumers:
    """Sort DaemonSets into ours, lookalikes, and those that the operator restarts itself."""
    inside = [ds for ds in daemonsets if settings.consumer_namespace in ("", ds.namespace)]
    lookalikes = [ds for ds in inside if _looks_like(ds, kind) and ds.name not in settings.consumer_names]
    return Consumers(
        named=named(inside, settings),
        unnamed=tuple(ds for ds in lookalikes if ds.name != kind.operator_managed),
        operator_managed=tuple(ds for ds in lookalikes if ds.name == kind.operator_managed),
    )


def _looks_like(daemonset: DaemonSet, kind: ConsumerKind) -> bool:
    """Its selector says kubelet-plugin, or it runs a plugin's containers and no others."""
    if _is_compute_domain_daemon(daemonset):
        return False
    containers = frozenset(daemonset.images)
    if not containers & kind.containers:
        return False
    by_selector = any(value == names.PLUGIN_SELECTOR_VALUE for _, value in daemonset.selector)
    return by_selector or containers <= kind.containers


def _is_compute_domain_daemon(daemonset: DaemonSet) -> bool:
    return names.COMPUTE_DOMAIN_LABEL in daemonset.labels
