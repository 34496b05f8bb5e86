"""One thing is wrong with one object of a cluster: no promise breaks, and whatever cannot be read is named.

What a scene allows is its truth before the mutation: nothing may be restarted beyond it, and no success be reported
where work was left. Left out are lies that are well-formed: another valid value in a field of the right type is
what the cluster says, and is believed where nothing contradicts it (`LIES`).
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.plan.plan import Options, make_plan
from ctl.plan.table import table
from hook.decide.reasons import Reason
from hook.decide.record import Memory
from hook.decide.result import Decision, Phase, headline
from hook.decide.run import decide, succeeded
from hook.objects import (
    Malformed,
    Snapshot,
    entry,
    policies,
    read_daemonset,
    read_deployment,
    read_lease,
    read_pod,
    read_replicaset,
    read_revision,
    read_slice,
)
from hook.objects.decoding import Reader
from hook.objects.stacks import GPU_OPERATOR
from hook.objects.views import reader
from hook.run import report
from tests.fixtures.cluster import LATER, READERS, Cluster
from tests.fixtures.objects import Object, obj, raw
from tests.properties.budget import OBJECTS, ONCE, examples, sample
from tests.properties.mutations import OTHERS, hostile, mutated, put, spots, value_at
from tests.properties.scenes import SCENES, Scene

READER_OF: Final[dict[str, tuple[Reader[Any], tuple[str, ...]]]] = {
    "Pod": (read_pod, ("driver-pod", "plugin-pod", "exporter/pod", "network/driver-pod")),
    "Node": (READERS["node"], ("node", "network/node")),
    "DaemonSet": (read_daemonset, ("driver-daemonset", "plugin-daemonset", "network/driver-daemonset")),
    "Deployment": (read_deployment, ("deployment",)),
    "ReplicaSet": (read_replicaset, ("replicaset",)),
    "ControllerRevision": (read_revision, ("revision",)),
    "Lease": (read_lease, ("lease",)),
    "ResourceSlice": (read_slice, ("slice",)),
    "ClusterPolicy": (reader(policies.ClusterPolicy), ("policy", "openshift/policy")),
    "NVIDIADriver": (reader(policies.NvidiaDriver), ("pool/policy",)),
    "NicClusterPolicy": (reader(policies.NicClusterPolicy), ("network/policy",)),
}
"""By kind: its reader, and good objects of it."""
LIES: Final = {
    "revision": (("metadata", "ownerReferences"), ("metadata", "labels"), ("revision",)),
    "policy": (("metadata", "name"), ("spec",)),
    "pool": (("spec",),),
    "daemonset": (("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid")),
    "node": (("status", "conditions"),),
}
"""Where another valid value changes the facts: which revision is the newest, what is wanted of the driver (not to be
upgraded by anybody, not to be there), which DaemonSet it is, since when a node is lost. What cannot be read there
holds everything back all the same."""
WITH_DEFAULTS: Final = ("policy", "pool")


def is_lie(part: str, before: Object, after: Object) -> bool:
    """Return whether a change is one of these."""
    return any(_differs(value_at(before, path), value_at(after, path), part) for path in LIES.get(part, ()))


def _differs(was: Any, now: Any, part: str) -> bool:  # noqa: ANN401 - JSON
    """Return whether there is another value of the same type, or one more; a value of another type is no lie."""
    # A value that is null or gone is one where a kind has a default for it: an upgrade policy that says nothing is off.
    if now is None:
        return was is not None and part in WITH_DEFAULTS
    if type(was) is not type(now):
        return was is None
    if isinstance(was, dict):
        return any(_differs(was.get(key), now.get(key), part) for key in was.keys() | now.keys())
    if isinstance(was, list):
        return len(was) != len(now) or any(_differs(*pair, part) for pair in zip(was, now, strict=True))
    return bool(was != now)


def decided(scene: Scene, found: Cluster) -> tuple[Snapshot, Decision, Decision]:
    """Decide on a cluster in the middle of a run, and at the end of its time."""
    seen = found.seen()
    decision, memory = decide(seen, Memory(started=LATER), scene.settings, LATER)
    over = Memory(started=LATER - scene.settings.timeout, first_seen=memory.first_seen)
    return seen, decision, decide(seen, over, scene.settings, LATER + timedelta(seconds=1))[0]


def check(scene: Scene, found: Cluster, *, lie: bool = False) -> None:
    """Hold the promises against one cluster."""
    seen, decision, late = decided(scene, found)
    restarted = {action.pod.uid for one in (decision, late) for action in one.actions}
    restarted &= scene.plugins  # A UID that no pod has deletes none: it is a precondition of each deletion.
    malformed = seen.malformed
    for one in (decision, late):
        shown(one)
        success = one.phase in (Phase.DONE, Phase.SKIP)
        assert lie or restarted <= scene.stale, f"restarted {sorted(restarted - scene.stale)}"
        assert lie or not (success and scene.unfinished), headline(one)
        assert not (success and malformed), malformed
    if malformed:
        assert not succeeded(late, scene.settings)
        assert Phase.DEADLINE is late.phase
        assert malformed[0].problem[:40] in late.message
        assert malformed[0].name in late.message
        assert Reason.MALFORMED_OBJECT is late.cause


def shown(decision: Decision) -> None:
    """Put a decision into everything that users read: it fits, and no terminal obeys anything in it."""
    lines = [*report.table(decision).splitlines(), *report.ending(decision, report.advice(decision, GPU_OPERATOR))]
    assert all(line.isprintable() for line in lines)
    assert all(len(line) < 20_000 for line in lines)
    json.dumps(report.as_json(decision)).encode()
    message = report.termination_message(decision, 124, 2**31, GPU_OPERATOR)
    assert len(message.encode()) <= report.TERMINATION_LIMIT
    assert json.loads(message)["phase"] == decision.phase


def planned(scene: Scene, found: Cluster) -> None:
    """Plan an upgrade of it: whatever the plan says, no terminal obeys anything in it."""
    made = make_plan(found.seen(), scene.settings, LATER, Options(timedelta(hours=2)))
    assert all(line.isprintable() for line in table(made))
    json.dumps(msgspec.to_builtins(made)).encode()


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_one_wrong_thing_breaks_no_promise(scene: Scene) -> None:
    """At a path of the object: put, dropped, twice, or half of it."""
    # Unchanged, each scene allows just what is stale on settled nodes, and is done if nothing is left. Several wrong
    # things may make up any facts, but none that cannot be read, shown or named.
    assert (Phase.WAIT if scene.unfinished else Phase.DONE) is decided(scene, scene.cluster)[1].phase
    check(scene, scene.cluster)

    @examples(OBJECTS, ONCE)
    @given(data=st.data())
    def holds(data: st.DataObject) -> None:
        wrong = [data.draw(st.sampled_from(scene.places)) for _count in range(data.draw(st.sampled_from((1, 1, 1, 5))))]
        changes: list[Object] = []

        def change(one: Object) -> Object:
            changes.extend((one, data.draw(mutated(one))))
            return changes[-1]

        found = scene.changed(*((place, change) for place in wrong))
        check(scene, found, lie=len(wrong) > 1 or is_lie(wrong[0][0], *changes))
        planned(scene, found)

    holds()


@pytest.mark.parametrize("name", ["stale", "loading"])
def test_nothing_that_is_left_out_breaks_a_promise(name: str) -> None:
    """Each field of each object, one at a time: gone, or null."""
    scene = SCENES[name]
    for place in sample(scene.places):
        part, number = place
        for path in spots(scene.cluster.of(part)[number]):
            for gone in (None, ...):
                check(scene, scene.changed((place, lambda one, path=path, gone=gone: put(one, path, gone))))  # type: ignore[misc]


HOLE: Final = "a hole"


@pytest.mark.parametrize("kind", READER_OF)
def test_every_place_is_read_or_refused(kind: str) -> None:
    """Whatever stands there, in an object that is good otherwise: a view, or one that names the object."""
    read, names = READER_OF[kind]
    assert set(READERS.values()) <= {each for each, _names in READER_OF.values()}
    for good in map(obj, names):
        for path in sample(spots(good)):
            before, after = raw(put(good, path, HOLE)).split(raw(HOLE))  # Written once: some values are large.
            for value in (*hostile(value_at(good, path)), *OTHERS):
                _key, found = entry(read, kind, before + raw(value) + after)
                if isinstance(found, Malformed):
                    assert found.problem, (path, str(value)[:99])
                    texts = (found.name, found.namespace, found.node, found.problem)
                    assert all(len(text) <= 2048 for text in texts), (path, str(value)[:99])
