"""An incremental decision is that of a full evaluation, after every event of random histories."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from hook.decide import memo as memo_module
from hook.decide.fleet import Context, Fleet
from hook.decide.memo import Groups, Memo
from hook.decide.result import Decision
from hook.decide.state import Memory
from hook.kube import requests, retry
from hook.kube.cache import NODES, PLUGIN_PODS, Fields, assemble
from hook.kube.informer import Informer
from hook.kube.listing import ListWatch
from hook.kube.requests import ListOptions
from hook.objects import readers
from hook.objects.views import Snapshot
from hook.run import loop
from tests.fixtures.cluster import LATER, cluster, labelled, not_ready_since, reasons
from tests.fixtures.limits import of
from tests.fixtures.objects import D, Object, conditions, merged, running, stamp
from tests.properties.budget import ONCE, QUICK, examples
from tests.properties.families import ENDLESS, FAMILIES
from tests.properties.mutations import mutated
from tests.properties.scenes import SCENES, Scene
from tests.properties.story import History, Story
from tools.verified import DifferentError, verified

pytestmark = pytest.mark.usefixtures("_quiet")

WORLDS: Final = 2
"""Histories of a family, for the Job and for the controller."""
HISTORIES: Final = 10
"""Histories of a scene."""
EVENTS: Final = 12
TIMES: Final = (0, 0, 1, 5, 31, 61, 130, 400, -20)
"""Seconds between two decisions; the API server's clock may be corrected."""

SPEC: Final[dict[str, tuple[Object, ...]]] = {
    "node": (
        labelled(state="upgrade-required"), labelled(state="upgrade-failed"), labelled(state="upgrade-done"),
        labelled(skip="true"), labelled(present="false"), labelled(deploy_driver="pre-installed"),
        not_ready_since(3590), not_ready_since(3000), not_ready_since(0, "True"), {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "away", "effect": "NoExecute"}]}}, {"spec": {"taints": None}},
    ),
    "daemonset": (
        *({"status": {key: number}} for number in (0, 1, 2, 3) for key in (
            "desiredNumberScheduled", "observedGeneration")),
        {"spec": {"updateStrategy": {"type": "OnDelete"}}}, {"spec": {"updateStrategy": {"type": "RollingUpdate"}}},
        {"metadata": {"generation": 7}}, {"metadata": {"name": "another"}},
    ),
    "policy": (
        {"status": {"state": "notReady"}}, {"status": {"state": "ready"}}, {"metadata": {"generation": 9}},
        {"spec": {"driver": {"upgradePolicy": {"autoUpgrade": False}}}}, {"spec": {"driver": {"version": "999.1.1"}}},
    ),
    "revision": ({"revision": 99}, {"metadata": {"labels": {"controller-revision-hash": "other"}}}),
    "slice": (
        {"spec": {"devices": []}}, {"spec": {"pool": {"generation": 9}}}, {"spec": {"pool": {"generation": 0}}},
        {"spec": {"pool": {"name": "shared"}}}, {"spec": {"pool": {"name": "shared", "generation": 3}}},
        {"spec": {"nodeName": "b"}},
    ),
    "deployment": ({"status": {"updatedReplicas": 0}}, {"status": {"updatedReplicas": 1}}),
}  # fmt: skip
POD: Final[tuple[Object, ...]] = (
    {"metadata": {"resourceVersion": "77"}}, {"metadata": {"deletionTimestamp": stamp(3600)}},
    {"metadata": {"ownerReferences": []}}, {"metadata": {"labels": {"controller-revision-hash": "old"}}},
    {"status": {"conditions": conditions(None)}}, {"status": {"conditions": conditions(3590)}},
    {"status": {"phase": "Failed"}}, {"spec": {"nodeName": "b"}}, {"spec": {"nodeName": "c"}},
    {"spec": {"nodeName": None}},
)  # fmt: skip
"""What often happens to objects of each part. Hostile changes come in addition."""


class Course:
    """A cluster that changes, and what a process keeps of it from one decision to the next."""

    def __init__(self, scene: Scene, settings: Any) -> None:  # noqa: ANN401 - of a Job or of a controller
        self.scene, self.settings, self.now = scene, settings, LATER
        self.found = scene.changed()
        self.memory, self.memo, self.seen = Memory(started=LATER), Memo(), Snapshot()
        self.before = [self.memory]

    def decide(self) -> Decision:
        """Decide in both ways. Raises DifferentError."""
        self.seen = shared(self.seen, self.found.seen())
        decision: Decision
        decision, self.memory = verified(self.seen, self.memory, self.settings, self.now, self.memo)
        self.actions = decision.actions
        self.before.append(self.memory)
        return decision

    def remember(self, how: str) -> None:
        """Record a result of each restart."""
        for action in self.actions:
            done = {"asked": "", "refused": "a policy denies it"}
            if how in done:
                self.memory = self.memory.asked(action.node, action.pod, self.now, done[how])
            else:
                self.memory = self.memory.troubled(action.pod, "no answer")


def shared(before: Snapshot, after: Snapshot) -> Snapshot:
    """Return a snapshot in which each view that did not change is the object of before, as in a cache."""

    def again(old: Any, new: Any) -> Any:  # noqa: ANN401 - any field
        kept = list(old or ())
        return tuple(next((view for view in kept if view == each), each) for each in new)

    fields = {name: getattr(after, name) for name in Snapshot.__slots__}
    same = {name: again(getattr(before, name), found) for name, found in fields.items() if found and name != "nodes"}
    nodes = again(before.nodes.values(), after.nodes.values())
    return replace(after, **same, nodes={node.name: node for node in nodes})


def befall(data: st.DataObject, course: Course) -> None:
    """Let one thing happen."""
    cluster = course.found
    parts = [part for part in cluster.parts if cluster.of(part)]
    what = data.draw(st.sampled_from(("change", "change", "change", "hostile", "gone", "back", "twice", "order",
                                      "crash", "unserved", "memory", "earlier")))  # fmt: skip
    if what == "memory":
        course.remember(data.draw(st.sampled_from(("asked", "asked", "refused", "troubled"))))
    elif what == "earlier":
        course.memory = data.draw(st.sampled_from(course.before))
    elif what == "crash" and cluster.of("plugin-pod"):
        number = data.draw(st.integers(0, len(cluster.of("plugin-pod")) - 1))
        since = (course.now - D).total_seconds() - data.draw(st.sampled_from((-5, 3, 70, 70)))
        crashed = [running(name, since, restarts=3) for name in ("compute-domains", "gpus")]
        cluster.parts["plugin-pod"] = [
            dict(merged(each, {"status": {"containerStatuses": crashed}})) if at == number else each
            for at, each in enumerate(cluster.of("plugin-pod"))
        ]
    elif what == "back":
        course.found = course.scene.changed()
    elif parts:
        part = data.draw(st.sampled_from(parts))
        objects = list(cluster.of(part))
        number = data.draw(st.integers(0, len(objects) - 1))
        happens = {"gone": [], "twice": [objects[number], twin(objects[number])]}
        if what == "order":
            cluster.parts[part] = objects[::-1]
        elif what == "unserved" and part in ("slice", "policy"):
            cluster.parts[part] = None
        else:
            changed = happens[what] if what in happens else [change(data, part, objects[number], what)]
            cluster.parts[part] = [*objects[:number], *changed, *objects[number + 1 :]]


def change(data: st.DataObject, part: str, each: Object, what: str) -> Object:
    """Return an object with a usual or a hostile change."""
    if what == "hostile":
        return dict(data.draw(mutated(each)))
    patch = data.draw(st.sampled_from(SPEC.get(part, POD)))
    kept = {"metadata": {"name": name_of(each)}} if part == "node" else {}
    return dict(merged(merged(each, patch), kept))


def twin(each: Object) -> Object:
    """Return an object like another one, with another name."""
    return dict(merged(each, {"metadata": {"name": f"{name_of(each)}-2", "uid": "twin"}}))


def name_of(each: Object) -> Any:  # noqa: ANN401 - of a hostile object, anything
    """Return the name of an object."""
    metadata = each.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else metadata


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_each_decision_is_that_of_a_full_evaluation(scene: Scene) -> None:
    """Objects change, go, come twice and out of order, in usual and in hostile ways, while restarts are recorded."""

    @examples(HISTORIES, ONCE)
    @given(data=st.data())
    def holds(data: st.DataObject) -> None:
        with mock.patch.object(memo_module, "IN_PLACE", data.draw(st.sampled_from((0, 1, 100)))):
            tell(data, scene)

    holds()


def tell(data: st.DataObject, scene: Scene) -> None:
    """Let a history happen, and decide after each event."""
    settings = of(scene.settings, controller=data.draw(st.booleans()))
    if data.draw(st.booleans()):
        settings = structs.replace(settings, max_parallel_restarts=1)
    course = Course(scene, settings)
    course.decide()
    for _event in range(EVENTS):
        befall(data, course)
        course.now += timedelta(seconds=data.draw(st.sampled_from(TIMES)))
        course.decide()


@pytest.mark.parametrize("family", [*FAMILIES, *ENDLESS])
def test_the_program_decides_as_a_full_evaluation(family: str) -> None:
    """In each family of histories of the model, with its watches, its restarts and its time."""

    @examples(WORLDS, ONCE)
    @given({**ENDLESS, **FAMILIES}[family], st.booleans())
    def holds(history: History, controller: bool) -> None:
        live(history._replace(controller=controller or family in ENDLESS))

    holds()


def live(history: History) -> None:
    """Let the program itself live through a history of the model. Raises DifferentError."""
    with mock.patch.object(loop, "decide", verified):
        Story(history).tell()


WATCHES: Final = {
    ListWatch(ListOptions(requests.PODS, labels="a"), readers.pod): PLUGIN_PODS,
    ListWatch(ListOptions(requests.PODS, labels="b"), readers.pod): PLUGIN_PODS,
    ListWatch(ListOptions(requests.NODES), readers.node): NODES,
}
"""Two selections of pods, and the nodes, with the field of a snapshot that each fills."""


def notice(data: st.DataObject, informer: Informer) -> None:
    """Let an informer see one event, or list again."""
    part = "node" if WATCHES[informer.list_watch] == NODES else "plugin-pod"
    each = data.draw(st.sampled_from(cluster("a", "b").of(part)))
    kind = data.draw(st.sampled_from(("ADDED", "MODIFIED", "MODIFIED", "DELETED", "listed", "absent")))
    if kind in ("listed", "absent"):
        views = informer._views
        kept = {key: views[key] for key in views if kind == "listed" and data.draw(st.booleans())}
        informer._replace(kept, "9", absent=kind == "absent")
    else:
        what = data.draw(st.sampled_from(("change", "hostile")))
        informer._handle(kind, json.dumps(change(data, part, each, what)).encode())


def watch(data: st.DataObject) -> None:
    """Compare the snapshot after each event with one of what the informers hold, built anew."""
    informers = {each: Informer(mock.Mock(), each, lambda: None, retry.JOB) for each in WATCHES}
    known: Fields = {}
    for _event in range(EVENTS):
        notice(data, informers[data.draw(st.sampled_from(list(WATCHES)))])
        shown = {each: (informer.views(), informer.absent) for each, informer in informers.items()}
        held = {each: (tuple(one._views.values()), one.absent) for each, one in informers.items()}
        assert assemble(WATCHES, shown, known) == assemble(WATCHES, held)


def test_a_snapshot_hides_no_change() -> None:
    """An informer returns the same tuple, and a cache the same field of a snapshot, only while no view changes."""
    holds = examples(10 * HISTORIES, ONCE)(given(st.data())(watch))
    holds()
    original = Informer._apply
    broken = mock.patch.object(Informer, "_apply", lambda each, *event: keeping(each, original, *event))
    with broken, pytest.raises(AssertionError):
        holds()


def keeping(informer: Informer, original: Callable[..., bool], *event: object) -> bool:
    """Apply an event, but return the tuple of before it."""
    before = informer.views()
    changed = original(informer, *event)
    informer._current = before
    return changed


def _deaf(name: str) -> Callable[..., set[str]]:
    """Return a rule that takes over the objects of one group, but reports no change of them."""
    original = Memo._follow

    def follow(memo: Memo, snapshot: Snapshot) -> set[str]:
        group = getattr(memo, name)
        with mock.patch.object(group, "follow", lambda objects: Groups.follow(group, objects) & set()):
            return original(memo, snapshot)

    return follow


def _forgetful(memo: Memo, snapshot: Snapshot, memory: Memory | None, original: Any = Memo._recall) -> set[str]:  # noqa: ANN401
    """Take over what earlier decisions recorded, but report no change of it."""
    original(memo, snapshot, memory)
    return set()


def _timeless(memo: Memo, fleet: Fleet, now: datetime, original: Any = Memo.evaluate) -> Any:  # noqa: ANN401
    """Evaluate as if the clock never went back."""
    memo._now = None
    return original(memo, fleet, now)


MUTANTS: Final[dict[str, tuple[str, object, str, object]]] = {
    "nodes-are-ignored": ("done", Memo, "_follow", _deaf("_nodes")),
    "drivers-are-ignored": ("done", Memo, "_follow", _deaf("_drivers")),
    "plugins-are-ignored": ("done", Memo, "_follow", _deaf("_plugins")),
    "providers-are-ignored": ("toolkit", Memo, "_follow", _deaf("_prerequisites")),
    "slices-are-ignored": ("done", Memo, "_follow", _deaf("_slices")),
    "generations-of-pools-are-ignored": ("done", Memo, "_follow", _deaf("_pools")),
    "the-context-is-ignored": ("done", Context, "__eq__", lambda *_contexts: True),
    "time-is-ignored": ("done", memo_module, "_is_passing", lambda *_view: False),
    "a-clock-never-goes-back": ("done", Memo, "evaluate", _timeless),
    "order-is-ignored": ("done", memo_module, "differences", lambda old, new: [
        each for each in (*old, *new) if (each in old) != (each in new)]),
}  # fmt: skip
"""Memos that ignore one of the inputs of an evaluation, each with the scene that shows it."""


@pytest.mark.skipif(QUICK, reason="a few histories do not show them")
@pytest.mark.parametrize("name", MUTANTS)
def test_a_memo_that_ignores_an_input_is_noticed(name: str) -> None:
    """Otherwise nothing above would hold that input."""
    where, owner, member, rule = MUTANTS[name]

    @examples(40 * HISTORIES, ONCE)
    @given(data=st.data())
    def holds(data: st.DataObject) -> None:
        tell(data, SCENES[where])

    with mock.patch.object(owner, member, rule), pytest.raises((DifferentError, KeyError)):
        holds()


def test_a_memo_that_ignores_the_memory_is_noticed() -> None:
    """A plugin that was proven fresh before the times of its driver moved is stale for a process that forgot that."""

    def forgets() -> list[str]:
        course = Course(SCENES["network-done"], SCENES["network-done"].settings)
        course.decide()
        course.found.change("driver-pod", {"status": {"conditions": conditions(3590)}})
        course.decide()
        course.memory = course.before[0]
        return reasons(course.decide().statuses)

    assert ["PluginStale", "PluginStale"] == forgets()
    with mock.patch.object(Memo, "_recall", _forgetful), pytest.raises(DifferentError):
        forgets()
