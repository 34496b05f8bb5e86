"""The fleet on which costs are measured weighs what real ones do."""

from __future__ import annotations

import json
from typing import Final

from devcluster.bench import atrest
from devcluster.bench.busy import changed_in

NODES: Final = 20


def test_objects_weigh_what_real_ones_do() -> None:
    """Within a hundredth, as an API server sends them; each has an identity of its own, also those that change."""
    for key, each in (("node", atrest.node(7)), ("driver", atrest.driver_pod(7)), ("plugin", atrest.plugin_pod(7))):
        size = atrest.BYTES[key]
        assert abs(len(json.dumps(each, separators=(",", ":"))) - size) < size / 100, key
    identities = [each["metadata"]["uid"] for each in atrest.fleet(NODES, "policy")]
    assert len(set(identities)) == len(identities)
    changed = list(changed_in(NODES, 1))
    assert {each["metadata"]["uid"] for each in changed} <= set(identities)
    assert {each["kind"] for each in changed} == {"Node", "Pod"}
