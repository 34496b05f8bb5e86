"""Take a snapshot apart: what applies to all nodes of a driver stack, and per node the objects on that node.

A node is evaluated from its ``NodeView``, the ``Context``, the memory of its plugins and the time alone.

The status of the policy is no proof: it may be ``ready`` before anything is rendered. So each driver DaemonSet is
compared with the spec of the policy. The tag of its image must be that of the version, not contain it: ``580`` is a
part of ``580.65.06-ubuntu22.04``. Registry and digest do not count, because admission webhooks rewrite them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from hook.objects import names
from hook.objects.stacks import OTHER_PLUGIN, STACKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import TypeVar

    from hook.objects import DaemonSet, DeviceSlice, Malformed, Node, Pod, Revision, Snapshot
    from hook.objects.policies import Policy
    from hook.objects.stacks import Label, PluginKind, Prerequisite, Stack
    from hook.settings import DriverClient, Settings

    OnNode = TypeVar("OnNode", Pod, DeviceSlice)

_KERNEL: Final = r"[0-9][0-9A-Za-z._+-]*"
"""Regular expression for a kernel release. It starts with a digit, an operating system's tag with a letter."""
_FULL_VERSION: Final = re.compile(r"[0-9]+(\.[0-9]+)+")
_BRANCH: Final = re.compile(r"[0-9]+")
NO_PODS: Final[Mapping[str, tuple[Pod, ...]]] = {}


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver DaemonSet, compared with the policy or pool that the operator renders it from."""

    daemonset: DaemonSet
    unrendered: str
    """How it differs from that; empty if it does not."""
    manual: str
    """Why no controller replaces its outdated pods; empty if one does."""
    version: str
    """The driver version that its nodes must publish; empty if it is not known."""
    source: Policy | None = field(compare=False)
    """The policy or pool. A leftover whose pool is gone has none."""


@dataclass(frozen=True, slots=True)
class Plugins:
    """DaemonSets of driver clients, sorted by how the program treats them."""

    named: tuple[DaemonSet, ...]
    """Their stale pods are restarted."""
    unnamed: tuple[DaemonSet, ...]
    """They look like a plugin but are not in plugin.names, and want pods, or may want some in a moment."""
    idle: tuple[DaemonSet, ...]
    """The same, but they want no pods, so they hold no driver."""
    operator_managed: tuple[DaemonSet, ...]
    """The operator restarts them."""
    kinds: Mapping[str, PluginKind]
    """Kind of each named DaemonSet, by UID."""
    missing: tuple[DriverClient, ...]
    """Driver clients in the settings that match no DaemonSet."""

    def is_plugin(self, uid: str) -> bool:
        """Return whether this is a plugin of the stack, not another driver client from the settings."""
        return self.of_kind(uid) is not OTHER_PLUGIN

    def of_kind(self, uid: str) -> PluginKind:
        """Return the kind of a named DaemonSet."""
        return self.kinds.get(uid, OTHER_PLUGIN)

    def owner_of(self, pod: Pod) -> str:
        """Return the UID of the named DaemonSet that a pod belongs to, or "".

        ``kubectl delete daemonset --cascade=orphan`` leaves pods behind that still run and hold the driver. The
        DaemonSet controller adopts them by their labels (K8S ``pkg/controller/controller_ref_manager.go``).
        """
        if pod.owner_uid:
            return pod.owner_uid if pod.owner_uid in self.kinds else ""
        heirs = (ds.uid for ds in self.named if ds.namespace == pod.namespace and ds.selects(pod.labels))
        return next(heirs, "")


@dataclass(frozen=True, slots=True)
class Context:
    """What applies to all nodes of a driver stack. The statuses of nodes depend on the fields that are compared."""

    stack: Stack
    settings: Settings
    drivers: Mapping[str, Driver]
    """By UID of the DaemonSet."""
    newest: Mapping[str, Revision]
    """Newest ControllerRevision by owner UID. Revisions of a replaced DaemonSet may still exist.

    A DaemonSet whose newest revision has not arrived has none. Each kind has its own watch, so the status of a
    DaemonSet may arrive before the revision that the DaemonSet controller created first.
    """
    plugins: Plugins
    prerequisites: Mapping[Prerequisite, Mapping[str, DaemonSet]]
    """What a plugin must start after in addition to the driver, if the settings name it; with its DaemonSets by UID."""
    slices_served: bool
    """Whether the API server has ResourceSlices."""
    malformed: Sequence[Malformed]
    governed: bool
    """Whether there is a policy, so that an operator upgrades the drivers."""
    policy: Policy | None = field(compare=False)
    """The active one."""
    policy_kind_served: bool = field(compare=False)
    """Whether the API server has the kind of the policy."""
    pools: Sequence[Policy] = field(compare=False)
    sources: Sequence[Policy] = field(compare=False)
    """The objects that specify the drivers: the policy, or the pools if it leaves the drivers to them."""
    unmet: str = field(compare=False)
    """How the policy differs from the versions that the settings expect, or ""."""
    deployed: bool = field(compare=False)
    """Whether drivers of the operator run. Then a policy asked for them, and may be being replaced."""

    def is_outdated(self, pod: Pod) -> bool:
        """Return whether a pod is not of the newest revision, or its newest revision is unknown."""
        newest = self.newest.get(pod.owner_uid)
        return newest is None or pod.hash != newest.hash

    @property
    def blind(self) -> bool:
        """Return whether a malformed object may be about any node. It could make an unsettled node look settled."""
        return any(not _place(each) for each in self.malformed)

    @property
    def unrendered(self) -> str:
        """Return how the first driver DaemonSet differs from its policy or pool, or ""."""
        return next((driver.unrendered for driver in self.drivers.values() if driver.unrendered), "")


class NodeView(msgspec.Struct, frozen=True):
    """The objects on one node."""

    name: str
    node: Node | None
    driver_pods: Sequence[Pod] = ()
    plugins: Mapping[str, Sequence[Pod]] = NO_PODS
    """Pods of named plugins, with orphans, by UID of the DaemonSet."""
    prerequisite_pods: Sequence[Pod] = ()
    slices: Sequence[DeviceSlice] = ()
    malformed: Malformed | None = None
    """The first malformed object on this node."""
    was_eligible: bool = False
    """It was eligible before in this run, so it has a device, whatever its labels are now."""

    @property
    def plugin_pods(self) -> list[Pod]:
        """Return the pods of all plugins."""
        return [pod for pods in self.plugins.values() for pod in pods]

    def label(self, key: str) -> str:
        """Return the value of a node label, or ""."""
        return self.node.labels.get(key, "") if self.node is not None else ""

    def is_wanted_by(self, daemonset: DaemonSet) -> bool:
        """Return whether a DaemonSet wants a pod here."""
        return self.node is not None and daemonset.wants(self.node)


@dataclass(frozen=True, slots=True)
class Fleet:
    """A snapshot that was taken apart."""

    context: Context
    nodes: Mapping[str, NodeView]
    """Nodes with a device, or with a driver or plugin pod, sorted by name."""
    snapshot: Snapshot

    @property
    def stack(self) -> Stack:
        """Return the driver stack."""
        return self.context.stack

    @property
    def policy(self) -> Policy | None:
        """Return the active policy."""
        return self.context.policy

    def drivers_on(self, node: str) -> Sequence[Pod]:
        """Return the driver pods on a node."""
        return self.nodes[node].driver_pods if node in self.nodes else ()


def index(snapshot: Snapshot, settings: Settings) -> Fleet:
    """Take a snapshot apart."""
    context = context_of(snapshot, settings)
    return Fleet(context, views_of(snapshot, context), snapshot)


def context_of(snapshot: Snapshot, settings: Settings) -> Context:
    """Return what applies to all nodes."""
    stack = STACKS[settings.stack]
    policy = active_policy(snapshot.policies or (), stack)
    drivers = _drivers(snapshot, policy, stack, settings)
    wanted = any(driver.daemonset.desired > 0 or not driver.daemonset.observed for driver in drivers.values())
    return Context(
        stack=stack,
        settings=settings,
        drivers=drivers,
        newest=_newest(snapshot.revisions, snapshot.daemonsets),
        plugins=find_plugins(snapshot.daemonsets, settings),
        prerequisites=_prerequisites(snapshot.daemonsets, stack, settings),
        slices_served=snapshot.slices is not None,
        malformed=snapshot.malformed,
        governed=policy is not None,
        policy=policy,
        policy_kind_served=snapshot.policies is not None,
        pools=snapshot.pools,
        sources=sources_of(policy, snapshot.pools),
        unmet=unmet_expectation(policy, snapshot.pools, stack, settings) if policy is not None else "",
        deployed=bool(snapshot.driver_pods) or wanted,
    )


def views_of(
    snapshot: Snapshot,
    context: Context,
    names: AbstractSet[str] | None = None,
    eligible: AbstractSet[str] = frozenset(),
) -> dict[str, NodeView]:
    """Build the views of all nodes, or of some: of those that have a device, or a driver or plugin pod.

    Nodes that were `eligible` before have a device as long as they exist.
    """
    nodes, label = snapshot.nodes, context.stack.nodes.present
    drivers, pods = _by_node(snapshot.driver_pods, names), _by_node(snapshot.plugin_pods, names)
    required, slices = _by_node(snapshot.prerequisite_pods, names), _by_node(snapshot.slices or (), names)
    malformed = {_place(each): each for each in reversed(context.malformed)}
    views: dict[str, NodeView] = {}
    for name in sorted({*nodes, *drivers, *pods} if names is None else names):
        node, found = nodes.get(name), drivers.get(name, [])
        plugins = _by_plugin(pods[name], context.plugins) if name in pods else NO_PODS
        labelled = node is not None and node.labels.get(label) == "true"
        was_eligible = name in eligible
        if name and (labelled or found or plugins or (was_eligible and node is not None)):
            views[name] = NodeView(
                name,
                node,
                driver_pods=_sorted(found),
                plugins=plugins,
                prerequisite_pods=_sorted(required.get(name, ())),
                slices=_newest_slices(slices.get(name, ())),
                malformed=malformed.get(name),
                was_eligible=was_eligible,
            )
    return views


def _by_node(objects: Iterable[OnNode], names: AbstractSet[str] | None) -> dict[str, list[OnNode]]:
    """Group objects by their node."""
    found: dict[str, list[OnNode]] = {}
    for each in objects:
        if names is None or each.node in names:
            found.setdefault(each.node, []).append(each)
    return found


def _by_plugin(pods: Sequence[Pod], plugins: Plugins) -> dict[str, Sequence[Pod]]:
    """Group the pods of a node by the UID of their plugin."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if owner := plugins.owner_of(pod):
            found.setdefault(owner, []).append(pod)
    return {uid: _sorted(group) for uid, group in found.items()}


def _sorted(pods: Sequence[Pod]) -> Sequence[Pod]:
    """Return pods sorted by name: their order in the cache depends on when they came."""
    return tuple(sorted(pods, key=str) if len(pods) > 1 else pods)


def _newest_slices(slices: Sequence[DeviceSlice]) -> Sequence[DeviceSlice]:
    """Drop older generations of a pool, as the scheduler does. A pool of a kubelet plugin is on one node."""
    if len(slices) < 2:  # noqa: PLR2004 - the only one
        return slices
    newest: dict[str, int] = {}
    for each in slices:
        newest[each.pool] = max(each.generation, newest.get(each.pool, 0))
    return tuple(each for each in slices if each.generation == newest[each.pool])


def _place(malformed: Malformed) -> str:
    """Return the name of the node that a malformed object is on, or ""."""
    return malformed.name if malformed.kind == "Node" else malformed.node


def live_pods(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that are neither terminating nor finished."""
    return [pod for pod in pods if pod.live]


# Which DaemonSets are plugins or other driver clients.


def plugin_names(settings: Settings) -> tuple[str, ...]:
    """Return the names of the plugins: those in the settings, else the defaults of the stack."""
    return settings.plugin.names or STACKS[settings.stack].plugin.names


def find_plugins(daemonsets: Iterable[DaemonSet], settings: Settings) -> Plugins:
    """Sort DaemonSets by how the program treats them. ComputeDomain daemons are ignored, and so are drivers."""
    stack, wanted = STACKS[settings.stack], settings.driver_clients
    known = [ds for ds in daemonsets if not _is_compute_domain_daemon(ds) and not _is_source(ds)]
    managed = [ds for ds in known if _is_operator_managed(ds, stack)]
    others = [ds for ds in known if ds not in managed]
    inside = [ds for ds in others if settings.plugin.namespace in ("", ds.namespace)]
    plugins = [ds for ds in inside if ds.name in plugin_names(settings)]
    further = [ds for ds in others if ds not in plugins and any(_matches(ds, client) for client in wanted)]
    kinds = {ds.uid: stack.plugin for ds in plugins}
    kinds |= {ds.uid: stack.plugin if _looks_like(ds, stack.plugin) else OTHER_PLUGIN for ds in further}
    unnamed = [ds for ds in inside if ds.uid not in kinds and _looks_like(ds, stack.plugin)]
    idle = tuple(ds for ds in unnamed if ds.observed and not ds.desired)
    return Plugins(
        named=(*plugins, *further),
        unnamed=tuple(ds for ds in unnamed if ds not in idle),
        idle=idle,
        operator_managed=tuple(managed),
        kinds=kinds,
        missing=tuple(client for client in wanted if not any(_matches(ds, client) for ds in (*plugins, *further))),
    )


def _matches(daemonset: DaemonSet, wanted: DriverClient) -> bool:
    if wanted.labels:
        return all(daemonset.template_labels.get(key) == value for key, value in wanted.labels.items())
    return (wanted.namespace, wanted.name) == (daemonset.namespace, daemonset.name)


def _is_source(daemonset: DaemonSet) -> bool:
    """Return whether a DaemonSet loads a driver or is a provider, in any stack. It would always look stale."""
    return any(loads_driver(daemonset, stack) or is_prerequisite(daemonset, stack) for stack in STACKS.values())


def loads_driver(daemonset: DaemonSet, stack: Stack) -> bool:
    """Return whether a DaemonSet loads the driver, by its label, or by its owner if the label is overridden."""
    owned = daemonset.owner_kind in stack.driver.owners and stack.driver.container in daemonset.images
    return owned or _carries(daemonset, stack.driver.label)


def is_prerequisite(daemonset: DaemonSet, stack: Stack) -> bool:
    """Return whether plugins may have to start after the pods of a DaemonSet."""
    return any(_carries(daemonset, prerequisite.label) for prerequisite in stack.prerequisites.values())


def _carries(daemonset: DaemonSet, label: Label) -> bool:
    return daemonset.labels.get(label.key) == label.value


def other_owners(stack: Stack) -> frozenset[str]:
    """Return the kinds that deploy drivers in addition to the policy and its pools. Their objects are not read."""
    return stack.driver.owners - {kind.kind for kind in (stack.policy, stack.pool) if kind is not None}


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
    by_selector = any(value == names.PLUGIN_SELECTOR_VALUE for value in daemonset.selector.values())
    return by_selector or containers <= kind.containers


def _is_compute_domain_daemon(daemonset: DaemonSet) -> bool:
    return names.COMPUTE_DOMAIN_LABEL in daemonset.labels


def _prerequisites(
    daemonsets: Iterable[DaemonSet], stack: Stack, settings: Settings
) -> dict[Prerequisite, dict[str, DaemonSet]]:
    chosen = [prerequisite for name, prerequisite in stack.prerequisites.items() if name in settings.refresh_after]
    return {
        prerequisite: {ds.uid: ds for ds in daemonsets if _carries(ds, prerequisite.label)} for prerequisite in chosen
    }


# Whether the driver DaemonSets match the policy.


def active_policy(policies: Iterable[Policy], stack: Stack) -> Policy | None:
    """Return the policy that the operator uses: the oldest, then by name (GO ``getSingletonClusterPolicy``)."""
    counting = (policy for policy in policies if stack.policy.only_name in ("", policy.name))
    return min(counting, key=lambda policy: (policy.created, policy.name), default=None)


def sources_of(policy: Policy | None, pools: Sequence[Policy]) -> Sequence[Policy]:
    """Return the objects that specify the drivers: the policy, or the pools if it leaves the drivers to them."""
    if policy is None:
        return ()
    return pools if policy.driver.pooled else (policy,)


def pools_decide(nodes: Iterable[Node], pools: Iterable[Policy], stack: Stack) -> bool:
    """Return whether the upgrade policy of each pool counts (GO >= v26.7.0), and not that of the ClusterPolicy.

    Only such an operator labels nodes with their pool.
    """
    named = any(stack.nodes.pool in node.labels for node in nodes)
    return named or any(pool.manual is not None for pool in pools)


def not_rotated(pool: Policy, policy: Policy, *, decides: bool) -> str:
    """Return why no controller replaces the driver pods of a pool; "" if the upgrade controller does.

    If the pools decide, a pool without an upgrade policy is upgraded (GO ``GetUpgradePolicyWithDefaults``).
    """
    own = "" if decides and pool.manual is None else pool.manual
    return policy.halted or (own if own is not None else policy.manual or "")


def _drivers(snapshot: Snapshot, policy: Policy | None, stack: Stack, settings: Settings) -> dict[str, Driver]:
    """Return the driver DaemonSets by UID. One whose pods a DaemonSet controller replaces is never manual."""
    found = [ds for ds in snapshot.daemonsets if loads_driver(ds, stack)]
    intents = _intents(found, policy, snapshot, stack)
    decides = pools_decide(snapshot.nodes.values(), snapshot.pools, stack)
    in_use = {pod.owner_uid for pod in snapshot.driver_pods}
    one_source = len(sources_of(policy, snapshot.pools)) == 1
    drivers = {}
    for ds in found:
        source = intents.get(ds.uid)
        manual = not_rotated(source or policy, policy, decides=decides) if policy is not None else ""
        drivers[ds.uid] = Driver(
            ds,
            unrendered=_difference(ds, source, policy, stack, in_use=ds.uid in in_use),
            manual="" if ds.rolling else manual,
            # One of several sources may be pinned to another version than the expected one.
            version=wanted_version(source, settings.expect.driver_version if one_source else ""),
            source=source,
        )
    return drivers


def _intents(
    drivers: Iterable[DaemonSet], policy: Policy | None, snapshot: Snapshot, stack: Stack
) -> dict[str, Policy]:
    """Return the policy or pool of each driver DaemonSet. A leftover whose pool is gone has none."""
    if policy is None:
        return {}
    if not policy.driver.pooled:
        # A DaemonSet of another kind of object (NicNodePolicy) cannot be compared with this policy.
        # A leftover of a pool can: it differs until the operator has replaced it.
        return {ds.uid: policy for ds in drivers if ds.owner_kind not in other_owners(stack)}
    by_uid = {pool.uid: pool for pool in snapshot.pools}
    return {ds.uid: by_uid[ds.owner_uid] for ds in drivers if ds.owner_uid in by_uid}


def _difference(
    daemonset: DaemonSet, source: Policy | None, policy: Policy | None, stack: Stack, *, in_use: bool
) -> str:
    """Return how a driver DaemonSet differs from its policy or pool, or "". Ignore a leftover without pods.

    Also check a DaemonSet without a policy: one that its controller has not observed may have a newer revision.
    """
    if daemonset.observed and daemonset.desired == 0 and not in_use:
        return ""
    if source is None and policy is not None and policy.driver.pooled and daemonset.desired > 0:
        return f"the pool of {daemonset} is gone: the operator is about to replace the DaemonSet"
    return unrendered(daemonset, source, stack)


def unrendered(daemonset: DaemonSet, policy: Policy | None, stack: Stack) -> str:
    """Return how a driver DaemonSet differs from the policy, or "" if it matches."""
    if not daemonset.observed:
        return (
            f"the DaemonSet controller has not seen generation {daemonset.generation} of {daemonset} yet "
            f"(observed {daemonset.status.observed_generation})"
        )
    if policy is None:
        return ""
    chart = daemonset.template_labels.get(names.CHART_LABEL, "")
    if policy.chart and chart != policy.chart:
        return f"{daemonset} is still rendered from {chart or '(no chart)'}, not {policy.chart}"
    image = daemonset.images.get(stack.driver.container, "")
    if comparable(policy) and not _has_version(image, policy, stack):
        return (
            f"{daemonset} still runs {image or '(no driver image)'}, {policy} asks for driver {policy.driver.version}"
        )
    return ""


def _has_version(image: str, policy: Policy, stack: Stack) -> bool:
    """Return whether the tag of an image is one that the operator makes of the policy's version, or its digest is it.

    A tag of precompiled drivers also names the kernel.
    """
    name, _at, digest = image.partition("@")
    if policy.driver.version.startswith("sha256:"):
        return digest == policy.driver.version
    kernel = f"{_KERNEL}-" if policy.driver.use_precompiled else ""
    tag = stack.driver.tag.format(version=re.escape(policy.driver.version), kernel=kernel)
    return re.fullmatch(tag, name.rpartition("/")[2].partition(":")[2]) is not None


def unmet_expectation(policy: Policy, pools: Sequence[Policy], stack: Stack, settings: Settings) -> str:
    """Return how the policy differs from the versions that the settings expect (``expect.*``), or "".

    If pools ask for different drivers, the expected one must be among them, unless the digest of a pool may stand for
    it.
    """
    wanted = settings.expect.driver_version
    asking = sources_of(policy, pools)
    if (
        wanted
        and asking
        and all(map(names_version, asking))
        and all(source.driver.version != wanted for source in asking)
    ):
        asked = ", ".join(sorted({source.driver.version for source in asking}))
        return f"{_several(asking)} asks for driver {asked}, expected {wanted}"
    wanted = settings.expect.chart_version
    if wanted and chart_version(policy.chart, stack) != chart_version(wanted, stack):
        return f"{policy} comes from chart {policy.chart or '(unlabelled)'}, expected {wanted}"
    return ""


def _several(asking: Sequence[Policy]) -> str:
    return str(asking[0]) if len(asking) == 1 else f"each of {len(asking)} {asking[0].kind} objects"


def names_version(source: Policy) -> bool:
    """Return whether a policy or pool names a driver version, rather than a digest or nothing."""
    return bool(source.driver.version) and not source.driver.version.startswith("sha256:")


def comparable(source: Policy) -> bool:
    """Return whether a policy or pool names an image to compare DaemonSets with. Under OLM it names none."""
    return bool(source.driver.version and source.driver.image)


def chart_version(label: str, stack: Stack) -> str:
    """Reduce a chart label or version to its comparable part: ``gpu-operator-v26.3.3`` becomes ``26.3.3``.

    A label cannot contain ``+``. Helm charts write ``_`` instead.
    """
    return label.removeprefix(stack.operator.chart + "-").removeprefix("v").replace("+", "_")


def _newest(revisions: Iterable[Revision], daemonsets: Iterable[DaemonSet]) -> dict[str, Revision]:
    """Return the newest revision of each DaemonSet, if it records the current template."""
    newest: dict[str, Revision] = {}
    for revision in revisions:
        best = newest.get(revision.owner_uid)
        if best is None or revision.revision > best.revision:
            newest[revision.owner_uid] = revision
    replaced = {ds.uid for ds in daemonsets if ds.uid in newest and not newest[ds.uid].records(ds)}
    return {uid: revision for uid, revision in newest.items() if uid not in replaced}


def wanted_version(policy: Policy | None, expected: str) -> str:
    """Return the driver version to verify: that of the policy, else the expected one, else ""."""
    if policy is None or policy.driver.pooled:
        return ""
    return policy.driver.version if names_version(policy) else expected


@lru_cache(maxsize=64)
def same_driver(published: str, wanted: str) -> bool:
    """Return whether a published driver version matches the wanted one; True if they cannot be compared.

    Published versions lose leading zeros (``580.105.08`` becomes ``580.105.8``), so segments are compared as numbers.
    A precompiled tag contains only the driver branch.
    """
    if _FULL_VERSION.fullmatch(wanted) and _FULL_VERSION.fullmatch(published):
        return _segments(wanted) == _segments(published)
    if _BRANCH.fullmatch(wanted) and _FULL_VERSION.fullmatch(published):
        return _segments(wanted)[0] == _segments(published)[0]
    return True


def _segments(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
