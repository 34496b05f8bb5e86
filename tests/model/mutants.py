"""Deliberately broken rules: one function of the program each, with what it does in the place of the rule.

Where the rule is one of several in a function, the broken one calls the original with an input, or returns its output,
in which the rule cannot show.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct, structs

from hook import config
from hook.decide import (
    breaker,
    decide,
    done,
    eligibility,
    fleet,
    freshness,
    history,
    nodes,
    plugins,
    restarts,
    rollout,
    state,
)
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Patience
from hook.kube import requests
from hook.objects import views, wire
from hook.run import job
from tests.model.breaking import Mutant
from tests.model.promises import DoneTooEarlyError, WrongEndError, WrongRestartError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hook.decide.fleet import Fleet
    from hook.decide.result import NodeStatus
    from hook.objects.views import Node, Pod
    from tests.model.breaking import Function

SECOND: Final = timedelta(seconds=1)
"""The API's times are whole seconds."""
NEVER: Final = datetime.max.replace(tzinfo=UTC)
AT_ONCE: Final = timedelta()
YEARS: Final = timedelta(days=9999)

Value = TypeVar("Value")


def replace(value: Value, **changes: object) -> Value:
    """Return a copy of a view or of a dataclass with other fields."""
    change: Any = structs.replace if isinstance(value, Struct) else dataclasses.replace
    copy: Value = change(value, **changes)
    return copy


def always(value: object) -> Function:
    """Return a rule that looks at nothing."""
    return lambda *_anything, **_named: value


def _with(seen: Fleet, **changed: Any) -> Fleet:  # noqa: ANN401 - any setting
    """Return a fleet that is decided about with other settings."""
    return replace(seen, settings=replace(seen.settings, **changed))


def _says_ready(seen: Fleet) -> bool:
    return seen.policy is not None and seen.policy.state == "ready"


def _lacks_upgrade_done(pod: Pod, seen: Fleet) -> bool:
    node = seen.seen.nodes.get(pod.node)
    return node is None or node.labels.get(seen.stack.upgrade.state) != "upgrade-done"


def _without_skip(node: Node | None, seen: Fleet) -> Node | None:
    skip = seen.stack.upgrade.skip
    return node and replace(node, labels={key: value for key, value in node.labels.items() if key != skip})


def _waited_longer(pod: Pod) -> Pod:
    """Let the init containers finish a second later: what was as late as something is later then."""
    later = (replace(one, finished_at=one.finished_at and one.finished_at + SECOND) for one in pod.init_containers)
    return replace(pod, init_containers=tuple(later))


def _without_restarts(pod: Pod) -> Pod:
    return replace(pod, containers=tuple(replace(one, restarts=0) for one in pod.containers))


def _of_newest_revision(driver: Pod, seen: Fleet) -> Pod:
    newest = seen.newest.get(driver.owner_uid)
    return replace(driver, hash=newest.hash) if newest is not None else driver


def _on_delete(seen: Fleet) -> Fleet:
    """Let no driver DaemonSet have the update strategy RollingUpdate."""
    return replace(seen, drivers={uid: replace(one, rolling=False) for uid, one in seen.drivers.items()})


def _with_policy(seen: Fleet, **changed: Any) -> Fleet:  # noqa: ANN401 - any field of a policy
    """Return a fleet whose policy says something else, if it has one."""
    return replace(seen, policy=seen.policy and replace(seen.policy, **changed))


def _counting_writes(seen: Fleet) -> Fleet:
    """Make each write to the policy another generation of it."""
    moment = seen.policy and seen.policy.changed
    return _with_policy(seen, generation=int(moment.timestamp())) if moment else seen


def _apart(pods: Iterable[Pod]) -> list[Pod]:
    """Let each live pod have a node of its own."""
    return [replace(pod, node=pod.uid) if pod.node and pod.live else pod for pod in pods]


def _turn(statuses: Sequence[NodeStatus], before: NodeState, after: NodeState) -> list[NodeStatus]:
    return [replace(one, state=after) if one.state is before else one for one in statuses]


def _patient_again(statuses: Sequence[NodeStatus]) -> list[NodeStatus]:
    """Wait again for nodes that were excluded because the wait took too long."""
    return [replace(one, state=NodeState.WAITING) if one.patience is Patience.NODE else one for one in statuses]


MUTANTS: Final = (
    Mutant("the-policys-ready-settles-a-node", WrongRestartError, "hardly_ready", nodes._driver_gate,
           lambda original, pod, node, seen: None if _says_ready(seen) else original(pod, node, seen)),
    Mutant("the-policys-ready-is-done", DoneTooEarlyError, "missing_plugin", done._blockers,
           lambda original, seen, judged: () if _says_ready(seen) else original(seen, judged)),
    Mutant("upgrade-done-is-done", DoneTooEarlyError, "label_lag", eligibility.outdated,
           lambda _original, pod, seen: _lacks_upgrade_done(pod, seen)),
    Mutant("as-late-as-ready-is-later", DoneTooEarlyError, "second_of_ready", freshness.started_after,
           lambda original, pod, moment: original(pod, moment and moment - SECOND)),
    Mutant("as-late-as-started-is-later", DoneTooEarlyError, "second_of_start", freshness._saw_this_driver,
           lambda original, pod, *driver: original(_waited_longer(pod), *driver)),
    Mutant("ready-for-containers-ready", WrongRestartError, "blips", wire.condition,
           lambda original, found, kind: original(found, "Ready" if kind == "ContainersReady" else kind)),
    Mutant("generation-is-ignored", DoneTooEarlyError, "controller_lag", views.DaemonSet.observed, always(True)),
    Mutant("preconditions-are-ignored", WrongRestartError, "stale_watch", requests.delete_pod,
           lambda original, *pod: replace(original(*pod), body={})),
    Mutant("a-missing-plugin-is-nothing-to-do", DoneTooEarlyError, "missing_plugin", plugins._evaluate_absent,
           lambda original, node, ds, seen: original(node, ds, replace(seen, complete={ds.uid}))),
    Mutant("labels-gone-are-no-gpu", DoneTooEarlyError, "labels", eligibility._unlabelled,
           lambda original, node, seen: original(node, replace(seen, driver_pods={}, plugin_pods={}))),
    Mutant("one-read-is-enough", DoneTooEarlyError, "stale_watch", job.Runner._confirmed,
           lambda _original, _runner, decision: decision),
    Mutant("the-unloader-is-not-asked", DoneTooEarlyError, "crash_in_place", freshness._unloaded_before_start,
           always(True)),
    Mutant("the-youngest-container-speaks", DoneTooEarlyError, "crash_in_place", freshness.started_after,
           lambda original, pod, moment: any(original(replace(pod, containers=(one,)), moment)
                                             for one in pod.containers)),
    Mutant("an-own-restart-is-forgotten", WrongEndError, "own_restart", plugins._came_after, always(False)),
    Mutant("runs-of-one-second-are-one", DoneTooEarlyError, "crashes_again", freshness.driver_run,
           lambda original, driver, stack: original(_without_restarts(driver), stack)),
    Mutant("a-pod-that-goes-still-counts", DoneTooEarlyError, "about_to_go", views.Pod.live,
           lambda original, pod: original(replace(pod, deleting=False))),
    Mutant("the-youngest-revision-is-the-newest", WrongRestartError, "taken_back", fleet._newest,
           lambda _original, revisions: {one.owner_uid: one for one in sorted(revisions, key=lambda one: one.created)}),
    Mutant("the-driver-daemonsets-image-is-not-compared", WrongRestartError, "operator_lag", rollout._shows,
           always(True)),
    Mutant("the-operators-rollout-is-not-waited-for", DoneTooEarlyError, "second_render", views.Deployment.rolled_out,
           always(True)),
    Mutant("who-leads-is-not-asked", DoneTooEarlyError, "second_render", done._another_leads, always(False)),
    Mutant("a-side-container-undoes-a-restart", WrongEndError, "side_probed", plugins._came_after,
           lambda original, pod, driver, proof, seen: proof.same_second and original(pod, driver, proof, seen)),
    Mutant("without-a-policy-nothing-is-unseen", WrongRestartError, "vanishing_policy", fleet._unrendered,
           lambda original, drivers, seen, intents, stack: original(
               (one for one in drivers if one.uid in intents), seen, intents, stack)),
    Mutant("patience-ends-only-with-a-policy", WrongEndError, "by_hand", done.policy_gone,
           lambda original, seen, judged, timers: original(seen, _patient_again(judged), timers)),
    Mutant("no-quiet-time", DoneTooEarlyError, "second_render", done._noisy, always(None)),
    Mutant("an-edit-is-quiet-at-once", DoneTooEarlyError, "second_render", done._noisy,
           lambda original, seen, *rest: original(_with_policy(seen, changed=None), *rest)),
    Mutant("a-skipped-node-is-served", WrongRestartError, "skipped", eligibility.excluded,
           lambda original, name, node, seen, now: original(name, _without_skip(node, seen), seen, now)),
    Mutant("a-blip-is-a-lost-node", DoneTooEarlyError, "blips", eligibility._unreachable,
           lambda original, node, seen, now: original(node, _with(seen, not_ready_grace=AT_ONCE), now)),
    Mutant("no-bound-on-restarts", WrongRestartError, "several_at_once", restarts.DisruptionBudget.has,
           lambda original, left, **how: original(replace(left, ours=None), **how)),
    Mutant("what-people-upgrade-is-waited-for", WrongEndError, "by_hand", eligibility.manual, always(None)),
    Mutant("what-people-upgrade-is-never-stale", DoneTooEarlyError, "by_hand_in_place", nodes._with_outdated_driver,
           lambda original, judged, by_hand: original(_turn(judged, NodeState.STALE, NodeState.VERIFIED), by_hand)),
    Mutant("an-outdated-driver-publishes-the-wanted-version", WrongEndError, "by_hand_in_place", plugins._unproven,
           lambda original, pod, driver, seen: original(pod, _of_newest_revision(driver, seen), seen)),
    Mutant("rolling-pods-are-upgraded-by-people", DoneTooEarlyError, "rolling_by_hand", eligibility.manual,
           lambda original, driver, seen: original(driver, _on_delete(seen))),
    Mutant("without-a-policy-there-is-nothing-to-do", DoneTooEarlyError, "vanishing_policy", done._no_policy,
           lambda original, seen: original(replace(seen, drivers={}, driver_pods={}))),
    Mutant("a-policy-that-is-gone-never-returns", DoneTooEarlyError, "policy_gone", done.policy_gone,
           lambda original, seen, *rest: original(_with(seen, policy_grace=AT_ONCE), *rest)),
    Mutant("without-a-policy-nothing-is-stale", DoneTooEarlyError, "policy_gone", done.policy_gone,
           lambda original, seen, _evaluated, timers: original(seen, (), timers)),
    Mutant("an-orphan-is-no-plugin", DoneTooEarlyError, "orphans", fleet._adopted,
           lambda original, pods, _heirs: original(pods, ())),
    Mutant("two-pods-are-on-two-nodes", DoneTooEarlyError, "doubled_plugin", fleet._complete,
           lambda original, named, pods, there: original(named, _apart(pods), there)),
    Mutant("a-pod-that-was-there-came-of-a-restart", WrongEndError, "doubled_plugin", history._is_another,
           lambda original, before, stale: original(replace(before, others=frozenset()), stale)),
    Mutant("a-side-container-is-the-driver", WrongEndError, "side_bare", freshness.ready_since,
           lambda original, pod, _container: original(pod, "")),
    Mutant("what-was-proven-is-forgotten", WrongRestartError, "side_probed", plugins._evidence,
           lambda original, pod, kind, driver, seen, *rest: original(
               pod, kind, driver, replace(seen, fresh={}), *rest)),
    Mutant("a-rewritten-image-is-another-one", WrongEndError, "rewritten_image", rollout.rewritten, always("")),
    Mutant("any-tag-is-the-one-that-was-rewritten", WrongRestartError, "rewritten_image", rollout._tag, always(".*")),
    Mutant("metadata-is-an-edit", WrongEndError, "touched_policy", done._noisy,
           lambda original, seen, *rest: original(_counting_writes(seen), *rest)),
    Mutant("a-failed-plugin-keeps-its-place", WrongEndError, "place_given_back", restarts._given_back, always(0)),
    Mutant("each-failed-plugin-gives-its-place-back", WrongRestartError, "place_given_back", restarts._given_back,
           lambda _original, failed: failed),
    Mutant("patience-has-no-end", WrongEndError, "trouble", decide._out_of_patience,
           lambda _original, judged, *_rest: judged),
    Mutant("no-patience", WrongEndError, "trouble", decide._out_of_patience,
           lambda original, judged, chosen, timers: original(judged, replace(
               chosen, failed_grace=AT_ONCE, plugin_timeout=AT_ONCE, not_ready_grace=AT_ONCE), timers)),
    Mutant("the-first-failure-ends-it", WrongEndError, "trouble_beside_work", decide._failure,
           lambda original, blockers, judged, *rest: original(
               blockers, [one for one in judged if decide._has_failed(one)], *rest)),
    Mutant("no-deadline", WrongEndError, "out_of_time", decide._phase,
           lambda original, blockers, judged, progress, seen, timers: original(
               blockers, judged, progress, _with(seen, timeout=YEARS), timers)),
    Mutant("time-up-is-success", WrongEndError, "out_of_time", decide.succeeded,
           lambda original, decision, chosen: original(
               decision, replace(chosen, on_deadline=config.OnDeadline.REPORT))),
    Mutant("no-bound-on-what-is-down", WrongRestartError, "taken_down", restarts.DisruptionBudget.has,
           lambda original, left, **how: original(replace(left, anyones=None), **how)),
    Mutant("what-others-took-down-is-up", WrongRestartError, "taken_down", restarts._down,
           lambda original, judged, seen: original(replace(judged, reason=Reason.VERIFIED), seen)),
    Mutant("no-pause", WrongRestartError, "lies", history.held_until, always(None)),
    Mutant("pauses-do-not-grow", WrongRestartError, "lies", history._pause,
           lambda original, _count, chosen: original(1, chosen)),
    Mutant("tries-are-not-counted", WrongRestartError, "lies", state.RestartRecord.tries_with, always(1)),
    Mutant("what-failed-is-never-tried-again", WrongEndError, "lies", history.held_until,
           lambda original, *tried: original(*tried) and NEVER),
    Mutant("no-breaker", WrongRestartError, "jumps", breaker._opened,
           lambda original, one, *rest: replace(original(one, *rest), opened_at=None)),
    Mutant("suspects-are-served-at-once", WrongRestartError, "jumps", breaker.unexplained, always(False)),
    Mutant("an-open-breaker-holds-nothing", WrongRestartError, "jumps", breaker.held_open, always(None)),
    Mutant("a-breaker-never-closes", WrongEndError, "jumps", breaker._closed_in_time,
           lambda original, one, chosen, now: original(one, replace(chosen, circuit_breaker_reset=AT_ONCE), now)),
    Mutant("a-reload-is-suspect", WrongEndError, "all_at_once", freshness.load, always("")),
    Mutant("a-crash-in-place-is-suspect", WrongEndError, "all_at_once", freshness.load,
           lambda original, driver, *rest: original(_without_restarts(driver), *rest)),
    Mutant("a-follower-has-a-deadline", WrongEndError, "late", config.Settings.deadline,
           lambda original, chosen, started: original(replace(chosen, follow=False), started)),
    Mutant("a-follower-stalls", WrongEndError, "late", decide._phase,
           lambda original, blockers, judged, progress, seen, timers: original(
               blockers, judged, progress, _with(seen, follow=False, timeout=YEARS), timers)),
)  # fmt: skip
