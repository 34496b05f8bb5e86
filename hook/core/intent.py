"""What the policy asks for, and whether a driver DaemonSet shows it.

The policy's own status lies (it says ready while nothing was rendered), so each DaemonSet is
compared with the policy itself: the whole image reference, never a substring of it, because ``580``
is in ``580.65.06-ubuntu22.04``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hook.core import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hook.core.stack import Stack
    from hook.objects.policies import Policy
    from hook.objects.views import DaemonSet, Node
    from hook.settings import Settings

_KERNEL: Final = r"[0-9][0-9A-Za-z._+-]*"
"""A kernel release starts with a digit, an operating system's tag with a letter: neither is taken for the other."""
_FULL_VERSION: Final = re.compile(r"[0-9]+(\.[0-9]+)+")
_BRANCH: Final = re.compile(r"[0-9]+")


def active_policy(policies: Iterable[Policy], stack: Stack) -> Policy | None:
    """Give the policy that the operator follows: the oldest, then by name (GO ``getSingletonClusterPolicy``)."""
    counting = (one for one in policies if stack.policy.only_name in ("", one.name))
    return min(counting, key=lambda policy: (policy.created, policy.name), default=None)


def sources(policy: Policy | None, pools: Sequence[Policy]) -> Sequence[Policy]:
    """Give the objects that say what drivers shall be: the policy itself, or the pools that it leaves it to."""
    if policy is None:
        return ()
    return pools if policy.pooled else (policy,)


def pools_decide(nodes: Iterable[Node], pools: Iterable[Policy], stack: Stack) -> bool:
    """Whether each pool has an upgrade policy of its own, if only the default (GO >= v26.7.0); before, the policy has.

    Only such an operator writes on nodes which pool they belong to.
    """
    named = any(stack.nodes.pool in node.labels for node in nodes)
    return named or any(pool.upgrade.stated for pool in pools)


def not_rotated(pool: Policy, policy: Policy, *, decides: bool) -> str:
    """Say why nobody rotates the driver pods of a pool; empty where the upgrade controller does.

    A pool that decides and says nothing is upgraded (GO ``GetUpgradePolicyWithDefaults``).
    """
    own = "" if decides and pool.manual is None else pool.manual
    return policy.halted or (own if own is not None else policy.manual or "")


def unmet_expectation(policy: Policy, pools: Sequence[Policy], stack: Stack, settings: Settings) -> str:
    """Say in what the policy is still the old one, by what the deployer told us to expect; or empty.

    A driver version is expected of the first stack, a chart version of the one whose policy says its chart.
    Pools may ask for different drivers: the expected one must be among them.
    """
    wanted = settings.expect_driver_version if settings.stacks[0] == stack.name else ""
    asking = [one for one in sources(policy, pools) if names_version(one)]
    if wanted and asking and all(one.version != wanted for one in asking):
        asked = ", ".join(sorted({one.version for one in asking}))
        return f"{_several(asking)} asks for driver {asked}, expected {wanted}"
    wanted = settings.expect_chart_version
    if wanted and stack.policy.carries_chart and chart_version(policy.chart, stack) != chart_version(wanted, stack):
        return f"{policy} comes from chart {policy.chart or '(unlabelled)'}, expected {wanted}"
    return ""


def _several(asking: Sequence[Policy]) -> str:
    return str(asking[0]) if len(asking) == 1 else f"each of {len(asking)} {asking[0].kind} objects"


def names_version(source: Policy) -> bool:
    """Whether the object that states the intent names a driver version, rather than a digest or nothing."""
    return bool(source.version) and not source.version.startswith("sha256:")


def comparable(policy: Policy | None) -> bool:
    """Whether the policy names an image that a DaemonSet can be compared with. Under OLM it names none."""
    return policy is not None and bool(policy.version and policy.image)


def chart_version(label: str, stack: Stack) -> str:
    """Reduce a chart label or version to what compares: ``gpu-operator-v26.3.3`` is ``26.3.3``.

    A label cannot carry ``+``; Helm charts write ``_`` instead.
    """
    return label.removeprefix(stack.operator.chart + "-").removeprefix("v").replace("+", "_")


def unrendered(daemonset: DaemonSet, policy: Policy | None, stack: Stack) -> str:
    """Say in what a driver DaemonSet does not show the intent for it yet; or empty."""
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
    """Return how a driver DaemonSet's image differs from the policy's in its registry or by a digest alone; or "".

    Admission webhooks write the registry of a mirror in the place of another one, or before it, and add digests. The
    same repository path and the same tag (or the same digest, where the policy names one) are the image asked for.
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
    """Yield for each driver DaemonSet how its image was rewritten."""
    return filter(None, (rewritten(ds, intents.get(ds.uid), stack) for ds in drivers))


def _shows(image: str, policy: Policy, stack: Stack) -> bool:
    """Whether an image is what the policy asks for. A policy that names none cannot be compared (OLM)."""
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


def wanted_version(policy: Policy | None, settings: Settings) -> str:
    """Give the driver version to verify: the intent's, else the one that the deployer expects, else none."""
    if policy is None or policy.pooled:
        return ""
    return policy.version if names_version(policy) else settings.expect_driver_version


def same_driver(published: str, wanted: str) -> bool:
    """Whether a published driver version is the one asked for; True where that cannot be told.

    Published versions lose leading zeros (``580.105.08`` becomes ``580.105.8``), so segments are
    compared as numbers. A precompiled tag gives only a branch.
    """
    if _FULL_VERSION.fullmatch(wanted) and _FULL_VERSION.fullmatch(published):
        return _segments(wanted) == _segments(published)
    if _BRANCH.fullmatch(wanted) and _FULL_VERSION.fullmatch(published):
        return _segments(wanted)[0] == _segments(published)[0]
    return True


def _segments(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
