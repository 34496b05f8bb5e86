"""Take a snapshot apart: what applies to all nodes of a driver stack, and per node the objects on that node.

A node is evaluated from its ``NodeView``, the ``Context``, the memory of its plugins and the time alone.

The status of the policy is no proof: it may be ``ready`` before anything is rendered. So each driver DaemonSet is
compared with the spec of the policy. The whole image reference must match, not a part of it: ``580`` is a part of
``580.65.06-ubuntu22.04``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import msgspec

from hook.objects import names
from hook.objects.stacks import OTHER_PLUGIN, STACKS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import TypeVar

    from hook.objects import DaemonSet, DeviceSlice, Malformed, Node, Pod, Revision, Snapshot
    from hook.objects.policies import Policy
    from hook.objects.stacks import PluginKind, Prerequisite, Stack
    from hook.settings import DriverClient, Settings

    OnNode = TypeVar("OnNode", Pod, DeviceSlice)

NONE: Final[frozenset[str]] = frozenset()
"""Most nodes share it."""


@dataclass(frozen=True, slots=True)
class Context:
    """What applies to all nodes of a driver stack."""

    stack: Stack
    settings: Settings
    policy: Policy | None
    """The active one."""
    policy_kind_served: bool
    """Whether the API server has the kind of the policy."""
    pools: Sequence[Policy]
    sources: Sequence[Policy]
    """The objects that specify the drivers: the policy, or the pools if it leaves the drivers to them."""
    expected: str
    """The expected driver version, if one object specifies all drivers. One of several may be pinned to another one."""
    unmet: str
    """How the policy differs from the versions that the settings expect, or ""."""
    drivers: Mapping[str, DaemonSet]
    """Driver DaemonSets by UID."""
    deployed: bool
    """Whether drivers of the operator run. Then a policy asked for them, and may be being replaced."""
    intents: Mapping[str, Policy]
    """By UID of a driver DaemonSet: the policy or pool that the operator renders it from."""
    newest: Mapping[str, Revision]
    """Newest ControllerRevision by owner UID. Revisions of a replaced DaemonSet may still exist.

    A DaemonSet whose newest revision has not arrived has none. Each kind has its own watch, so the status of a
    DaemonSet may arrive before the revision that the DaemonSet controller created first.
    """
    unrendered: Mapping[str, str]
    """By UID of a driver DaemonSet: how it differs from its policy or pool."""
    rewritten: Sequence[str]
    """How the images of driver DaemonSets differ from the policy, if only by their registry or digest."""
    plugins: Plugins
    evicted: Mapping[str, str]
    """By UID of a plugin's DaemonSet: the node label by which the driver manager evicts it before a reload, or ""."""
    prerequisites: Mapping[Prerequisite, Mapping[str, DaemonSet]]
    """What a plugin must start after in addition to the driver, if the settings name it; with its DaemonSets by UID."""
    detects: bool
    """False if no node of several carries the device label: then NFD, which sets it, is down."""
    slices_served: bool
    """Whether the API server has ResourceSlices."""
    malformed: Sequence[Malformed]

    @property
    def lasting(self) -> Context:
        """Return the part that the evaluation of a node depends on. The rest changes with each pod of another node."""
        plugins = replace(
            self.plugins,
            named=tuple(map(_without_status, self.plugins.named)),
            unnamed=tuple(map(_without_status, self.plugins.unnamed)),
            operator_managed=(),
            refused=(),
        )
        return replace(
            self,
            policy=self.policy and _as_nodes_read_it(self.policy),
            pools=(),
            sources=(),
            drivers={uid: _without_status(ds) for uid, ds in self.drivers.items()},
            intents={uid: _as_nodes_read_it(intent) for uid, intent in self.intents.items()},
            plugins=plugins,
            prerequisites={
                prerequisite: {uid: _without_status(ds) for uid, ds in owners.items()}
                for prerequisite, owners in self.prerequisites.items()
            },
        )


def _without_status(daemonset: DaemonSet) -> DaemonSet:
    """Return a DaemonSet without the counts of its status."""
    return msgspec.structs.replace(daemonset, observed_generation=0, desired=0)


def _as_nodes_read_it(policy: Policy) -> Policy:
    """Return a policy without its status, its times and the manifest that it was read from.

    The operator writes the status with each reconcile, and some tools write metadata every few seconds.
    """
    return replace(policy, state="", generation=0, changed=None, spec={})


class NodeView(msgspec.Struct, frozen=True):
    """The objects on one node."""

    name: str
    node: Node | None
    driver_pods: Sequence[Pod] = ()
    plugin_pods: Sequence[Pod] = ()
    """Pods of named plugins. An orphan has the UID of the DaemonSet that will adopt it."""
    unnamed_pods: Sequence[Pod] = ()
    """Pods of DaemonSets that look like a plugin but are not in plugin.names. They are never restarted."""
    prerequisite_pods: Sequence[Pod] = ()
    outdated: frozenset[str] = NONE
    """UIDs of driver and prerequisite pods that are not of the newest revision, or whose newest revision is unknown."""
    slices: Sequence[DeviceSlice] = ()
    malformed: Sequence[Malformed] = ()
    """Malformed objects on this node, and malformed pods whose node is unknown."""
    orphans: frozenset[str] = NONE
    """UIDs of plugin pods that no DaemonSet controls."""

    def label(self, key: str) -> str:
        """Return the value of a node label, or ""."""
        return self.node.labels.get(key, "") if self.node is not None else ""

    def is_wanted_by(self, daemonset: DaemonSet) -> bool:
        """Return whether a DaemonSet wants a pod here."""
        return self.node is not None and daemonset.wants(self.node)

    def plugin_pods_of(self, daemonset_uid: str) -> list[Pod]:
        """Return the pods of one plugin."""
        return [pod for pod in self.plugin_pods if pod.owner_uid == daemonset_uid]


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


def views_of(snapshot: Snapshot, context: Context, names: AbstractSet[str] | None = None) -> dict[str, NodeView]:
    """Build the views of all nodes, or of some: of those that have a device, or a driver or plugin pod."""
    nodes, label = snapshot.nodes, context.stack.nodes.present
    drivers, pods = _pods_by_node(snapshot.driver_pods, names), _pods_by_node(snapshot.plugin_pods, names)
    required, slices = _pods_by_node(snapshot.prerequisite_pods, names), _by_node(snapshot.slices or (), names)
    views: dict[str, NodeView] = {}
    for name in sorted({*nodes, *drivers, *pods} if names is None else names):
        node, raw, found = nodes.get(name), pods.get(name, ()), drivers.get(name, ())
        plugins = tuple(plugin_pods(raw, context.plugins.named))
        labelled = node is not None and node.labels.get(label) == "true"
        if not name or not (labelled or found or plugins):
            continue
        views[name] = NodeView(
            name,
            node,
            driver_pods=found,
            plugin_pods=plugins,
            unnamed_pods=_of(context.plugins.unnamed, raw),
            prerequisite_pods=required.get(name, ()),
            outdated=_outdated((*found, *required.get(name, ())), context),
            slices=_newest_slices(slices.get(name, ())),
            malformed=_malformed_on(name, context.malformed),
            orphans=_orphans(raw),
        )
    return views


def _by_node(objects: Iterable[OnNode], names: AbstractSet[str] | None) -> dict[str, tuple[OnNode, ...]]:
    """Group objects by their node."""
    found: dict[str, list[OnNode]] = {}
    for each in objects:
        if names is None or each.node in names:
            found.setdefault(each.node, []).append(each)
    return {name: tuple(group) for name, group in found.items()}


def _pods_by_node(pods: Iterable[Pod], names: AbstractSet[str] | None) -> dict[str, tuple[Pod, ...]]:
    """Group pods by their node, sorted by name: their order in the cache depends on when they came."""
    found = _by_node(pods, names)
    return {name: tuple(sorted(group, key=str)) if len(group) > 1 else group for name, group in found.items()}


def _of(owners: Iterable[DaemonSet], pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return the pods of some DaemonSets."""
    return tuple(pod for ds in owners for pod in pods if pod.owner_uid == ds.uid)


def _orphans(pods: Iterable[Pod]) -> frozenset[str]:
    """Return the UIDs of pods that no DaemonSet controls."""
    uids = [pod.uid for pod in pods if not pod.owner_uid]
    return frozenset(uids) if uids else NONE


def _outdated(pods: Iterable[Pod], context: Context) -> frozenset[str]:
    """Return the UIDs of pods that are not of the newest revision, or whose newest revision is unknown."""
    newest = context.newest
    uids = [pod.uid for pod in pods if pod.owner_uid not in newest or pod.hash != newest[pod.owner_uid].hash]
    return frozenset(uids) if uids else NONE


def _newest_slices(slices: Sequence[DeviceSlice]) -> Sequence[DeviceSlice]:
    """Drop older generations of a pool, as the scheduler does. A pool of a kubelet plugin is on one node."""
    if len(slices) < 2:  # noqa: PLR2004 - the only one
        return slices
    newest: dict[str, int] = {}
    for each in slices:
        newest[each.pool] = max(each.generation, newest.get(each.pool, 0))
    return tuple(each for each in slices if each.generation == newest[each.pool])


def _malformed_on(name: str, malformed: Sequence[Malformed]) -> tuple[Malformed, ...]:
    """Return the malformed objects on a node, and the pods whose node is unknown."""
    return tuple(
        found for found in malformed if name in (found.node, found.name) or (found.kind == "Pod" and not found.node)
    )


def context_of(snapshot: Snapshot, settings: Settings) -> Context:
    """Return what applies to all nodes."""
    stack = STACKS[settings.stack]
    drivers = {ds.uid: ds for ds in snapshot.daemonsets if stack.loads_driver(ds)}
    policy = active_policy(snapshot.policies or (), stack)
    intents = intents_of(drivers.values(), policy, snapshot, stack)
    sources = sources_of(policy, snapshot.pools)
    unmet = unmet_expectation(policy, snapshot.pools, stack, settings) if policy is not None else ""
    rewritten = tuple(rewritings(drivers.values(), intents, stack))
    unrendered = unrendered_drivers(drivers.values(), policy, intents, snapshot, stack)
    plugins = find_plugins(snapshot.daemonsets, settings)
    evicting = {names.EVICTED_CLIENT_LABEL, *(source.eviction_label for source in sources)}
    return Context(
        stack=stack,
        settings=settings,
        policy=policy,
        policy_kind_served=snapshot.policies is not None,
        pools=snapshot.pools,
        sources=sources,
        expected=settings.expect.driver_version if len(sources) == 1 else "",
        unmet=unmet,
        drivers=drivers,
        deployed=bool(snapshot.driver_pods) or any(ds.desired > 0 or not ds.observed for ds in drivers.values()),
        intents=intents,
        newest=_recorded(_newest(snapshot.revisions), snapshot.daemonsets),
        unrendered=unrendered,
        rewritten=rewritten,
        plugins=plugins,
        evicted={ds.uid: next((key for key in ds.node_selector if key in evicting), "") for ds in plugins.named},
        prerequisites=_prerequisites(snapshot.daemonsets, stack, settings),
        detects=_detects(snapshot, stack, plugins.named),
        slices_served=snapshot.slices is not None,
        malformed=snapshot.malformed,
    )


def live_pods(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that are neither terminating nor finished."""
    return [pod for pod in pods if pod.live]


def _prerequisites(
    daemonsets: Iterable[DaemonSet], stack: Stack, settings: Settings
) -> dict[Prerequisite, dict[str, DaemonSet]]:
    chosen = [prerequisite for name, prerequisite in stack.prerequisites.items() if name in settings.refresh_after]
    return {
        prerequisite: {ds.uid: ds for ds in daemonsets if ds.labels.get(prerequisite.label[0]) == prerequisite.label[1]}
        for prerequisite in chosen
    }


def _newest(revisions: Iterable[Revision]) -> dict[str, Revision]:
    newest: dict[str, Revision] = {}
    for revision in revisions:
        best = newest.get(revision.owner_uid)
        if best is None or revision.revision > best.revision:
            newest[revision.owner_uid] = revision
    return newest


def _recorded(newest: Mapping[str, Revision], daemonsets: Iterable[DaemonSet]) -> dict[str, Revision]:
    """Return the newest revisions that record the current template of their DaemonSet."""
    replaced = {ds.uid for ds in daemonsets if ds.uid in newest and not newest[ds.uid].records(ds)}
    return {uid: revision for uid, revision in newest.items() if uid not in replaced}


def plugin_pods(pods: Iterable[Pod], named: Sequence[DaemonSet]) -> Iterator[Pod]:
    """Yield the pods of named plugins."""
    uids = {ds.uid for ds in named}
    return (pod for pod in _adopted(pods, named) if pod.owner_uid in uids)


def _adopted(pods: Iterable[Pod], named: Sequence[DaemonSet]) -> Iterator[Pod]:
    """Yield pods, and assign each orphan to the DaemonSet whose selector matches it.

    ``kubectl delete daemonset --cascade=orphan`` leaves pods behind that still run and hold the driver. The DaemonSet
    controller adopts them by the same rule (K8S ``pkg/controller/controller_ref_manager.go``).
    """
    for pod in pods:
        if pod.owner_uid:
            yield pod
            continue
        heirs = (ds for ds in named if ds.namespace == pod.namespace and ds.selects(pod.labels))
        yield from (pod.owned_by(heir.uid) for heir in islice(heirs, 1))


def _detects(snapshot: Snapshot, stack: Stack, named: Sequence[DaemonSet]) -> bool:
    """Return whether node-feature-discovery works: some node has the device label, or only one node hosts pods."""
    if any(node.labels.get(stack.nodes.present) == "true" for node in snapshot.nodes.values()):
        return True
    pods = chain(plugin_pods(snapshot.plugin_pods, named), snapshot.driver_pods)
    return len({pod.node for pod in pods} - {""}) == 1


# Which DaemonSets are plugins or other driver clients.


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


def find_plugins(daemonsets: Iterable[DaemonSet], settings: Settings) -> Plugins:
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
    return any(stack.loads_driver(daemonset) or stack.is_prerequisite(daemonset) for stack in STACKS.values())


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


# Whether the driver DaemonSets match the policy.


_KERNEL: Final = r"[0-9][0-9A-Za-z._+-]*"
"""Regular expression for a kernel release. It starts with a digit, an operating system's tag with a letter."""
_FULL_VERSION: Final = re.compile(r"[0-9]+(\.[0-9]+)+")
_BRANCH: Final = re.compile(r"[0-9]+")


def active_policy(policies: Iterable[Policy], stack: Stack) -> Policy | None:
    """Return the policy that the operator uses: the oldest, then by name (GO ``getSingletonClusterPolicy``)."""
    counting = (policy for policy in policies if stack.policy.only_name in ("", policy.name))
    return min(counting, key=lambda policy: (policy.created, policy.name), default=None)


def sources_of(policy: Policy | None, pools: Sequence[Policy]) -> Sequence[Policy]:
    """Return the objects that specify the drivers: the policy, or the pools if it leaves the drivers to them."""
    if policy is None:
        return ()
    return pools if policy.pooled else (policy,)


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


def intents_of(
    drivers: Iterable[DaemonSet], policy: Policy | None, snapshot: Snapshot, stack: Stack
) -> dict[str, Policy]:
    """Return the policy or pool of each driver DaemonSet. A leftover whose pool is gone has none."""
    if policy is None:
        return {}
    if not policy.pooled:
        # A DaemonSet of another kind of object (NicNodePolicy) cannot be compared with this policy.
        # A leftover of a pool can: it differs until the operator has replaced it.
        return {ds.uid: policy for ds in drivers if ds.owner_kind not in stack.other_owners}
    decides = pools_decide(snapshot.nodes.values(), snapshot.pools, stack)
    by_uid = {pool.uid: replace(pool, manual=not_rotated(pool, policy, decides=decides)) for pool in snapshot.pools}
    return {ds.uid: by_uid[ds.owner_uid] for ds in drivers if ds.owner_uid in by_uid}


def unmet_expectation(policy: Policy, pools: Sequence[Policy], stack: Stack, settings: Settings) -> str:
    """Return how the policy differs from the versions that the settings expect (``expect.*``), or "".

    If pools ask for different drivers, the expected one must be among them, unless the digest of a pool may stand for
    it.
    """
    wanted = settings.expect.driver_version
    asking = sources_of(policy, pools)
    if wanted and asking and all(map(names_version, asking)) and all(source.version != wanted for source in asking):
        asked = ", ".join(sorted({source.version for source in asking}))
        return f"{_several(asking)} asks for driver {asked}, expected {wanted}"
    wanted = settings.expect.chart_version
    if wanted and chart_version(policy.chart, stack) != chart_version(wanted, stack):
        return f"{policy} comes from chart {policy.chart or '(unlabelled)'}, expected {wanted}"
    return ""


def _several(asking: Sequence[Policy]) -> str:
    return str(asking[0]) if len(asking) == 1 else f"each of {len(asking)} {asking[0].kind} objects"


def names_version(source: Policy) -> bool:
    """Return whether a policy or pool names a driver version, rather than a digest or nothing."""
    return bool(source.version) and not source.version.startswith("sha256:")


def comparable(policy: Policy | None) -> bool:
    """Return whether the policy names an image to compare DaemonSets with. Under OLM it names none."""
    return policy is not None and bool(policy.version and policy.image)


def chart_version(label: str, stack: Stack) -> str:
    """Reduce a chart label or version to its comparable part: ``gpu-operator-v26.3.3`` becomes ``26.3.3``.

    A label cannot contain ``+``. Helm charts write ``_`` instead.
    """
    return label.removeprefix(stack.operator.chart + "-").removeprefix("v").replace("+", "_")


def unrendered_drivers(
    drivers: Collection[DaemonSet],
    policy: Policy | None,
    intents: Mapping[str, Policy],
    snapshot: Snapshot,
    stack: Stack,
) -> dict[str, str]:
    """Return by UID how driver DaemonSets differ from their policy or pool. Ignore leftovers without pods.

    Also check DaemonSets without a policy: one that its controller has not observed may have a newer revision.
    """
    pods = snapshot.driver_pods
    counting = (
        ds for ds in drivers if ds.desired > 0 or not ds.observed or any(pod.owner_uid == ds.uid for pod in pods)
    )
    found = {ds.uid: unrendered(ds, intents.get(ds.uid), stack) for ds in counting}
    if policy is not None and policy.pooled:
        found |= {
            ds.uid: f"the pool of {ds} is gone: the operator is about to replace the DaemonSet"
            for ds in drivers
            if ds.uid not in intents and ds.desired > 0
        }
    return {uid: difference for uid, difference in found.items() if difference}


def unrendered(daemonset: DaemonSet, policy: Policy | None, stack: Stack) -> str:
    """Return how a driver DaemonSet differs from the policy, or "" if it matches."""
    if not daemonset.observed:
        return (
            f"the DaemonSet controller has not seen generation {daemonset.generation} of {daemonset} yet "
            f"(observed {daemonset.observed_generation})"
        )
    if policy is None:
        return ""
    chart = daemonset.template_labels.get(names.CHART_LABEL, "")
    if policy.chart and chart != policy.chart:
        return f"{daemonset} is still rendered from {chart or '(no chart)'}, not {policy.chart}"
    image = daemonset.images.get(stack.driver.container, "")
    if not _shows(image, policy, stack) and not rewritten(daemonset, policy, stack):
        return f"{daemonset} still runs {image or '(no driver image)'}, {policy} asks for driver {policy.version}"
    return ""


def rewritten(daemonset: DaemonSet, policy: Policy | None, stack: Stack) -> str:
    """Return how an image differs from the policy's, if only by its registry or by an added digest; else "".

    Admission webhooks replace or prefix the registry with a mirror, and add digests. An image with the same repository
    path and the same tag (or the same digest, if the policy names one) matches the policy.
    """
    image = daemonset.images.get(stack.driver.container, "")
    if policy is None or _shows(image, policy, stack):
        return ""
    named, _at, digest = image.partition("@")
    path = _base(policy)
    host, _slash, rest = path.partition("/")
    if rest and (host == "localhost" or "." in host or ":" in host):
        path = rest
    if policy.version.startswith("sha256:"):
        same = digest == policy.version and re.fullmatch(f"(.*/)?{re.escape(path)}(:[^/]*)?", named) is not None
    else:
        same = re.fullmatch(f"(.*/)?{re.escape(path)}:{_tag(policy, stack)}", named) is not None
    return f"{daemonset} runs {image}, {policy} asks for {_base(policy)} {policy.version}" if same else ""


def rewritings(drivers: Iterable[DaemonSet], intents: Mapping[str, Policy], stack: Stack) -> Iterator[str]:
    """Yield how the images of driver DaemonSets were rewritten."""
    return filter(None, (rewritten(ds, intents.get(ds.uid), stack) for ds in drivers))


def _shows(image: str, policy: Policy, stack: Stack) -> bool:
    """Return whether an image matches the policy. Every image matches a policy that names none (OLM)."""
    if not comparable(policy):
        return True
    if policy.version.startswith("sha256:"):
        return image == f"{_base(policy)}@{policy.version}"
    return re.fullmatch(f"{re.escape(_base(policy))}:{_tag(policy, stack)}", image) is not None


def _base(policy: Policy) -> str:
    return "/".join(part for part in (policy.repository, policy.image) if part)


def _tag(policy: Policy, stack: Stack) -> str:
    """Return a regular expression for the image tags that the operator makes of the policy's version."""
    kernel = f"{_KERNEL}-" if policy.precompiled else ""
    return stack.driver.tag.format(version=re.escape(policy.version), kernel=kernel)


def wanted_version(policy: Policy | None, expected: str) -> str:
    """Return the driver version to verify: that of the policy, else the expected one, else ""."""
    if policy is None or policy.pooled:
        return ""
    return policy.version if names_version(policy) else expected


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
