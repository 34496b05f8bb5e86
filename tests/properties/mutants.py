"""Deliberately broken rules: one function of the program each, with what it does in the place of the rule.

Where the rule is one of several in a function, the broken one calls the original with an input, or returns its output,
in which the rule cannot show.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct, structs

from hook.decide import end, fleet, freshness, record, run
from hook.decide import node as nodes
from hook.decide.reasons import Reason
from hook.decide.result import NodeState
from hook.kube import client
from hook.objects import DaemonSet, Pod, parts
from hook.run import job
from hook.settings import Duration
from tests.fixtures.limits import of
from tests.properties.breaking import Mutant
from tests.properties.promises import DoneTooEarlyError, WrongEndError, WrongRestartError, WrongTaintError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hook.decide.fleet import Context, Fleet, NodeView
    from hook.decide.node import SettledNode
    from hook.decide.result import NodeStatus
    from hook.objects import Pod, Snapshot
    from tests.properties.breaking import Function

SECOND: Final = timedelta(seconds=1)
"""The API's times are whole seconds."""
NEVER: Final = datetime.max.replace(tzinfo=UTC)
AT_ONCE: Final = Duration()
YEARS: Final = Duration(days=9999)

Value = TypeVar("Value")

LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)


def replace(value: Value, **changes: object) -> Value:
    """Return a copy of a view or of a dataclass with other fields."""
    change: Any = structs.replace if isinstance(value, Struct) else dataclasses.replace
    copy: Value = change(value, **changes)
    return copy


def always(value: object) -> Function:
    """Return a rule that looks at nothing."""
    return lambda *_anything, **_named: value


def _with(context: Context, **changed: Any) -> Context:  # noqa: ANN401 - any setting
    return replace(context, settings=replace(context.settings, **changed))


def _has_ready_policy(context: Context) -> bool:
    return context.policy is not None and context.policy.state == "ready"


def _as_labelled(pod: Pod, view: NodeView, context: Context) -> Context:
    upgraded = view.label(context.stack.upgrade.state) == "upgrade-done"
    return _of_newest_revision(pod, context) if upgraded else replace(context, newest={})


def _without_skip(view: NodeView, context: Context) -> NodeView:
    skip, node = context.stack.upgrade.skip, view.node
    labels = {key: value for key, value in node.labels.items() if key != skip} if node is not None else {}
    return replace(view, node=node and replace(node, labels=labels))


def _without_restarts(pod: Pod) -> Pod:
    return replace(pod, containers=tuple(replace(one, restarts=0) for one in pod.containers))


def _recorded(node: SettledNode, **change: Any) -> SettledNode:  # noqa: ANN401 - values of its fields
    records = {key: replace(each, **change) for key, each in node.memory.records.items()}
    return replace(node, memory=replace(node.memory, records=records))


def _of_newest_revision(pod: Pod, context: Context) -> Context:
    newest = {uid: replace(one, hash=pod.hash) for uid, one in context.newest.items()}
    return replace(context, newest=newest)


def _on_delete(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, daemonsets=tuple(replace(one, rolling=False) for one in snapshot.daemonsets))


def _with_policy(seen: Fleet, **changed: Any) -> Fleet:  # noqa: ANN401 - any field of a policy
    policy = seen.context.policy and replace(seen.context.policy, **changed)
    return replace(seen, context=replace(seen.context, policy=policy))


def _counting_writes(seen: Fleet) -> Fleet:
    changed = seen.context.policy and seen.context.policy.changed
    return _with_policy(seen, generation=int(changed.timestamp())) if changed else seen


def _turn(statuses: Sequence[NodeStatus], before: NodeState, after: NodeState) -> list[NodeStatus]:
    return [replace(one, state=after) if one.state is before else one for one in statuses]


MUTANTS: Final = (
    Mutant("the-policys-ready-settles-a-node", WrongRestartError, "hardly_ready", nodes._driver_blocker,
           lambda original, pod, view, context: None if _has_ready_policy(context) else original(pod, view, context)),
    Mutant("upgrade-done-is-done", DoneTooEarlyError, "label_lag", nodes._driver_blocker,
           lambda original, pod, view, context: original(pod, view, _as_labelled(pod, view, context))),
    Mutant("as-late-as-ready-is-later", DoneTooEarlyError, "second_of_ready", freshness.started_after,
           lambda original, pod, moment: original(pod, moment and moment - SECOND)),
    Mutant("as-late-as-started-is-later", DoneTooEarlyError, "second_of_start",
           freshness.driver_started, lambda original, *driver: (moment := original(*driver)) and moment - SECOND),
    Mutant("ready-for-containers-ready", WrongRestartError, "blips", parts.condition,
           lambda original, found, kind: original(found, "Ready" if kind == "ContainersReady" else kind)),
    Mutant("generation-is-ignored", DoneTooEarlyError, "controller_lag", DaemonSet.observed, always(True)),
    Mutant("preconditions-are-ignored", WrongRestartError, "stale_watch", client.delete_options, always({})),
    Mutant("a-missing-plugin-is-nothing-to-do", DoneTooEarlyError, "missing_plugin", nodes._evaluate_absent,
           lambda original, ds, node: original(ds, replace(node, view=replace(node.view, node=None)))),
    Mutant("labels-gone-are-no-gpu", DoneTooEarlyError, "labels", nodes._unlabelled,
           lambda original, view, context: original(replace(view, driver_pods=(), plugins={}), context)),
    Mutant("one-read-is-enough", DoneTooEarlyError, "stale_watch", job.Runner._confirmed,
           lambda _original, _runner, decision: decision),
    Mutant("the-unloader-is-not-asked", DoneTooEarlyError, "crash_in_place", freshness._unloaded_before_start,
           always(True)),
    Mutant("the-youngest-container-speaks", DoneTooEarlyError, "crash_in_place", freshness.started_after,
           lambda original, pod, moment: any(original(replace(pod, containers=(one,)), moment)
                                             for one in pod.containers)),
    Mutant("an-own-restart-is-forgotten", WrongRestartError, "own_restart", nodes._is_successor, always(False)),
    Mutant("a-load-has-a-time", WrongRestartError, "jumps", freshness.load_of,
           lambda original, driver, stack: f"{original(driver, stack)}/{freshness.driver_started(driver, stack)}"),
    Mutant("restarts-of-a-driver-do-not-count", DoneTooEarlyError, "crashes_again", freshness.load_of,
           lambda original, driver, stack: original(_without_restarts(driver), stack)),
    Mutant("a-pod-that-goes-still-counts", DoneTooEarlyError, "about_to_go", Pod.live,
           lambda original, pod: original(replace(pod, deleting=False))),
    Mutant("the-youngest-revision-is-the-newest", WrongRestartError, "taken_back", fleet._newest,
           lambda original, revisions, owners: original(
               {one.owner_uid: one for one in sorted(revisions, key=lambda one: one.created)}.values(), owners)),
    Mutant("the-driver-daemonsets-image-is-not-compared", WrongRestartError, "operator_lag", fleet._has_version,
           always(True)),
    Mutant("the-operators-rollout-is-not-waited-for", DoneTooEarlyError, "second_render", end.is_rolled_out,
           always(True)),
    Mutant("who-leads-is-not-asked", DoneTooEarlyError, "second_render", end._another_leads, always(False)),
    Mutant("a-side-container-undoes-a-restart", WrongRestartError, "side_probed", nodes._is_successor,
           lambda original, pod, plugin, node: original(pod, plugin, node) and freshness.started_after(
               pod, node.driver.containers_ready_since)),
    Mutant("without-a-policy-nothing-is-unseen", WrongRestartError, "vanishing_policy", fleet._difference,
           lambda original, owner, source, *rest, **how: original(owner, source, *rest, **how) if source else ""),
    Mutant("no-quiet-time", DoneTooEarlyError, "second_render", end._quiet_blocker, always(None)),
    Mutant("a-skipped-node-is-refreshed", WrongRestartError, "skipped", nodes.excluded,
           lambda original, view, context: original(_without_skip(view, context), context)),
    Mutant("a-blip-is-a-lost-node", DoneTooEarlyError, "blips", run._out_of_patience,
           lambda original, status, chosen, timers: original(
               status, replace(chosen, node_timeout=AT_ONCE), timers)),
    Mutant("no-bound-on-restarts", WrongRestartError, "several_at_once", run._budget,
           lambda original, *seen: replace(original(*seen), number=run.UNLIMITED)),
    Mutant("what-people-upgrade-is-waited-for", WrongEndError, "by_hand", fleet._drivers,
           lambda original, *seen: {uid: replace(one, manual="") for uid, one in original(*seen).items()}),
    Mutant("what-people-upgrade-is-never-stale", DoneTooEarlyError, "by_hand_in_place", nodes._with_outdated_driver,
           lambda original, statuses, manual: original(_turn(statuses, NodeState.STALE, NodeState.VERIFIED), manual)),
    Mutant("an-outdated-driver-publishes-the-wanted-version", WrongEndError, "by_hand_in_place", nodes._unproven,
           lambda original, pod, plugin, node: original(
               pod, plugin, replace(node, context=_of_newest_revision(node.driver, node.context)))),
    Mutant("rolling-pods-are-upgraded-by-people", DoneTooEarlyError, "rolling_by_hand", fleet._drivers,
           lambda original, snapshot, *rest: original(_on_delete(snapshot), *rest)),
    Mutant("without-a-policy-there-is-nothing-to-do", DoneTooEarlyError, "vanishing_policy", fleet.context_of,
           lambda original, *args: replace(original(*args), deployed=False)),
    Mutant("without-a-policy-nothing-is-stale", DoneTooEarlyError, "policy_gone", end.policy_withdrawn,
           lambda original, context, _statuses, timers: original(context, (), timers)),
    Mutant("an-orphan-is-no-plugin", DoneTooEarlyError, "orphans", fleet.Plugins.owner_of,
           lambda original, known, pod: original(known, pod) if pod.owner_uid else ""),
    Mutant("a-pod-that-was-there-came-of-a-restart", DoneTooEarlyError, "doubled_plugin", nodes._is_successor,
           lambda original, pod, plugin, node: original(
               pod, plugin, _recorded(node, deleted_at=None, before=frozenset()))),
    Mutant("what-was-not-seen-was-not-there", DoneTooEarlyError, "unseen_plugin", nodes._is_successor,
           lambda original, pod, plugin, node: original(pod, plugin, _recorded(node, deleted_at=None))),
    Mutant("a-side-container-is-the-driver", WrongEndError, "side_bare", freshness.ready_since,
           lambda original, pod, _container: original(pod, "")),
    Mutant("what-was-proven-is-forgotten", WrongRestartError, "side_probed", nodes._evidence,
           lambda original, pod, plugin, node: original(
               pod, plugin, replace(node, memory=replace(node.memory, fresh={})))),
    Mutant("a-rewritten-image-is-another-one", WrongEndError, "rewritten_image", fleet._has_version,
           lambda original, image, policy, *rest: original(image, policy, *rest) and image.startswith(
               f"{policy.driver.repository}/{policy.driver.image}")),
    Mutant("any-tag-is-the-one-that-was-rewritten", WrongRestartError, "rewritten_image", fleet._has_version,
           always(True)),
    Mutant("metadata-is-an-edit", WrongEndError, "touched_policy", end._quiet_blocker,
           lambda original, seen, *rest: original(_counting_writes(seen), *rest)),
    Mutant("a-failed-plugin-keeps-its-place", WrongEndError, "place_given_back", run._given_back, always(0)),
    Mutant("each-failed-plugin-gives-its-place-back", WrongRestartError, "place_given_back", run._given_back,
           lambda _original, away, _memory: run._failed(away)),
    Mutant("patience-has-no-end", WrongEndError, "trouble", run._out_of_patience,
           lambda _original, judged, *_rest: judged),
    Mutant("the-first-failure-ends-it", WrongEndError, "trouble_beside_work", run._failure,
           lambda original, blockers, judged, *rest: original(
               blockers, [one for one in judged if one.state is NodeState.FAILED], *rest)),
    Mutant("no-deadline", WrongEndError, "out_of_time", run._phase,
           lambda original, blockers, statuses, memory, seen, timers: original(
               blockers, statuses, memory, replace(seen, context=_with(seen.context, timeout=YEARS)), timers)),
    Mutant("no-bound-on-what-is-down", WrongRestartError, "taken_down", run._budget,
           lambda original, *seen: replace(original(*seen), share=run.UNLIMITED)),
    Mutant("no-pause", WrongRestartError, "never_well", record.held_until, always(None)),
    Mutant("pauses-do-not-grow", WrongRestartError, "never_well", record._pause,
           lambda original, _count, chosen: original(1, chosen)),
    Mutant("what-failed-is-never-tried-again", WrongEndError, "never_well", record.held_until,
           lambda original, *tried: original(*tried) and NEVER),
    Mutant("a-driver-that-loads-needs-no-taint", WrongTaintError, "crash_in_place", nodes._exposed, always(None)),
    Mutant("a-driver-pod-is-enough-for-a-taint", WrongTaintError, "label_lag", nodes._exposed,
           lambda original, view, *rest: original(view, *rest) or Reason.DRIVER_NOT_READY),
    Mutant("a-controller-has-a-deadline", WrongEndError, "late", run.deadline,
           lambda original, chosen, started: original(of(chosen, controller=False), started)),
)  # fmt: skip
