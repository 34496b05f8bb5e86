"""Find the DaemonSets whose pods hold the driver: by exact names, or by labels that somebody gave.

The same names confine what the program may delete, so a plugin under another name is never
half-handled: it is reported, with the value to set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hook.core import names
from hook.core.stacks import OTHER_CONSUMER, STACKS, is_driver, is_provider

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hook.core.stack import ConsumerKind, Stack
    from hook.objects.views import DaemonSet
    from hook.settings import Settings, Wanted


@dataclass(frozen=True, slots=True)
class Consumers:
    """What was found, and what looks like a consumer but was not named."""

    named: tuple[DaemonSet, ...]
    unnamed: tuple[DaemonSet, ...]
    operator_managed: tuple[DaemonSet, ...]
    kinds: Mapping[str, ConsumerKind]
    """Of the named ones, by UID."""
    missing: tuple[Wanted, ...]
    """What somebody named beside the plugins, and nothing matches."""
    refused: tuple[DaemonSet, ...] = ()
    """What somebody named although consumers start after it: it is never restarted."""

    def is_plugin(self, uid: str) -> bool:
        """Whether this is one of the stack's own consumers, not one that was only named."""
        return uid in self.kinds and self.kinds[uid] is not OTHER_CONSUMER

    @property
    def serves_plugins(self) -> bool:
        """Some of the stack's own consumers are served."""
        return any(self.is_plugin(uid) for uid in self.kinds)

    def of_kind(self, uid: str) -> ConsumerKind:
        """Give the kind of one of the named."""
        return self.kinds.get(uid, OTHER_CONSUMER)


def plugin_names(stack: Stack, settings: Settings) -> tuple[str, ...]:
    """Give the names of a stack's own consumers: those that were set, else those of its row."""
    return tuple(one.name for one in settings.consumer_names if one.stack == stack.name) or stack.consumer.names


def named(daemonsets: Iterable[DaemonSet], stack: Stack, settings: Settings) -> tuple[DaemonSet, ...]:
    """Give the DaemonSets to serve: no ComputeDomain daemon, and none that the operator manages."""
    return find(daemonsets, stack, settings).named


def find(daemonsets: Iterable[DaemonSet], stack: Stack, settings: Settings) -> Consumers:
    """Sort DaemonSets into ours, lookalikes, and those that the operator restarts itself."""
    known = [ds for ds in daemonsets if not _is_compute_domain_daemon(ds)]
    sources = [ds for ds in known if _is_source(ds)]
    candidates = [ds for ds in known if ds not in sources]
    managed = [ds for ds in candidates if _is_operator_managed(ds, stack)]
    others = [ds for ds in candidates if ds not in managed]
    inside = [ds for ds in others if settings.consumer_namespace in ("", ds.namespace)]
    plugins = [ds for ds in inside if ds.name in plugin_names(stack, settings)]
    wanted = [one for one in settings.consumers if one.stack == stack.name]
    further = [ds for ds in others if ds not in plugins and any(_matches(ds, one) for one in wanted)]
    kinds = {ds.uid: stack.consumer for ds in plugins}
    kinds |= {ds.uid: stack.consumer if _looks_like(ds, stack.consumer) else OTHER_CONSUMER for ds in further}
    return Consumers(
        named=(*plugins, *further),
        unnamed=tuple(ds for ds in inside if ds.uid not in kinds and _looks_like(ds, stack.consumer)),
        operator_managed=tuple(managed),
        kinds=kinds,
        missing=_missing(wanted, further, plugins, sources),
        refused=tuple(ds for ds in sources if any(_matches(ds, one) for one in wanted)),
    )


def _missing(wanted: Sequence[Wanted], *found: Sequence[DaemonSet]) -> tuple[Wanted, ...]:
    everything = [ds for part in found for ds in part]
    return tuple(one for one in wanted if not any(_matches(ds, one) for ds in everything))


def _matches(daemonset: DaemonSet, wanted: Wanted) -> bool:
    if wanted.labels:
        return all(daemonset.template_labels.get(key) == value for key, value in wanted.labels)
    return (wanted.namespace, wanted.name) == (daemonset.namespace, daemonset.name)


def _is_source(daemonset: DaemonSet) -> bool:
    """Whether consumers start after it, in any stack: it is older than itself, so it would always look stale."""
    return any(is_driver(daemonset, stack) or is_provider(daemonset, stack) for stack in STACKS.values())


def _is_operator_managed(daemonset: DaemonSet, stack: Stack) -> bool:
    """Whether the operator restarts this one itself: never ours to touch, whoever names it.

    A name alone proves nothing: a chart's nameOverride can give the same.
    """
    kind = stack.consumer
    if not kind.operator_managed or daemonset.name != kind.operator_managed:
        return False
    component = daemonset.labels.get(names.COMPONENT_LABEL)
    return daemonset.owner_kind == kind.operator_kind or component == kind.operator_managed


def _looks_like(daemonset: DaemonSet, kind: ConsumerKind) -> bool:
    """Its selector says kubelet-plugin, or it runs a plugin's containers and no others."""
    containers = frozenset(daemonset.images)
    if not containers & kind.containers:
        return False
    by_selector = any(value == names.PLUGIN_SELECTOR_VALUE for _, value in daemonset.selector)
    return by_selector or containers <= kind.containers


def _is_compute_domain_daemon(daemonset: DaemonSet) -> bool:
    return names.COMPUTE_DOMAIN_LABEL in daemonset.labels
