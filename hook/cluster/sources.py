"""What is read from where, and the snapshot of one driver stack that it is put together to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hook.objects.views import Snapshot, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hook.cluster.requests import Selection
    from hook.objects.decoding import Reader

POLICIES, POOLS, DAEMON_SETS, NODES, SLICES = "policies", "pools", "daemonsets", "nodes", "slices"
DRIVER_PODS, PROVIDER_PODS, CONSUMER_PODS, REVISIONS = "driver_pods", "provider_pods", "consumers", "revisions"
DEPLOYMENTS, REPLICA_SETS, LEASES = "deployments", "replicasets", "leases"
INTENT = frozenset({POLICIES, POOLS, DAEMON_SETS})
"""Parts that tell what else is worth looking at."""


@dataclass(frozen=True, slots=True)
class Source:
    """One selection and how to read it."""

    selection: Selection
    read: Reader[Any]


Found = dict[Source, tuple[tuple[Any, ...], bool]]
"""By source: its views, and whether the API server does not know the kind."""


def assembled(filled: Mapping[Source, str], views: Found) -> Snapshot:
    """Put together what one stack's sources show, each of which fills a part."""
    parts: dict[str, list[Any]] = {}
    absent: set[str] = set()
    for source, part in filled.items():
        if source not in views:
            continue
        found, unknown = views[source]
        parts.setdefault(part, []).extend(found)
        if unknown:
            absent.add(part)
    unreadable = tuple(one for part in parts.values() for one in part if isinstance(one, Unreadable))
    good = {part: tuple(one for one in found if not isinstance(one, Unreadable)) for part, found in parts.items()}
    return Snapshot(
        policies=None if POLICIES in absent else good.get(POLICIES, ()),
        pools=good.get(POOLS, ()),
        nodes={node.name: node for node in good.get(NODES, ())},
        daemonsets=good.get(DAEMON_SETS, ()),
        revisions=_once(good.get(REVISIONS, ())),
        driver_pods=_once(good.get(DRIVER_PODS, ())),
        provider_pods=good.get(PROVIDER_PODS, ()),
        consumer_pods=_once(good.get(CONSUMER_PODS, ())),
        slices=None if SLICES in absent or SLICES not in good else good[SLICES],
        deployments=good.get(DEPLOYMENTS, ()),
        replicasets=good.get(REPLICA_SETS, ()),
        leases=good.get(LEASES, ()),
        unreadable=unreadable,
    )


def _once(found: Iterable[Any]) -> tuple[Any, ...]:
    """Let an object count once: selectors may overlap (v0.4.0 pods carry the labels of both charts)."""
    return tuple({getattr(one, "uid", "") or (one.namespace, one.name): one for one in found}.values())
