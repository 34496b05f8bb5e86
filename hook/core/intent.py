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
    from collections.abc import Iterable

    from hook.core.stacks import Stack
    from hook.core.views import ClusterPolicy, DaemonSet
    from hook.settings import Settings

_OS_TAG: Final = r"[a-z][a-z_-]*[0-9][0-9.]*"
"""GO ``controllers/object_controls.go``: ``<os-release ID><VERSION_ID>``, e.g. ubuntu22.04, sl-micro6.0.
It starts with a letter and a kernel with a digit, so neither is taken for the other."""
_KERNEL: Final = r"[0-9][0-9A-Za-z._+-]*"
_FULL_VERSION: Final = re.compile(r"[0-9]+(\.[0-9]+)+")
_BRANCH: Final = re.compile(r"[0-9]+")


def active_policy(policies: Iterable[ClusterPolicy]) -> ClusterPolicy | None:
    """Give the policy that the operator follows: the oldest, then by name (GO ``getSingletonClusterPolicy``)."""
    return min(policies, key=lambda policy: (policy.created, policy.name), default=None)


def unmet_expectation(policy: ClusterPolicy, settings: Settings) -> str:
    """Say in what the policy is still the old one, by what the deployer told us to expect; or empty."""
    wanted = settings.expect_driver_version
    if wanted and names_version(policy) and policy.version != wanted:
        return f"ClusterPolicy {policy.name} asks for driver {policy.version or '(none)'}, expected {wanted}"
    wanted = settings.expect_chart_version
    if wanted and chart_version(policy.chart) != chart_version(wanted):
        return f"ClusterPolicy {policy.name} comes from chart {policy.chart or '(unlabelled)'}, expected {wanted}"
    return ""


def names_version(policy: ClusterPolicy) -> bool:
    """Whether the policy names a driver version, rather than a digest, an NVIDIADriver or nothing."""
    return bool(policy.version) and not policy.uses_driver_crd and not policy.version.startswith("sha256:")


def chart_version(label: str) -> str:
    """Reduce a chart label or version to what compares: ``gpu-operator-v26.3.3`` is ``26.3.3``.

    A label cannot carry ``+``; Helm charts write ``_`` instead.
    """
    return label.removeprefix(names.OPERATOR_CHART + "-").removeprefix("v").replace("+", "_")


def unrendered(daemonset: DaemonSet, policy: ClusterPolicy, stack: Stack) -> str:
    """Say in what a driver DaemonSet does not show the policy's intent yet; or empty."""
    if not daemonset.observed:
        return (
            f"the DaemonSet controller has not seen generation {daemonset.generation} of {daemonset} yet "
            f"(observed {daemonset.observed_generation})"
        )
    if policy.uses_driver_crd:
        return ""
    if policy.chart and daemonset.template_chart != policy.chart:
        return f"{daemonset} is still rendered from {daemonset.template_chart or '(no chart)'}, not {policy.chart}"
    image = daemonset.images.get(stack.driver_container, "")
    if not _shows(image, policy):
        return f"{daemonset} still runs {image or '(no driver image)'}, the policy asks for driver {policy.version}"
    return ""


def _shows(image: str, policy: ClusterPolicy) -> bool:
    """Whether an image is what the policy asks for. A policy that names none cannot be compared (OLM)."""
    if not policy.version or not policy.image:
        return True
    base = "/".join(part for part in (policy.repository, policy.image) if part)
    if policy.version.startswith("sha256:"):
        return image == f"{base}@{policy.version}"
    kernel = f"{_KERNEL}-" if policy.precompiled else ""
    tag = f"{re.escape(policy.version)}-{kernel}{_OS_TAG}"
    return re.fullmatch(f"{re.escape(base)}:{tag}", image) is not None


def wanted_version(policy: ClusterPolicy | None, settings: Settings) -> str:
    """Give the driver version to verify: the policy's, else the one that the deployer expects, else none."""
    if policy is None:
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
