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
from hook.objects import Snapshot
from hook.objects.names import MIG_STATE_LABEL
from hook.run import loop
from tests.fixtures.cluster import LATER, Cluster, labelled, not_ready_since
from tests.fixtures.limits import of
from tests.fixtures.objects import D, Object, R, conditions, merged, plugin_pod, running, stamp
from tests.properties.budget import ONCE, examples
from tests.properties.families import ENDLESS, FAMILIES
from tests.properties.mutations import mutated
from tests.properties.observation import changed_nodes
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

HAPPENS: Final = (*["change"] * 3, "hostile", "gone", "back", "twice", "crash", "unserved", "memory")
MIG: Final = ("side", "side", "pending", "pending", "success")
"""On nodes with a MIG manager in addition: its states, and a side container of the driver that restarts."""
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
        self.memory, self._seen = Memory(started=LATER), Snapshot()

    def decide(self) -> Decision:
        """Decide in both ways. Raises DifferentError."""
        before, self._seen = self._seen, self.found.seen()
        decision: Decision
        decision, self.memory = decide_both_ways(
            self._seen, self.memory, self.settings, self.now, changed_nodes(before, self._seen)
        )
        self.actions = decision.actions
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
    mig = MIG if "mig" in cluster.settings.refresh_after else ()
    what = data.draw(st.sampled_from((*HAPPENS, *mig)))
    if what == "memory":
        cluster.remember(data.draw(st.sampled_from(("asked", "asked", "refused", "troubled"))))
    elif what == "crash" and found.of("plugin-pod"):
        number = data.draw(st.integers(0, len(found.of("plugin-pod")) - 1))
        crash(cluster, number, data.draw(st.sampled_from((-70, -5, 3, 70, 70))))
    elif what == "side":
        patch(found, "driver-pod", {"status": {"conditions": conditions(3590)}})
    elif what in ("pending", "success"):
        patch(found, "node", {"metadata": {"labels": {MIG_STATE_LABEL: what}}})
    elif what == "back":
        cluster.found = cluster.scene.changed()
    elif parts:
        part = data.draw(st.sampled_from(parts))
        objects = list(found.of(part))
        number = data.draw(st.integers(0, len(objects) - 1))
        happens = {"gone": [], "twice": [objects[number], copy_of(objects[number])]}
        if what == "unserved" and part in ("slice", "policy"):
            found.parts[part] = None
        else:
            changed = happens[what] if what in happens else [change(data, part, objects[number], what)]
            found.parts[part] = [*objects[:number], *changed, *objects[number + 1 :]]


def patch(found: Cluster, part: str, change: Object) -> None:
    """Change all objects of a part, hostile ones as well."""
    found.parts[part] = [dict(merged(each, change)) for each in found.of(part)]


def change(data: st.DataObject, part: str, each: Object, what: str) -> Object:
    """Return an object with a usual or a hostile change."""
    if what == "hostile":
        return dict(data.draw(mutated(each)))
    usual = data.draw(st.sampled_from(SPEC.get(part, POD)))
    kept = {"metadata": {"name": name_of(each)}} if part == "node" else {}
    return dict(merged(merged(each, usual), kept))


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


# What a decision takes into account in addition to the objects that changed.


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


def _wants_another_version(cluster: ChangingCluster) -> None:
    cluster.found.change("policy", {"spec": {"driver": {"version": "999.1.1"}}})


INPUTS: Final[dict[str, tuple[str, Callable[[ChangingCluster], None], object, str, object]]] = {
    "what applies to all nodes": ("done", _wants_another_version, Context, "__eq__", lambda *_contexts: True),
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
    with mock.patch.object(owner, member, rule), pytest.raises(DifferentError):
        tell()
