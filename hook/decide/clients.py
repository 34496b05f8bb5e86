"""Find the DaemonSets of driver clients, and sort them by how the program treats them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hook.objects import names
from hook.objects.drivers import OTHER_PLUGIN, STACKS, is_driver, is_provider

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hook.config import DriverClient, Settings
    from hook.objects.drivers import PluginKind, Stack
    from hook.objects.views import DaemonSet


@dataclass(frozen=True, slots=True)
class Plugins:
    """DaemonSets of driver clients, sorted by how the program treats them."""

    named: tuple[DaemonSet, ...]
    """Their stale pods are restarted."""
    unnamed: tuple[DaemonSet, ...]
    """They look like a plugin but are not in plugin.names. They are only reported."""
    operator_managed: tuple[DaemonSet, ...]
    """The operator restarts them."""
    kinds: Mapping[str, PluginKind]
    """Kind of each named DaemonSet, by UID."""
    missing: tuple[DriverClient, ...]
    """Driver clients in the settings that match no DaemonSet."""
    refused: tuple[DaemonSet, ...] = ()
    """DaemonSets in the settings that load a driver, or that plugins must start after. They are never restarted."""

    def is_plugin(self, uid: str) -> bool:
        """Return whether this is a plugin of the stack, not another driver client from the settings."""
        return uid in self.kinds and self.kinds[uid] is not OTHER_PLUGIN

    @property
    def serves_plugins(self) -> bool:
        """Return whether any plugin of the stack is refreshed."""
        return any(self.is_plugin(uid) for uid in self.kinds)

    def of_kind(self, uid: str) -> PluginKind:
        """Return the kind of a named DaemonSet."""
        return self.kinds.get(uid, OTHER_PLUGIN)


def plugin_names(settings: Settings) -> tuple[str, ...]:
    """Return the names of the plugins: those in the settings, else the defaults of the stack."""
    return settings.plugin.names or STACKS[settings.stack].plugin.names


def find(daemonsets: Iterable[DaemonSet], settings: Settings) -> Plugins:
    """Sort DaemonSets by how the program treats them. ComputeDomain daemons are ignored."""
    stack, wanted = STACKS[settings.stack], settings.driver_clients
    known = [ds for ds in daemonsets if not _is_compute_domain_daemon(ds)]
    sources = [ds for ds in known if _is_source(ds)]
    candidates = [ds for ds in known if ds not in sources]
    managed = [ds for ds in candidates if _is_operator_managed(ds, stack)]
    others = [ds for ds in candidates if ds not in managed]
    inside = [ds for ds in others if settings.plugin.namespace in ("", ds.namespace)]
    plugins = [ds for ds in inside if ds.name in plugin_names(settings)]
    further = [ds for ds in others if ds not in plugins and any(_matches(ds, plugin) for plugin in wanted)]
    kinds = {ds.uid: stack.plugin for ds in plugins}
    kinds |= {ds.uid: stack.plugin if _looks_like(ds, stack.plugin) else OTHER_PLUGIN for ds in further}
    return Plugins(
        named=(*plugins, *further),
        unnamed=tuple(ds for ds in inside if ds.uid not in kinds and _looks_like(ds, stack.plugin)),
        operator_managed=tuple(managed),
        kinds=kinds,
        missing=_missing(wanted, further, plugins, sources),
        refused=tuple(ds for ds in sources if any(_matches(ds, plugin) for plugin in wanted)),
    )


def _missing(wanted: Sequence[DriverClient], *found: Sequence[DaemonSet]) -> tuple[DriverClient, ...]:
    everything = [ds for part in found for ds in part]
    return tuple(plugin for plugin in wanted if not any(_matches(ds, plugin) for ds in everything))


def _matches(daemonset: DaemonSet, wanted: DriverClient) -> bool:
    if wanted.labels:
        return all(daemonset.template_labels.get(key) == value for key, value in wanted.labels.items())
    return (wanted.namespace, wanted.name) == (daemonset.namespace, daemonset.name)


def _is_source(daemonset: DaemonSet) -> bool:
    """Return whether a DaemonSet loads a driver or is a provider, in any stack. It would always look stale."""
    return any(is_driver(daemonset, stack) or is_provider(daemonset, stack) for stack in STACKS.values())


def _is_operator_managed(daemonset: DaemonSet, stack: Stack) -> bool:
    """Return whether the operator restarts this DaemonSet. Then it is never restarted, even if the settings name it.

    The name alone is no proof: the nameOverride of a chart can produce the same name.
    """
    kind = stack.plugin
    if not kind.operator_managed or daemonset.name != kind.operator_managed:
        return False
    component = daemonset.labels.get(names.COMPONENT_LABEL)
    return daemonset.owner_kind == kind.operator_kind or component == kind.operator_managed


def _looks_like(daemonset: DaemonSet, kind: PluginKind) -> bool:
    """Return whether the selector is that of a kubelet plugin, or all containers are those of a plugin."""
    containers = frozenset(daemonset.images)
    if not containers & kind.containers:
        return False
    by_selector = any(value == names.PLUGIN_SELECTOR_VALUE for _, value in daemonset.selector)
    return by_selector or containers <= kind.containers


def _is_compute_domain_daemon(daemonset: DaemonSet) -> bool:
    return names.COMPUTE_DOMAIN_LABEL in daemonset.labels
