"""The status that the controller writes: it is read strictly, and names the spec of each stack by a hash."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from hook.config import ControllerSettings, Expect, Settings
from hook.decide.memo import index
from hook.decide.reasons import Reason
from hook.decide.result import Decision, Phase
from hook.objects.decoding import MalformedObjectError
from hook.run import status
from hook.run.status import ControllerState, ControllerStatus
from tests.fixtures.cluster import Cluster, cluster, labelled, stale
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import Pool, network, owner, pooled, with_exporter
from tests.fixtures.objects import at, driver_pod, obj
from tests.unit.decide.runs import EXPORTER

YEAR = 365 * 24 * 3600
WHOLE = ControllerStatus(
    spec_hashes={"gpu": "0123456789abcdef", "network": ""},
    remaining=3,
    eta_seconds=360,
    restarted=5,
    observed_at=at(10),
    last_restart_at=at(5),
    writer="gpu-operator-post-controller-7d_0011aabb",
)


def state(**fields: Any) -> ControllerState:  # noqa: ANN401 - of the state
    """Return a state of the controller."""
    return ControllerState(Decision(Phase.DONE, Reason.NOTHING_STALE, "all is well"), {}, at(0), **fields)


def changed(**fields: Any) -> str:  # noqa: ANN401 - JSON is any of it
    """Return a whole status with some fields changed."""
    return json.dumps({**json.loads(WHOLE.encode()), **fields})


def test_what_is_written_is_read() -> None:
    """The same comes back, from one line. A newer version may add fields, which an older one ignores."""
    for written in (ControllerStatus(), WHOLE):
        assert written == ControllerStatus.decode(written.encode())
        assert "\n" not in written.encode()
    assert WHOLE.encode() == (
        '{"etaSeconds":360,"lastRestartAt":"2026-01-01T10:00:05Z","observedAt":"2026-01-01T10:00:10Z","remaining":3,'
        '"restarted":5,"specHashes":{"gpu":"0123456789abcdef","network":""},"version":1,'
        '"writer":"gpu-operator-post-controller-7d_0011aabb"}'
    )
    assert WHOLE.encode() == structs.replace(WHOLE, observed_at=at(10.9)).encode(), "whole seconds"
    newer = json.loads(WHOLE.encode())
    assert WHOLE == ControllerStatus.decode(json.dumps({**newer, "more": []}))


def test_an_estimate_is_cut_at_a_year() -> None:
    """The status must be readable."""
    for eta, expected in ((10**15, YEAR), (0, 0), (None, None)):
        assert expected == ControllerStatus.decode(state(eta=eta).status("me").encode()).eta_seconds


def test_what_this_version_would_not_write_is_refused() -> None:
    """An account that may write the Lease may write anything there."""
    for text in (
        "", "[]", "null", " " * 9000 + WHOLE.encode(), "[" * 4000, '{"version":' + "1" * 5000 + "}",
        '{"version":1,"remaining":NaN}',
        *(changed(version=version) for version in (2, True)),
        changed(specHashes=[]), *(changed(specHashes={"gpu": text}) for text in (1, "0123456789ABCDEF")),
        *(changed(writer=writer) for writer in (["me"], "w" * 2000)),
        *(changed(remaining=remaining) for remaining in (-1, 1.5)),
        *(changed(etaSeconds=eta) for eta in ("soon", YEAR + 1)),
        changed(restarted=2**64), changed(observedAt="yesterday"), changed(lastRestartAt=5),
    ):  # fmt: skip
        with pytest.raises(MalformedObjectError):
            pytest.fail(f"it was read: {ControllerStatus.decode(text)} of {text[:200]}")


# The hash of the spec.


def spec_hash(found: Cluster, settings: Settings | None = None) -> str:
    """Return the hash that is computed from a cluster."""
    return status.spec_hash(index(found.seen(), settings or Settings(drivers=(found.stack.name,)), found.stack))


def test_a_job_and_a_controller_compute_the_same_hash_of_a_spec() -> None:
    """A Job and the controller have other settings and read at other moments. Each stack has its own."""
    once, other = spec_hash(cluster("a", "b")), spec_hash(stale("c"), ControllerSettings(dry_run=True))
    assert (once, 16) == (other, len(other))
    assert "" != spec_hash(network()) != spec_hash(cluster())
    of_the_plugin = obj("revision", {"metadata": {"name": "x", "ownerReferences": owner("plugin-ds")}})
    assert once == spec_hash(cluster("a", "b").put("revision", of_the_plugin)), "not a revision of a driver"
    pools = pooled(Pool("one", ("a",)), Pool("two", ("b",)))
    of_pools, left_behind = spec_hash(pools), replace(cluster("a").seen(), pools=pools.seen().pools)
    assert once == status.spec_hash(index(left_behind, FOLLOWING, cluster().stack)), "pools that no longer count"
    pools.parts["pool"] = pools.of("pool")[::-1]
    assert "" != of_pools == spec_hash(pools), "in whatever order pools are read"
    assert of_pools != spec_hash(pools.change("pool", "metadata: {generation: 99}", "two"))
    for part, patch in (
        ("policy", "metadata: {generation: 99}"),
        ("policy", "metadata: {uid: another}"),
        ("revision", "revision: 99"),
        ("revision", "metadata: {labels: {controller-revision-hash: next}}"),
    ):
        assert spec_hash(cluster()) != spec_hash(cluster().change(part, patch)), patch


def test_a_spec_that_is_not_rendered_has_no_hash() -> None:
    """By the same conditions that block a run, with what the settings expect."""
    for name, found in {
        "no policy": cluster().drop("policy"),
        "not rendered": cluster().change("policy", "spec: {driver: {version: 999.1.1}}"),
        "malformed": cluster().change("revision", "revision: many"),
    }.items():
        assert "" == spec_hash(found), name
    assert "" == spec_hash(cluster(), Settings(expect=Expect(driver_version="999.1.1")))
    assert "" != spec_hash(cluster(), Settings(expect=Expect(driver_version="580.126.20")))


def test_remaining_nodes_are_counted() -> None:
    """Each once, however many plugins it has; excluded ones not at all."""
    for found, expected in (
        (cluster("a", "b"), 0),
        (with_exporter(stale("a", "b"), -9).change("node", labelled("a", skip="true"), "a"), 1),
        (cluster("a", "b").put("driver-pod", driver_pod("b", ready=None)), 1),
    ):
        assert expected == status.remaining(found.decide(Settings(driver_clients=(EXPORTER,)))[0])
