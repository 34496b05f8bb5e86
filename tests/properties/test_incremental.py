"""A decision from the nodes that changed is that of a full evaluation, after every event of random histories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from typing import Any, Final
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from hook.decide import run
from hook.decide.fleet import Context
from hook.decide.record import Memory
from hook.decide.result import Decision
from hook.decide.run import decide
from hook.kube import cache as caches
from hook.kube import resources, retry
from hook.kube.cache import Cache
from hook.kube.informer import Informer, ListWatch
from hook.kube.resources import Resource
from hook.objects import DeviceSlice, Node, Pod, Value, entry, node_of
from hook.objects.decoding import Key
from hook.objects.views import reader
from hook.run import loop
from tests.fixtures.cluster import LATER, READERS, Cluster, labelled, not_ready_since
from tests.fixtures.limits import of
from tests.fixtures.objects import (
    D,
    Object,
    R,
    conditions,
    driver_pod,
    merged,
    plugin_pod,
    raw,
    running,
    stamp,
)
from tests.properties.budget import ONCE, examples
from tests.properties.families import ENDLESS, FAMILIES
from tests.properties.mutations import mutated
from tests.properties.scenes import SCENES, Scene
from tests.properties.story import History, Story

pytestmark = pytest.mark.usefixtures("_quiet")

WORLDS: Final = 2
"""Histories of a family, for the Job and for the controller."""
HISTORIES: Final = 10
"""Histories of a scene."""
EVENTS: Final = 12
TIMES: Final = (0, 0, 1, 5, 31, 61, 130, 400)
"""Seconds between two decisions."""

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
FIELDS: Final[dict[str, tuple[str, Resource]]] = {
    "node": (caches.NODES, resources.NODES),
    "daemonset": (caches.DAEMON_SETS, resources.DAEMON_SETS),
    "revision": (caches.REVISIONS, resources.CONTROLLER_REVISIONS),
    "driver-pod": (caches.DRIVER_PODS, resources.PODS),
    "provider-pod": (caches.PREREQUISITE_PODS, resources.PODS),
    "plugin-pod": (caches.PLUGIN_PODS, resources.PODS),
    "slice": (caches.SLICES, resources.RESOURCE_SLICES),
    "deployment": (caches.DEPLOYMENTS, resources.DEPLOYMENTS),
    "replicaset": (caches.REPLICA_SETS, resources.REPLICA_SETS),
    "lease": (caches.LEASES, resources.LEASES),
}
"""The field of a snapshot that the objects of a part fill, and their resource. Policies and pools are added."""
ON_NODES: Final = ("node", "driver-pod", "provider-pod", "plugin-pod", "slice")


class Watches:
    """The program's cache, whose informers hear of what happens to a cluster of objects."""

    def __init__(self, found: Cluster, settings: Any) -> None:  # noqa: ANN401 - of a Job or of a controller
        self.cache = Cache(mock.Mock(), settings, retry.Patience(retry.FOREVER))
        self._heard: dict[str, dict[Key, bytes]] = {}
        policies = {"policy": (caches.POLICIES, found.stack.policy)}
        pools = {"pool": (caches.POOLS, found.stack.pool)} if found.stack.pool is not None else {}
        kinds = {part: (field, resources.policies_of(kind)) for part, (field, kind) in {**policies, **pools}.items()}
        readers_of = {**READERS, **{part: reader(kind) for part, (_field, kind) in {**policies, **pools}.items()}}
        self._watches = {
            part: (field, ListWatch(resource.select(labels=part), readers_of[part]))
            for part, (field, resource) in {**FIELDS, **kinds}.items()
        }

    def follow(self, found: Cluster, *, relisted: str = "") -> None:
        """Let the informers hear of each object that was added, changed or deleted, or list those of one part again."""
        for part in self._watches:
            informer = self._informer(part)
            resource = informer.list_watch.resource
            objects = [raw(each) for each in found.of(part)]
            entries = [(*entry(informer.list_watch.read, resource.kind, each), each) for each in objects]
            if part in found.parts and found.parts[part] is None:
                informer._replace({}, "", absent=True)
            elif part == relisted or informer.absent:
                views = ((key, view, informer._views.get(key)) for key, view, _each in entries)
                listed = {key: old if old == new else new for key, new, old in views if new is not None}
                informer._replace(listed, "9", absent=False)
            else:
                now = {key: each for key, _view, each in entries}
                before = self._heard.get(part, {})
                for key in before.keys() - now.keys():
                    informer._apply("DELETED", before[key])
                for key in [key for key in now if now[key] != before.get(key)]:
                    informer._apply("MODIFIED" if key in before else "ADDED", now[key])
            self._heard[part] = {key: each for key, _view, each in entries}

    def drop(self, part: str) -> None:
        """Let nothing need the objects of a part for a moment: they are listed anew."""
        self.cache._replace(self._watches[part][0], [])
        self._heard[part] = {}

    def _informer(self, part: str) -> Informer:
        field, list_watch = self._watches[part]
        with mock.patch.object(Informer, "start"):
            self.cache._add(field, list_watch)
        return self.cache._informers[list_watch]


class DifferentError(AssertionError):
    """A decision from the nodes that changed is not that of a full evaluation."""


def decide_both_ways(snapshot: Any, memory: Any, settings: Any, now: Any, changed: Any = None) -> Any:  # noqa: ANN401 - as decide
    """Decide as `decide` does. Raise DifferentError if a full evaluation decides otherwise."""
    found: Any = decide(snapshot, memory, settings, now, changed)
    full: Any = decide(snapshot, memory, settings, now)
    for ours, theirs in zip(found, full, strict=True):
        for field in (field.name for field in fields(ours) if field.compare):
            if getattr(ours, field) != getattr(theirs, field):
                raise DifferentError(f"{field}: {getattr(ours, field)!r:.2000}, not {getattr(theirs, field)!r:.2000}")
    return found


class ChangingCluster:
    """A cluster that changes, and a process that follows it."""

    def __init__(self, scene: Scene, settings: Any = None) -> None:  # noqa: ANN401 - of a Job or of a controller
        self.scene, self.settings, self.now = scene, settings or scene.settings, LATER
        self.found = scene.changed()
        self.memory, self.watches = Memory(started=LATER), Watches(self.found, self.settings)
        self.relisted = ""
        """A part whose objects are listed again."""

    def decide(self) -> Decision:
        """Decide in both ways. Raises DifferentError."""
        self.watches.follow(self.found, relisted=self.relisted)
        snapshot, changed = self.watches.cache.observe()
        decision: Decision
        decision, self.memory = decide_both_ways(snapshot, self.memory, self.settings, self.now, changed)
        self.actions, self.relisted = decision.actions, ""
        return decision

    def remember(self, how: str) -> None:
        """Record a result of each restart."""
        for action in self.actions:
            done = {"asked": "", "refused": "a policy denies it"}
            if how in done:
                self.memory = self.memory.with_restart(action, self.now, done[how])
            else:
                self.memory = self.memory.troubled(action, self.now, "no answer")


def crash(cluster: ChangingCluster, number: int, seconds: float) -> None:
    """Let a plugin have crashed so many seconds ago."""
    since = (cluster.now - D).total_seconds() - seconds
    crashed = [running(name, since, restarts=3) for name in ("compute-domains", "gpus")]
    cluster.found.parts["plugin-pod"] = [
        dict(merged(each, {"status": {"containerStatuses": crashed}})) if at == number else each
        for at, each in enumerate(cluster.found.of("plugin-pod"))
    ]


def change_something(data: st.DataObject, cluster: ChangingCluster) -> None:
    """Let one thing happen."""
    found = cluster.found
    parts = [part for part in found.parts if found.of(part)]
    what = data.draw(st.sampled_from(("change", "change", "change", "hostile", "gone", "back", "twice", "order",
                                      "crash", "unserved", "memory", "dropped", "relisted")))  # fmt: skip
    if what == "memory":
        cluster.remember(data.draw(st.sampled_from(("asked", "asked", "refused", "troubled"))))
    elif what == "dropped":
        cluster.watches.drop(data.draw(st.sampled_from(ON_NODES)))
    elif what == "crash" and found.of("plugin-pod"):
        number = data.draw(st.integers(0, len(found.of("plugin-pod")) - 1))
        crash(cluster, number, data.draw(st.sampled_from((-70, -5, 3, 70, 70))))
    elif what == "back":
        cluster.found = cluster.scene.changed()
    elif parts:
        part = data.draw(st.sampled_from(parts))
        objects = list(found.of(part))
        number = data.draw(st.integers(0, len(objects) - 1))
        happens = {"gone": [], "twice": [objects[number], copy_of(objects[number])], "relisted": [objects[number]]}
        cluster.relisted = part if what in ("order", "relisted") else ""
        if what == "order":
            found.parts[part] = objects[::-1]
        elif what == "unserved" and part in ("slice", "policy"):
            found.parts[part] = None
        else:
            changed = happens[what] if what in happens else [change(data, part, objects[number], what)]
            found.parts[part] = [*objects[:number], *changed, *objects[number + 1 :]]


def change(data: st.DataObject, part: str, each: Object, what: str) -> Object:
    """Return an object with a usual or a hostile change."""
    if what == "hostile":
        return dict(data.draw(mutated(each)))
    patch = data.draw(st.sampled_from(SPEC.get(part, POD)))
    kept = {"metadata": {"name": name_of(each)}} if part == "node" else {}
    return dict(merged(merged(each, patch), kept))


def copy_of(each: Object) -> Object:
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
        settings = of(scene.settings, controller=data.draw(st.booleans()))
        if data.draw(st.booleans()):
            settings = structs.replace(settings, max_parallel_restarts=1)
        cluster = ChangingCluster(scene, settings)
        cluster.decide()
        for _event in range(EVENTS):
            change_something(data, cluster)
            cluster.now += timedelta(seconds=data.draw(st.sampled_from(TIMES)))
            cluster.decide()

    holds()


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
    with mock.patch.object(loop, "decide", decide_both_ways):
        Story(history).tell()


# Each input of an evaluation, one by one: what happens to it, and a rule that ignores it.


def _moves(cluster: ChangingCluster) -> None:
    cluster.found.change("plugin-pod", {"spec": {"nodeName": "b"}}, "plugin-a")


def _is_no_longer_watched(cluster: ChangingCluster) -> None:
    cluster.found.drop("slice")
    cluster.watches.drop("slice")


def _is_listed_again(cluster: ChangingCluster) -> None:
    cluster.found.put("plugin-pod", plugin_pod("a", ready=None))
    cluster.relisted = "plugin-pod"


def _time_passes(cluster: ChangingCluster) -> None:
    crash(cluster, 0, 5)
    cluster.decide()
    cluster.now += timedelta(seconds=90)


def _time_of_a_crash_comes(cluster: ChangingCluster) -> None:
    """Let a node's clock be ahead by more than the time that a plugin must run after a crash."""
    crash(cluster, 0, -100)
    cluster.decide()
    cluster.now += timedelta(seconds=110)


def _is_recorded_late(cluster: ChangingCluster) -> None:
    """Let the response to a deletion be lost: the pod that replaced the deleted one is seen before the record."""
    restarts = cluster.actions
    successor = {"metadata": {"uid": "successor"}}
    cluster.found.put("plugin-pod", dict(merged(plugin_pod("a", waited=None, started=R), successor)))
    cluster.decide()
    cluster.actions = restarts
    cluster.remember("asked")


def _deaf(kind: type[Value], name: str = "") -> Callable[[Any], str]:
    """Return a rule that notes no change of a kind of object."""
    original = node_of
    return lambda view: "" if isinstance(view, kind) and getattr(view, "name", "").startswith(name) else original(view)


def _without_notes(original: Callable[..., object]) -> Callable[..., object]:
    """Return a method that notes no node in the cache."""

    def method(*arguments: Any, **named: Any) -> None:  # noqa: ANN401 - of the method
        with mock.patch.object(caches, "node_of", return_value=""):
            original(*arguments, **named)

    return method


INPUTS: Final[dict[str, tuple[str, Callable[[ChangingCluster], object], object, str, object]]] = {
    "node": (
        "done", lambda cluster: cluster.found.change("node", labelled("a", state="upgrade-required"), "a"),
        caches, "node_of", _deaf(Node),
    ),
    "driver pod": (
        "done", lambda cluster: cluster.found.put("driver-pod", driver_pod("a", ready=None)),
        caches, "node_of", _deaf(Pod, "driver"),
    ),
    "plugin pod": (
        "done", lambda cluster: cluster.found.put("plugin-pod", plugin_pod("a", ready=None)),
        caches, "node_of", _deaf(Pod, "plugin"),
    ),
    "pod of a prerequisite": (
        "toolkit", lambda cluster: cluster.found.change("provider-pod", {"status": {"conditions": conditions(None)}}),
        caches, "node_of", _deaf(Pod, "toolkit"),
    ),
    "slice": (
        "done", lambda cluster: cluster.found.drop("slice", "0-gpu.nvidia.com-a"),
        caches, "node_of", _deaf(DeviceSlice),
    ),
    "node of before": (
        "done", _moves, Cache, "_note_change",
        lambda cache, _before, after, original=Cache._note_change: original(cache, None, after),
    ),
    "list": ("done", _is_listed_again, Informer, "_replace", _without_notes(Informer._replace)),
    "end of a watch": (
        "done", _is_no_longer_watched,
        Cache, "_drop", _without_notes(Cache._drop),
    ),
    "what applies to all nodes": (
        "done", lambda cluster: cluster.found.change("policy", {"spec": {"driver": {"version": "999.1.1"}}}),
        Context, "__eq__", lambda *_contexts: True,
    ),
    "time": ("done", _time_passes, run, "_timed", lambda _views, _now: frozenset()),
    "time of a node that is ahead": (
        "done", _time_of_a_crash_comes, run, "_timed", lambda _views, _now: frozenset(),
    ),
    "record of a restart": ("stale", _is_recorded_late, run, "_recorded_since", lambda *_records: set()),
}  # fmt: skip
"""A scene, what happens in it, and a rule that misses that."""


@pytest.mark.parametrize("name", INPUTS)
def test_each_input_of_an_evaluation_counts(name: str) -> None:
    """A decision from what changed misses it only with a rule that ignores it."""
    where, happens, owner, member, rule = INPUTS[name]

    def tell() -> None:
        cluster = ChangingCluster(SCENES[where])
        cluster.decide()
        happens(cluster)
        cluster.decide()

    tell()
    with mock.patch.object(owner, member, rule), pytest.raises((DifferentError, KeyError)):
        tell()
