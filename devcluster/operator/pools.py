"""Which nodes get the same driver DaemonSet, and under which image."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from devcluster.operator import names as n

if TYPE_CHECKING:
    from collections.abc import Iterable

Object = dict[str, Any]

ARCHITECTURES = (".x86_64", ".aarch64")
"""Suffixes of kernel versions that the real operator leaves out of a name."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes that get one driver DaemonSet."""

    os_tag: str
    kernel: str = ""
    """Set for precompiled drivers, which are made for one kernel."""
    rhcos: str = ""
    """Set on OpenShift, where the driver is built with the node's own toolkit."""
    selector: dict[str, str] = field(default_factory=dict, hash=False, compare=False)
    """The labels that tell the pool's nodes from others'."""

    @property
    def short_kernel(self) -> str:
        """The kernel without its architecture, as names carry it."""
        kernel = self.kernel
        for suffix in ARCHITECTURES:
            kernel = kernel.removesuffix(suffix)
        return kernel


def pools(nodes: Iterable[Object], *, precompiled: bool, openshift: bool) -> list[Pool]:
    """Sort nodes into pools, as NFD labelled them; those that it did not label are in none."""
    found = (_pool(n.labels_of(node), precompiled=precompiled, openshift=openshift) for node in nodes)
    return sorted({each for each in found if each is not None}, key=lambda each: (each.os_tag, each.kernel, each.rhcos))


def _pool(labels: dict[str, str], *, precompiled: bool, openshift: bool) -> Pool | None:
    if n.NFD_OS not in labels or n.NFD_OS_VERSION not in labels:
        return None
    os_tag = labels[n.NFD_OS] + labels[n.NFD_OS_VERSION]
    if precompiled:
        kernel = labels[n.NFD_KERNEL]
        return Pool(os_tag, kernel=kernel, selector={n.NFD_KERNEL: kernel})
    if openshift:
        rhcos = labels.get(n.NFD_RHCOS, "")
        return Pool(os_tag, rhcos=rhcos, selector={n.NFD_RHCOS: rhcos}) if rhcos else None
    return Pool(os_tag)


def image(spec: Object, pool: Pool, default: str) -> str:
    """Spell the driver's image: a digest says it all, a version needs the node's system; none is the default's."""
    version = str(spec.get("version", ""))
    if not version:
        return default if "@" in default else f"{default}-{pool.os_tag}"
    name = "/".join(filter(None, [spec.get("repository", ""), spec["image"]]))
    if version.startswith("sha256:"):
        return f"{name}@{version}"
    return f"{name}:" + "-".join(filter(None, [version, pool.kernel, pool.os_tag]))
