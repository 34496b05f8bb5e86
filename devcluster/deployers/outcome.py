"""What a deployment tool says came of a deployment, and how to wait for that."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from devcluster.access import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from devcluster.boot.cluster import Cluster

Object = dict[str, Any]

NOT_FOUND = 404

PATIENCE_SECONDS = 300.0
"""For a deployment tool to come to a verdict on a busy machine."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the user of a deployment tool sees."""

    succeeded: bool
    said: str
    """All that the deployment tool shows: output, conditions, operation messages."""


def apply(cluster: Cluster, objects: Sequence[Object]) -> None:
    """Apply objects as a platform team's commit does: server-side."""
    cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-",
        text=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}),
    )  # fmt: skip


def settled(
    cluster: Cluster, where: str, verdict: Callable[[Object], bool | None], shown: Callable[[Object], str]
) -> Outcome:
    """Wait for a deployment tool's verdict on the object in which it shows a release; return it with what is shown."""
    said = ""

    def outcome() -> Outcome | None:
        nonlocal said
        found = cluster.get(where)
        said, succeeded = shown(found), verdict(found)
        return Outcome(succeeded, said) if succeeded is not None else None

    return cluster.wait_until(lambda: f"there is a verdict on {where}:\n{said}", outcome, PATIENCE_SECONDS)


def install_crds(cluster: Cluster, folders: Iterable[Path], collections: Iterable[str]) -> None:
    """Apply the CRDs in some folders, and return when the API server has these collections."""
    for folder in folders:
        cluster.kubectl("apply", "--server-side", "-f", str(folder))
    wanted = list(collections)
    cluster.wait_until(f"{', '.join(wanted)} exist", lambda: all(_served(cluster, each) for each in wanted))


def _served(cluster: Cluster, collection: str) -> bool:
    """Whether the API server knows a collection (`kubectl wait` fails on a CRD that is a moment old)."""
    try:
        cluster.list(collection)
    except ApiError as error:
        if error.code != NOT_FOUND:
            raise
        return False
    return True
