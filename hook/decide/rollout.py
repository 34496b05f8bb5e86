"""Compare the driver DaemonSets with the policy.

The status of the policy is no proof: it may be ``ready`` before anything is rendered. So each DaemonSet is compared
with the spec of the policy. The whole image reference must match, not a part of it: ``580`` is a part of
``580.65.06-ubuntu22.04``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hook.objects import names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from hook.config import Settings
    from hook.objects.drivers import Stack
    from hook.objects.policies import Policy
    from hook.objects.views import DaemonSet, Node, Snapshot

_KERNEL: Final = r"[0-9][0-9A-Za-z._+-]*"
"""Regular expression for a kernel release. It starts with a digit, an operating system's tag with a letter."""
_FULL_VERSION: Final = re.compile(r"[0-9]+(\.[0-9]+)+")
_BRANCH: Final = re.compile(r"[0-9]+")


def active_policy(policies: Iterable[Policy], stack: Stack) -> Policy | None:
    """Return the policy that the operator uses: the oldest, then by name (GO ``getSingletonClusterPolicy``)."""
    counting = (policy for policy in policies if stack.policy.only_name in ("", policy.name))
    return min(counting, key=lambda policy: (policy.created, policy.name), default=None)


def sources(policy: Policy | None, pools: Sequence[Policy]) -> Sequence[Policy]:
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


def intents(drivers: Iterable[DaemonSet], policy: Policy | None, snapshot: Snapshot, stack: Stack) -> dict[str, Policy]:
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
    asking = sources(policy, pools)
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
