"""What a follower writes down: what is known of it is read strictly, whoever wrote it; and which intent it names."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hook.config import ControllerSettings, Expect, Settings
from hook.decide.fleet import index
from hook.decide.reasons import Reason
from hook.decide.result import Decision, Phase
from hook.decide.state import Breaker, Memory
from hook.objects.decoding import MalformedObjectError
from hook.run import status
from hook.run.status import ControllerState, ControllerStatus, OpenBreaker
from tests.fixtures.cluster import Cluster, cluster, labelled, stale
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import Pool, network, pooled
from tests.fixtures.objects import at, driver_pod, obj, stamp

WHOLE = ControllerStatus(
    spec_hashes={"gpu": "0123456789abcdef", "network": ""},
    remaining=3,
    eta_seconds=360,
    restarted=5,
    observed_at=at(10),
    last_restart_at=at(5),
    breakers={"gpu": OpenBreaker(at(1), "5 of 8 nodes turned stale: a, b, c, d, e")},
    writer="gpu-operator-post-follower-7d_0011aabb",
)


@pytest.mark.parametrize(
    "record", [pytest.param(ControllerStatus(), id="nothing-yet"), pytest.param(WHOLE, id="everything")]
)
def test_what_is_written_is_read(record: ControllerStatus) -> None:
    """The same comes back, in one line."""
    text = record.encode()
    assert record == ControllerStatus.decode(text)
    assert "\n" not in text


def test_the_status_is_the_same_for_the_same() -> None:
    """Written again, it changes nothing; people may read it, too."""
    status = ControllerStatus(
        spec_hashes={"gpu": "0123456789abcdef"},
        remaining=3,
        restarted=5,
        observed_at=at(10.9),
        breakers={"gpu": OpenBreaker(at(1), "m")},
        writer="me",
    )
    assert status.encode() == (
        '{"breakers":{"gpu":{"message":"m","openedAt":"2026-01-01T10:00:01Z"}},"etaSeconds":null,"lastRestartAt":null,'
        '"observedAt":"2026-01-01T10:00:10Z","remaining":3,"restarted":5,"specHashes":{"gpu":"0123456789abcdef"},'
        '"version":1,"writer":"me"}'
    )


def state(**fields: Any) -> ControllerState:  # noqa: ANN401 - of the state
    """Return a state of the controller."""
    return ControllerState(Decision(Phase.DONE, Reason.NOTHING_STALE, "all is well"), {}, at(0), **fields)


def test_a_long_estimate_is_cut() -> None:
    """At a year: the status must be readable, and a sum of seconds may be more than a time can be."""
    for eta, shown in ((10**15, 365 * 24 * 3600), (0, 0), (None, None)):
        assert shown == ControllerStatus.decode(state(eta=eta).status("me").encode()).eta_seconds


def test_an_open_breaker_promises_nothing() -> None:
    """The status has its message, cut to what fits, and no estimate."""
    opened = Memory(started=at(0), breaker=Breaker(at(1), "\N{SNOWMAN}" * 10_000))
    stopped = replace(state(eta=7), memories={"gpu": opened, "network": Memory(started=at(0))})
    found = ControllerStatus.decode(stopped.status("me").encode())
    assert (found.eta_seconds, set(found.breakers)) == (None, {"gpu"})
    assert 512 == len(found.breakers["gpu"].message)


def changed(**fields: Any) -> str:  # noqa: ANN401 - JSON is any of it
    """Give a whole record with some fields changed."""
    return json.dumps({**json.loads(WHOLE.encode()), **fields})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("following", id="no-json"),
        pytest.param("[]", id="a-list"),
        pytest.param("null", id="null"),
        pytest.param(changed(version=2), id="another-version"),
        pytest.param(changed(version=True), id="no-number-as-version"),
        pytest.param(changed(version="1"), id="text-as-version"),
        pytest.param(changed(specHashes=[]), id="a-list-of-epochs"),
        pytest.param(changed(specHashes={"gpu": 1}), id="a-number-as-epoch"),
        pytest.param(changed(specHashes={"gpu": "0123456789ABCDEF"}), id="no-epoch"),
        pytest.param(changed(writer=["me"]), id="a-list-as-writer"),
        pytest.param(changed(writer="w" * 2000), id="a-long-writer"),
        pytest.param(changed(remaining=-1), id="a-negative-count"),
        pytest.param(changed(remaining=1.5), id="half-a-node"),
        pytest.param(changed(etaSeconds="soon"), id="no-time"),
        pytest.param(changed(etaSeconds=365 * 24 * 3600 + 1), id="more-than-a-year"),
        pytest.param(changed(restarted=2**64), id="an-endless-count"),
        pytest.param(changed(observedAt="yesterday"), id="no-moment"),
        pytest.param(changed(lastRestartAt=5), id="a-number-as-moment"),
        pytest.param(changed(breakers={"gpu": {"openedAt": stamp(1)}}), id="a-breaker-without-a-reason"),
        pytest.param(changed(breakers={"gpu": {"message": "w"}}), id="a-breaker-without-a-moment"),
        pytest.param(changed(breakers={"gpu": {"openedAt": stamp(1), "message": "a\x1b[2Jb"}}), id="it-draws"),
        pytest.param(changed(breakers={"gpu": {"openedAt": stamp(1), "message": "\ud800"}}), id="half-a-character"),
        pytest.param(changed(breakers={"gpu": {"openedAt": stamp(1), "message": "w" * 2000}}), id="a-long-reason"),
        pytest.param(" " * 9000 + WHOLE.encode(), id="too-long"),
        pytest.param("[" * 4000, id="too-deep"),
        pytest.param('{"version":' + "1" * 5000 + "}", id="too-many-digits"),
        pytest.param('{"version":1,"remaining":NaN}', id="not-a-number"),
    ],
)
def test_what_this_version_would_not_write_is_refused(text: str) -> None:
    """Anybody who may write the Lease may write anything there."""
    with pytest.raises(MalformedObjectError):
        ControllerStatus.decode(text)


def test_further_fields_are_ignored() -> None:
    """After a rollback, an older program reads the status of a newer one."""
    written = json.loads(WHOLE.encode())
    written["breakers"]["gpu"]["severity"] = 1
    assert WHOLE == ControllerStatus.decode(json.dumps({**written, "more": []}))


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["gpu", "openedAt", "message"]), inner),
    max_leaves=5,
)


@given(fields=st.dictionaries(st.sampled_from(sorted(json.loads(WHOLE.encode()))), JSON))
def test_whatever_is_read_can_be_written(fields: dict[str, Any]) -> None:
    """Damage is refused by its own error, or says nothing."""
    try:
        found = ControllerStatus.decode(changed(**fields))
    except MalformedObjectError:
        return
    assert found == ControllerStatus.decode(found.encode())


# Which intent.


def spec_hash(found: Cluster, settings: Settings | None = None) -> str:
    """Give the epoch that somebody names who looks at a cluster."""
    return status.spec_hash(index(found.seen(), settings or Settings(drivers=(found.stack.name,)), found.stack))


def test_an_intent_has_one_name_for_all_who_look() -> None:
    """A Job and a follower have other settings, and look at other moments."""
    once, other = spec_hash(cluster("a", "b")), spec_hash(stale("c"), ControllerSettings(dry_run=True))
    assert (once, 16) == (other, len(other))


@pytest.mark.parametrize(
    ("part", "patch"),
    [
        pytest.param("policy", "metadata: {generation: 99}", id="the-policy-was-edited"),
        pytest.param("policy", "metadata: {uid: another}", id="another-policy"),
        pytest.param("revision", "revision: 99", id="a-revision-was-taken-up-again"),
        pytest.param("revision", "metadata: {labels: {controller-revision-hash: next}}", id="another-revision"),
    ],
)
def test_another_intent_has_another_name(part: str, patch: str) -> None:
    """By the policy's generation, and by what the operator rendered of it."""
    assert spec_hash(cluster()) != spec_hash(cluster().change(part, patch))


def test_what_is_no_drivers_revision_does_not_count() -> None:
    """The plugin's own DaemonSet has some, too."""
    found = cluster().put("revision", obj("revision", {"metadata": {"name": "x", "ownerReferences": OF_THE_PLUGIN}}))
    assert spec_hash(cluster()) == spec_hash(found)


OF_THE_PLUGIN = [{"kind": "DaemonSet", "uid": "plugin-ds", "controller": True}]


def test_every_pool_counts() -> None:
    """Where the intent is in an object for each, and in whatever order they are read."""
    both = pooled(Pool("one", ("a",)), Pool("two", ("b",)))
    edited = pooled(Pool("one", ("a",)), Pool("two", ("b",))).change("pool", "metadata: {generation: 99}", "two")
    turned = pooled(Pool("one", ("a",)), Pool("two", ("b",)))
    turned.parts["pool"] = turned.of("pool")[::-1]
    assert spec_hash(both) == spec_hash(turned) != spec_hash(edited)
    assert "" != spec_hash(both)


def test_a_pool_that_was_left_behind_does_not_count() -> None:
    """Only who saw it while the policy left drivers to pools still knows of it."""
    plain, pools = cluster("a"), pooled(Pool("one", ("a",))).seen().pools
    followers = index(replace(plain.seen(), pools=pools), FOLLOWING, plain.stack)
    assert pools
    assert spec_hash(plain) == status.spec_hash(followers)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(cluster().drop("policy"), id="no-policy"),
        pytest.param(cluster().change("policy", "spec: {driver: {version: 999.1.1}}"), id="not-rendered"),
        pytest.param(cluster().change("daemonset", "status: {observedGeneration: 0}"), id="not-observed"),
        pytest.param(cluster().drop("daemonset", "nvidia-driver-daemonset"), id="no-driver-daemonset"),
        pytest.param(cluster().change("revision", "revision: many"), id="unreadable"),
    ],
)
def test_an_intent_that_is_not_rendered_has_no_name(found: Cluster) -> None:
    """By the same gates that hold a run back."""
    assert "" == spec_hash(found)


def test_what_was_expected_must_be_seen_first() -> None:
    """The Job waits for its own release; a follower expects nothing."""
    assert "" == spec_hash(cluster(), Settings(expect=Expect(driver_version="999.1.1")))
    assert "" != spec_hash(cluster(), Settings(expect=Expect(driver_version="580.126.20")))


def test_stacks_have_names_of_their_own() -> None:
    """Each has its policy."""
    assert "" != spec_hash(network()) != spec_hash(cluster())


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(cluster("a", "b"), 0, id="all-served"),
        pytest.param(stale("a", "b"), 2, id="stale"),
        pytest.param(stale("a", "b").change("node", labelled("a", skip="true"), "a"), 1, id="one-left-alone"),
        pytest.param(cluster("a", "b").put("driver-pod", driver_pod("b", ready=None)), 1, id="one-reloads"),
    ],
)
def test_nodes_to_go_are_counted(found: Cluster, expected: int) -> None:
    """Each once, however many plugins it has."""
    assert expected == status.remaining(found.decide()[0])
