"""What `status` finds of a controller, and what it advises."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest
from msgspec import structs

from hook.config import Settings
from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, NodeState, NodeStatus, Phase
from hook.objects.decoding import MalformedObjectError
from hook.run import lookup
from hook.run.lookup import Lookup
from hook.run.status import ControllerStatus, LeaseStatus, lease_status
from tests.client.controller import NOW, STATUS, lease, stale_pod
from tests.client.server import listed, refused, serving

NOTHING_RESTARTS: Final = "nothing restarts the plugin by itself"
NAME: Final = "post"
OTHER: Final = structs.replace(STATUS, spec_hashes={"network": ""})


def found(written: ControllerStatus | str | None = STATUS, later: float = 0, **spec: str) -> Lookup:
    """Find this Lease, so many seconds later."""
    return Lookup(NOW + timedelta(seconds=later), lease_status(lease(written, **spec)))


def as_json(seen: Lookup) -> dict[str, Any]:
    """Return what programs read."""
    shown = lookup.as_json(seen)
    assert shown is not None
    return dict(shown)


def test_whether_a_controller_is_alive() -> None:
    """Who holds the Lease, when it was renewed and acted, and how much is left."""
    nothing = Lookup(NOW)  # most clusters have none
    assert ([line for line in lookup.as_lines(nothing) if line], lookup.as_json(nothing)) == ([], None)
    alive, dead = found(), found(later=300)
    assert "alive (pod-a)" in lookup.as_lines(alive)[0]
    assert "last renewed 2s ago" in lookup.as_lines(alive)[0]
    first, second = lookup.as_lines(dead)
    for part, text in (("NOT ALIVE", first), ("last restart 5m ago", second), ("3 nodes remaining, about 6m", second)):
        assert part in text, text
    shown = as_json(alive)
    expected = {"alive": True, "holder": "pod-a", "lastRestartAt": "2026-03-01T12:00:00Z", "remaining": 3,
                "etaSeconds": 360, "restarted": 7}  # fmt: skip
    assert {key: shown[key] for key in expected} == expected
    assert as_json(dead) == {**shown, "alive": False}


def test_a_lease_that_cannot_be_understood_is_shown() -> None:
    """An account that may write a Lease may write anything there; no terminal obeys it."""
    for written, holder in ((None, "pod-a"), ("[]", ""), ("{" * 9000, "a\x1b[2J")):
        seen = found(written, holderIdentity=holder)
        shown = lookup.as_lines(seen)
        assert (len(shown), "\x1b" in "".join(shown)) == (2, False), holder
        assert (as_json(seen)["alive"], bool(as_json(seen)["problem"])) == (bool(holder), True), holder
    with pytest.raises(MalformedObjectError):
        lease_status({"metadata": {}})
    assert not LeaseStatus("a", "b").alive(NOW)


def test_where_a_controller_was_looked_for_is_shown() -> None:
    """Of several, one of these drivers counts."""
    with serving(listed(lease())) as server:
        assert NAME in lookup.as_lines(lookup.find_controller(server.api, Settings()))[0]
    with serving(refused(403)) as server:
        seen = lookup.find_controller(server.api, Settings())
    assert ("permission missing" in lookup.as_lines(seen)[0], as_json(seen)["alive"]) == (True, None)
    leases = [
        lease(OTHER, renewTime="2026-03-01T12:00:09.000000Z"),
        lease(holderIdentity="old", renewTime="2026-03-01T11:00:00.000000Z"),
        lease(holderIdentity="new"),
        {"kind": "Lease", "metadata": {"name": 7}},
    ]
    with serving(listed(*leases)) as server:
        seen = lookup.find_controller(server.api, Settings())
        assert seen.lease is not None
        assert seen.lease.holder == "new"
        assert server.count("labelSelector=app.kubernetes.io%2Fname%3Dgpu-operator-post") == 1


def node_status(
    state: NodeState, reason: Reason = Reason.PLUGIN_STALE, node: str = "a", stack: str = "gpu"
) -> NodeStatus:
    """Return a node's status."""
    return NodeStatus(node, state, reason, "so it is", subject=f"ns/plugin-{node}", stack=stack)


STALE: Final = node_status(NodeState.STALE)


def pending(*statuses: NodeStatus) -> Decision:
    """Wait for nodes."""
    due = tuple(DeletePod(each.node, stale_pod()) for each in statuses if each.reason is Reason.PLUGIN_STALE)
    return Decision(Phase.WAIT, Reason.NODES_PENDING, "so it is", statuses=statuses, actions=due, stack="gpu")


def advice(*statuses: NodeStatus, seen: Lookup | None = None) -> str:
    """Return what one look advises."""
    return "\n".join(lookup.advice(pending(*statuses), seen or Lookup(NOW)))


def test_what_is_advised_for_stale_plugins() -> None:
    """One advice for several, with the pod of the first; but for one that is not named its own, and no deletion."""
    # Nodes that reload change by themselves; one that is being restarted shows that something restarts them.
    for other, restarts in ((Reason.DRIVER_NOT_READY, False), (Reason.PLUGIN_RESTARTING, True)):
        state = NodeState.RESTARTING if restarts else NodeState.WAITING
        told = advice(STALE, node_status(state, other, "b"))
        assert ("per node is normal" in told, NOTHING_RESTARTS in told) == (True, not restarts), other
    told = advice(STALE, node_status(NodeState.STALE, Reason.PLUGIN_QUEUED, "b"))
    assert told.startswith("PluginStale (a, b): ")
    assert told.endswith("the driver pod of node a is Ready: kubectl -n ns delete pod plugin-a")
    told = advice(STALE, node_status(NodeState.STALE, Reason.UNNAMED_PLUGIN, "b"), seen=found())
    assert ["UnnamedPlugin (b)", "PluginStale (a)"] == [line.split(":")[0] for line in told.splitlines()]


def test_what_no_controller_restarts_is_reported_with_the_reason() -> None:
    """A controller that is dead, blind to this driver or unknown restarts nothing."""
    for seen, words in (
        (Lookup(NOW), "No controller is active here, so"),
        (found(later=300), "No controller is active here, so"),
        (found(OTHER), "No controller is active here, so"),
        (found(None), "(it has not written a status yet)"),
        (Lookup(NOW, problem="no"), "No controller is known to be active here (no), so"),
    ):
        told = advice(STALE, seen=seen)
        assert (words in told, NOTHING_RESTARTS in told) == (True, True), told
    # A controller of one driver leaves the plugins of another as they are.
    told = advice(STALE, node_status(NodeState.STALE, node="b", stack="network"), seen=found())
    assert ["The controller" in line for line in told.splitlines()] == [True, False]
    assert [line.split(":")[0] for line in told.splitlines()] == ["PluginStale (a)", "PluginStale (b)"]
