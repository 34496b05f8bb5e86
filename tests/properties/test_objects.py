"""One thing is wrong with one object of a cluster: no promise breaks, and whatever cannot be read is named.

What a scene allows is its truth before the mutation: nothing may be restarted beyond it, and no success be told
where work was left. Left out are lies that are well-formed: another valid value in a field of the right type is
what the cluster says, and is believed where nothing contradicts it (`LIES`).
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import Phase as Step
from hypothesis import given, settings
from hypothesis import strategies as st

from hook.decide.decide import chosen, decide_all, succeeded
from hook.decide.reasons import Reason
from hook.decide.result import Phase, headline
from hook.decide.state import Memory
from hook.objects import policies, readers, views
from hook.plan import plan
from hook.plan.plan import Options, make_plan
from hook.run import report
from tests.fixtures.cluster import LATER, READERS, Cluster
from tests.fixtures.objects import obj, raw
from tests.properties.mutations import BY_TYPE, OTHERS, TEXTS, TIMES, mutated, put, spots
from tests.properties.scenes import SCENES, Scene
from tests.properties.schemas import KINDS, Place, places

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hook.decide.result import Decision
    from hook.objects.views import Snapshot
    from tests.fixtures.objects import Object

EXAMPLES: Final = 80
"""A scene. Thousands were tried while this was written; these are for what changes later."""
QUICKLY: Final = settings(max_examples=EXAMPLES, phases=(Step.explicit, Step.generate))
"""A failing example is not made smaller: it is one change of small objects, and making it so takes minutes."""
GOOD: Final = {
    "Pod": ("driver-pod", "plugin-pod", "exporter/pod", "network/driver-pod"),
    "Node": ("node", "network/node"),
    "DaemonSet": ("driver-daemonset", "plugin-daemonset", "network/driver-daemonset"),
    "Deployment": ("deployment",),
    "ReplicaSet": ("replicaset",),
    "ControllerRevision": ("revision",),
    "Lease": ("lease",),
    "ResourceSlice": ("slice",),
}
READER_OF: Final = {
    "Pod": readers.pod,
    "Node": readers.node,
    "DaemonSet": readers.daemonset,
    "Deployment": readers.deployment,
    "ReplicaSet": readers.replicaset,
    "ControllerRevision": readers.revision,
    "Lease": readers.lease,
    "ResourceSlice": readers.device_slice,
    "ClusterPolicy": policies.cluster_policy,
    "NVIDIADriver": policies.nvidia_driver,
    "NicClusterPolicy": policies.nic_cluster_policy,
}
LIES: Final = {
    "revision": (("metadata", "ownerReferences"), ("metadata", "labels"), ("revision",)),
    "policy": (("metadata", "name"), ("spec",)),
    "pool": (("spec",),),
    "daemonset": (("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid")),
    "node": (("status", "conditions"),),
}
"""Where another valid value tells another story: which revision is the newest, what is wanted of the driver (not to
be upgraded by anybody, not to be there), which DaemonSet it is, since when a node is lost. What cannot be read there
holds everything back all the same."""

WITH_DEFAULTS: Final = ("policy", "pool")


def is_lie(part: str, before: Object, after: Object) -> bool:
    """Whether one of these tells another story."""
    return any(_retold(_at(before, path), _at(after, path), part) for path in LIES.get(part, ()))


def _retold(was: Any, now: Any, part: str) -> bool:  # noqa: ANN401 - JSON
    """Whether there is another value of the same type, or one more; what is of another type tells no story.

    What is null or gone tells one where a kind has a default for it: an upgrade policy that says nothing is off.
    """
    if now is None:
        return was is not None and part in WITH_DEFAULTS
    if type(was) is not type(now):
        return was is None
    if isinstance(was, dict):
        return any(_retold(was.get(key), now.get(key), part) for key in was.keys() | now.keys())
    if isinstance(was, list):
        return len(was) != len(now) or any(_retold(*pair, part) for pair in zip(was, now, strict=True))
    return bool(was != now)


def _at(one: Any, path: Iterable[str]) -> Any:  # noqa: ANN401 - JSON
    for key in path:
        one = one.get(key) if isinstance(one, dict) else None
    return one


def decided(scene: Scene, found: Cluster) -> tuple[Mapping[str, Snapshot], Decision, Decision]:
    """Decide on a cluster in the middle of a run, and at the end of its time."""
    seen = scene.seen(found)
    decision, memories = decide_all(seen, {}, scene.settings, LATER)
    late = LATER - scene.settings.timeout
    over = {one.name: Memory(started=late, first_seen=memories[one.name].first_seen) for one in chosen(scene.settings)}
    return seen, decision, decide_all(seen, over, scene.settings, LATER + timedelta(seconds=1))[0]


def check(scene: Scene, found: Cluster, *, lie: bool = False) -> None:
    """Hold the promises against one cluster."""
    seen, decision, late = decided(scene, found)
    told = {action.pod.uid for one in (decision, late) for action in one.actions if hasattr(action, "pod")}
    # A UID that no pod has deletes none: it is a precondition of each deletion.
    told &= {pod["metadata"]["uid"] for stack, *_ in parts_of(scene.make()) for pod in stack.of("plugin-pod")}
    # Of the stack before this one, only as long as the policy asks for both.
    malformed = [one for name in (seen if not lie else (found.stack.name,)) for one in seen[name].malformed]
    for one in (decision, late):
        show(one)
        success = one.phase in (Phase.DONE, Phase.SKIP)
        assert lie or told <= scene.stale, f"restarted {sorted(told - scene.stale)}"
        assert lie or not (success and scene.unfinished), headline(one)
        assert not (success and malformed), malformed
    if malformed:
        assert not succeeded(late, scene.settings)
        assert Phase.DEADLINE is late.phase
        assert malformed[0].problem[:40] in late.message
        assert malformed[0].name in late.message
        assert Reason.MALFORMED_OBJECT is late.cause


def show(decision: Decision) -> None:
    """Put a decision into everything that people read: it fits, and nothing in it is obeyed by a terminal."""
    lines = [*report.table(decision).splitlines(), *report.ending(decision)]
    assert all(line.isprintable() for line in lines)
    assert all(len(line) < 20_000 for line in lines)
    json.dumps(report.as_json(decision)).encode()
    message = report.termination_message(decision, 124, 2**31)
    assert len(message.encode()) <= report.TERMINATION_LIMIT
    assert json.loads(message)["phase"] == decision.phase


def parts_of(found: Cluster) -> list[tuple[Cluster, str, int]]:
    """List every object of a cluster, and of the stack before it."""
    stacks = [found, *([found.prior] if found.prior else [])]
    return [(one, part, place) for one in stacks for part in sorted(one.parts) for place in range(len(one.of(part)))]


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_the_scenes_are_what_they_say(scene: Scene) -> None:
    """Unchanged, each allows just what is stale on settled nodes, and is done if nothing is left."""
    _seen, decision, _late = decided(scene, scene.make())
    assert (Phase.WAIT if scene.unfinished else Phase.DONE) is decision.phase
    check(scene, scene.make())


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
@QUICKLY
@given(data=st.data())
def test_one_wrong_thing_breaks_no_promise(scene: Scene, data: st.DataObject) -> None:
    """At a path of the object or of its schema: put, dropped, twice, or half of it."""
    found = scene.make()
    stack, part, place = data.draw(st.sampled_from(parts_of(found)))
    before = stack.of(part)[place]
    after = data.draw(mutated(before))
    stack.parts[part] = [*stack.of(part)[:place], after, *stack.of(part)[place + 1 :]]
    check(scene, found, lie=is_lie(part, before, after))


@pytest.mark.parametrize("scene", [SCENES["stale"], SCENES["done"], SCENES["rdma"]], ids=["stale", "done", "rdma"])
@QUICKLY
@given(data=st.data())
def test_many_wrong_things_end_in_a_named_one(scene: Scene, data: st.DataObject) -> None:
    """Together they may tell any story, but none that cannot be read, shown or named."""
    found = scene.make()
    for _count in range(data.draw(st.integers(2, 6))):
        stack, part, place = data.draw(st.sampled_from(parts_of(found)))
        objects = stack.of(part)
        stack.parts[part] = [*objects[:place], data.draw(mutated(objects[place])), *objects[place + 1 :]]
    check(scene, found, lie=True)


@pytest.mark.parametrize("name", ["stale", "loading"])
def test_nothing_that_is_left_out_breaks_a_promise(name: str) -> None:
    """Each field of each object, one at a time: gone, or null."""
    scene = SCENES[name]
    for number, (_stack, part, place) in enumerate(parts_of(scene.make())):
        objects = scene.make().of(part)
        for path in spots(objects[place]):
            for gone in (None, ...):
                found = scene.make()
                stack, _part, _place = parts_of(found)[number]
                before = stack.of(part)[place]
                after = put(before, path, gone)
                stack.parts[part] = [*stack.of(part)[:place], after, *stack.of(part)[place + 1 :]]
                check(scene, found)


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
@QUICKLY
@given(data=st.data())
def test_no_object_breaks_a_plan(scene: Scene, data: st.DataObject) -> None:
    """Whatever it says then, it is as documented, and nothing in it is obeyed by a terminal."""
    found = scene.make()
    stack, part, place = data.draw(st.sampled_from(parts_of(found)))
    objects = stack.of(part)
    stack.parts[part] = [*objects[:place], data.draw(mutated(objects[place])), *objects[place + 1 :]]
    made = make_plan(scene.seen(found), scene.settings, LATER, Options(timedelta(hours=2), ()))
    assert all(line.isprintable() for line in plan.table(made))
    json.dumps(plan.as_json(made)).encode()


def wrong(place: Place) -> tuple[Any, ...]:
    """List what is hostile for a place: each wrong type, and what is of the right one and still cannot be."""
    own = TIMES if place.format == "date-time" else BY_TYPE.get(place.type, ())
    return (*own, None, [], {}, "x", 1, True)


@pytest.mark.parametrize("kind", KINDS)
def test_every_place_of_every_schema_is_read_or_refused(kind: str) -> None:
    """Whatever stands there, in an object that is good otherwise: a view, or one that says which object it is."""
    for name in GOOD[kind]:
        good = obj(name)
        for place in places(kind):
            for value in wrong(place):
                _read_or_refused(kind, put(good, place.path, value))


@pytest.mark.parametrize("name", ["policy", "pool/policy", "network/policy", "openshift/policy"])
def test_every_place_of_every_policy_is_read_or_refused(name: str) -> None:
    """Their CRDs let everything pass that they do not know."""
    good = obj(name)
    for path in spots(good):
        for value in (*TEXTS, *TIMES, *BY_TYPE["integer"], *BY_TYPE["object"], *OTHERS):
            _read_or_refused(good["kind"], put(good, path, value))


def _read_or_refused(kind: str, one: Object) -> None:
    found = readers.entry(READER_OF[kind], kind, raw(one)).view
    if isinstance(found, views.Malformed):
        assert found.problem
        assert all(len(text) <= 2048 for text in (found.name, found.namespace, found.node, found.problem))


def test_every_reader_is_tried() -> None:
    """A kind that is read and has no row here would go unnoticed."""
    assert set(READERS.values()) <= set(READER_OF.values())
    assert set(GOOD) == set(KINDS)
