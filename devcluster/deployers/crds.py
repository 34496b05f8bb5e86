"""Custom resources that a deployer brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devcluster.access import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from devcluster.boot.cluster import Cluster

NOT_FOUND = 404


def install(cluster: Cluster, folders: Iterable[Path], collections: Iterable[str]) -> None:
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
