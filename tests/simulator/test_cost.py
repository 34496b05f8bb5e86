"""The fleet on which costs are measured weighs what real ones do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from devcluster.bench import atrest
from devcluster.bench.busy import Busy
from devcluster.boot.layout import State

NODES: Final = 20


def test_objects_weigh_what_real_ones_do(tmp_path: Path) -> None:
    """Within a hundredth, as an API server sends them; each has an identity of its own, also those that change."""
    for each, size in (
        (atrest.node(7), atrest.NODE_BYTES),
        (atrest.driver_pod(7), atrest.POD_BYTES),
        (atrest.plugin_pod(7), atrest.POD_BYTES),
    ):
        assert abs(len(json.dumps(each, separators=(",", ":"))) - size) < size / 100, each["metadata"]["name"]
    identities = [each["metadata"]["uid"] for each in atrest.fleet(NODES, "policy")]
    assert len(set(identities)) == len(identities)
    changed = list(Busy(State(tmp_path), NODES)._changed(1))
    assert {each["metadata"]["uid"] for each in changed} <= set(identities)
    assert {each["kind"] for each in changed} == {"Node", "Pod"}
