"""Deliberately broken rules: the program's own source with one line changed, put in place for a while.

A mutant changes the code of functions, not the functions themselves, so whoever imported one runs the
broken rule too. A line that is not there any more is an error: a mutant must not silently become none.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Final

from hook import run, settings
from hook.cluster import requests
from hook.core import (
    asked,
    backoff,
    breaker,
    decide,
    eligibility,
    fleet,
    freshness,
    gates,
    intent,
    nodes,
    operator,
    places,
    plugins,
)
from hook.objects import readers, views
from tests.model.promises import BrokenPromiseError, DoneTooEarlyError, WrongEndError, WrongRestartError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


@dataclass(frozen=True)
class Mutant:
    """One broken rule, and the family of histories that keeps running into it."""

    name: str
    breaks: type[BrokenPromiseError]
    """The promise that it breaks at least."""
    family: str
    module: ModuleType
    line: str
    instead: str

    def source(self) -> str:
        """Give the module's source with the rule broken."""
        source = inspect.getsource(self.module)
        if source.count(self.line) != 1:
            raise LookupError(f"{self.module.__name__} has {source.count(self.line)} times: {self.line}")
        return source.replace(self.line, self.instead)


@contextmanager
def broken(mutant: Mutant) -> Iterator[None]:
    """Let the program run with a broken rule."""
    namespace: dict[str, object] = {"__name__": mutant.module.__name__}
    exec(compile(mutant.source(), str(mutant.module.__file__), "exec"), namespace)  # noqa: S102 - our own source
    good = _functions(vars(mutant.module), mutant.module.__name__)
    bad = _functions(namespace, mutant.module.__name__)
    codes = {name: function.__code__ for name, function in good.items()}
    for name, function in good.items():
        function.__code__ = bad[name].__code__
    try:
        yield
    finally:
        for name, function in good.items():
            function.__code__ = codes[name]


def _functions(namespace: dict[str, object], module: str) -> dict[str, FunctionType]:
    """Return the functions, methods of any kind and properties that a module defines, by qualified name."""
    found: dict[str, FunctionType] = {}
    classes = [one for one in namespace.values() if isinstance(one, type) and one.__module__ == module]
    members = [*namespace.values(), *(member for one in classes for member in vars(one).values())]
    for member in members:
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if (
            isinstance(function, FunctionType)
            and function.__module__ == module
            and "__create_fn__" not in function.__qualname__
        ):
            found[function.__qualname__] = function
    return found


MUTANTS: Final = (
    Mutant("the-policys-ready-settles-a-node", WrongRestartError, "hardly_ready", nodes,
           "    if pod.owner_uid not in fleet.drivers:\n",
           "    if fleet.policy is not None and fleet.policy.state == 'ready':\n        return None\n"
           "    if pod.owner_uid not in fleet.drivers:\n"),
    Mutant("the-policys-ready-is-done", DoneTooEarlyError, "missing_plugin", gates,
           "    if (blind := _blind(fleet, judgements)) is not None:\n        yield blind\n",
           "    if fleet.policy is not None and fleet.policy.state == 'ready':\n        return\n"),
    Mutant("upgrade-done-is-done", DoneTooEarlyError, "label_lag", eligibility,
           "    return newest is None or pod.hash != newest.hash\n",
           "    node = fleet.seen.nodes.get(pod.node)\n"
           "    return node is None or node.labels.get('nvidia.com/gpu-driver-upgrade-state') != 'upgrade-done'\n"),
    Mutant("as-late-as-ready-is-later", DoneTooEarlyError, "second_of_ready", freshness,
           "started > ready:", "started >= ready:"),
    Mutant("as-late-as-started-is-later", DoneTooEarlyError, "second_of_start", freshness,
           "waiter.finished_at > started and", "waiter.finished_at >= started and"),
    Mutant("ready-for-containers-ready", WrongRestartError, "blips", readers,
           'wire.condition(status.conditions, "ContainersReady")', 'wire.condition(status.conditions, "Ready")'),
    Mutant("generation-is-ignored", DoneTooEarlyError, "controller_lag", views,
           "return self.observed_generation == self.generation\n", "return True\n"),
    Mutant("preconditions-are-ignored", WrongRestartError, "stale_watch", requests,
           '    preconditions = {"uid": uid, "resourceVersion": resource_version}\n',
           "    preconditions: dict[str, str] = {}\n"),
    Mutant("a-missing-plugin-is-nothing-to-do", DoneTooEarlyError, "missing_plugin", plugins,
           "    if consumer.uid in fleet.complete:\n", "    if True:\n"),
    Mutant("labels-gone-are-no-gpu", DoneTooEarlyError, "labels", eligibility,
           "    if not running and not fleet.driver_pods.get(name):\n", "    if True:\n"),
    Mutant("one-read-is-enough", DoneTooEarlyError, "stale_watch", run,
           "        if decision.verdict is Verdict.DEADLINE:\n            return decision\n        if self._api",
           "        if True:\n            return decision\n        if self._api"),
    Mutant("the-unloader-is-not-asked", DoneTooEarlyError, "crash_in_place", freshness,
           "    if container.last_finished_at is None:\n        return container.restarts == 0\n",
           "    if True:\n        return True\n"),
    Mutant("the-youngest-container-speaks", DoneTooEarlyError, "crash_in_place", freshness,
           "    started = min(starts)\n", "    started = max(starts)\n"),
    Mutant("an-own-restart-is-forgotten", WrongEndError, "own_restart", plugins,
           "    if asked is None or asked.refused:\n        return False\n", "    if True:\n        return False\n"),
    Mutant("runs-of-one-second-are-one", DoneTooEarlyError, "crashes_again", freshness,
           "{container.started_at.isoformat()}/{container.restarts}", "{container.started_at.isoformat()}"),
    Mutant("a-pod-that-goes-still-counts", DoneTooEarlyError, "about_to_go", views,
           "        return not self.deleting and not self.ended\n", "        return not self.ended\n"),
    Mutant("the-youngest-revision-is-the-newest", WrongRestartError, "taken_back", fleet,
           "revision.revision > best.revision", "revision.created > best.created"),
    Mutant("the-driver-daemonsets-image-is-not-compared", WrongRestartError, "operator_lag", intent,
           "    if not _shows(image, policy, stack) and not rewritten(daemonset, policy, stack):\n", "    if False:\n"),
    Mutant("the-operators-rollout-is-not-waited-for", DoneTooEarlyError, "second_render", operator,
           "    if not deployment.rolled_out:\n", "    if False:\n"),
    Mutant("who-leads-is-not-asked", DoneTooEarlyError, "second_render", operator,
           "not deployment.named_by_host and not lease.holder.startswith", "False and not lease.holder.startswith"),
    Mutant("a-side-container-undoes-a-restart", WrongEndError, "side_probed", plugins,
           "    if not evidence.same_second and not _started_after(pod, asked.driver_ready):\n",
           "    if not evidence.same_second:\n"),
    Mutant("without-a-policy-nothing-is-unseen", WrongRestartError, "vanishing_policy", fleet,
           "in reasons if reason}", "in reasons if reason and uid in intents}"),
    Mutant("patience-ends-only-with-a-policy", WrongEndError, "by_hand", decide,
           "policy_gone(fleet, patient, timers)", "policy_gone(fleet, judged, timers)"),
    Mutant("no-quiet-time", DoneTooEarlyError, "second_render", operator,
           "    if last is None or unchanged >= quiet or", "    if True or unchanged >= quiet or"),
    Mutant("an-edit-is-quiet-at-once", DoneTooEarlyError, "second_render", operator,
           "    moments.extend(one.changed for one in intents if one.changed is not None)\n", ""),
    Mutant("a-skipped-node-is-served", WrongRestartError, "skipped", eligibility,
           '    if node.labels.get(fleet.stack.upgrade.skip) == "true":\n', "    if False:\n"),
    Mutant("a-blip-is-a-lost-node", DoneTooEarlyError, "blips", eligibility,
           "    if node.ready_since is not None and now - node.ready_since >= fleet.settings.not_ready_grace:\n",
           "    if node.ready_since is not None:\n"),
    Mutant("no-bound-on-restarts", WrongRestartError, "several_at_once", places,
           "        ours = self.ours is None or self.ours > 0\n", "        ours = True\n"),
    Mutant("what-people-upgrade-is-waited-for", WrongEndError, "by_hand", eligibility,
           "    if intent is None or not intent.manual:\n", "    if True:\n"),
    Mutant("what-people-upgrade-is-never-stale", DoneTooEarlyError, "by_hand_in_place", nodes,
           "        if any(one.state is not NodeState.VERIFIED for one in judged):\n", "        if False:\n"),
    Mutant("an-outdated-driver-publishes-the-wanted-version", WrongEndError, "by_hand_in_place", plugins,
           "    if outdated(driver, fleet):  # loaded", "    if False:  # loaded"),
    Mutant("rolling-pods-are-upgraded-by-people", DoneTooEarlyError, "rolling_by_hand", eligibility,
           " or (owner is not None and owner.rolling):\n", ":\n"),
    Mutant("without-a-policy-there-is-nothing-to-do", DoneTooEarlyError, "vanishing_policy", gates,
           "    if _is_awaited(fleet) or _is_deployed(fleet):\n", "    if _is_awaited(fleet):\n"),
    Mutant("a-policy-that-is-gone-never-returns", DoneTooEarlyError, "policy_gone", gates,
           '    lasting = timers.held("policy-gone") >= fleet.settings.policy_grace\n', "    lasting = True\n"),
    Mutant("without-a-policy-nothing-is-stale", DoneTooEarlyError, "policy_gone", gates,
           "    if not lasting or (sees_nodes and any(one.state not in TERMINAL for one in judgements)):\n",
           "    if not lasting:\n"),
    Mutant("an-orphan-is-no-plugin", DoneTooEarlyError, "orphans", fleet,
           "        heir = next((ds for ds in heirs if ds.selects(pod.labels)), None)\n", "        heir = None\n"),
    Mutant("two-pods-are-on-two-nodes", DoneTooEarlyError, "doubled_plugin", fleet,
           "    there = {(pod.owner_uid, pod.node) for", "    there = {(pod.owner_uid, pod.uid) for"),
    Mutant("a-pod-that-was-there-came-of-a-restart", WrongEndError, "doubled_plugin", asked,
           "    return stale.uid in asked.others or (", "    return ("),
    Mutant("a-side-container-is-the-driver", WrongEndError, "side_bare", freshness,
           "    named = [one for one in pod.containers if one.name == container] or pod.containers\n",
           "    named = pod.containers\n"),
    Mutant("what-was-proven-is-forgotten", WrongRestartError, "side_probed", plugins,
           "    if fleet.fresh.get(pod.uid) == run:\n", "    if False:\n"),
    Mutant("a-rewritten-image-is-another-one", WrongEndError, "rewritten_image", intent,
           "    if not _shows(image, policy, stack) and not rewritten(daemonset, policy, stack):\n",
           "    if not _shows(image, policy, stack):\n"),
    Mutant("any-tag-is-the-one-that-was-rewritten", WrongRestartError, "rewritten_image", intent,
           ':{_tag(policy, stack)}", named) is not None\n', ':.*", named) is not None\n'),
    Mutant("metadata-is-an-edit", WrongEndError, "touched_policy", operator,
           '    state = f"{led}/{rollout}/', '    state = f"{last}/{rollout}/'),
    Mutant("a-failed-plugin-keeps-its-place", WrongEndError, "place_given_back", places,
           " + min(failed, 1) if limit", " if limit"),
    Mutant("each-failed-plugin-gives-its-place-back", WrongRestartError, "place_given_back", places,
           " + min(failed, 1) if limit", " + failed if limit"),
    Mutant("patience-has-no-end", WrongEndError, "trouble", decide,
           "    if held < grace:\n", "    if True:\n"),
    Mutant("no-patience", WrongEndError, "trouble", decide,
           "    if held < grace:\n", "    if False:\n"),
    Mutant("the-first-failure-ends-it", WrongEndError, "trouble_beside_work", decide,
           "    if moving or (others and", "    if False and (others and"),
    Mutant("no-deadline", WrongEndError, "out_of_time", decide,
           "    if now >= settings.deadline(progress.started):\n", "    if False:\n"),
    Mutant("time-up-is-success", WrongEndError, "out_of_time", decide,
           "        return settings.on_deadline is OnDeadline.REPORT\n", "        return True\n"),
    Mutant("no-bound-on-what-is-down", WrongRestartError, "taken_down", places,
           "return ours and (not serving or self.anyones is None or self.anyones > 0)\n", "return ours\n"),
    Mutant("what-others-took-down-is-up", WrongRestartError, "taken_down", places,
           "    return judged.state is NodeState.RESTARTING or Trait.PLUGIN_DOWN in judged.reason.traits\n",
           "    return judged.state is NodeState.RESTARTING\n"),
    Mutant("no-pause", WrongRestartError, "lies", backoff,
           "    if _served(before, pod) or _the_same(before, pod):\n", "    if True:\n"),
    Mutant("pauses-do-not-grow", WrongRestartError, "lies", backoff,
           "2 ** min(count - 1, MOST_DOUBLINGS)", "1"),
    Mutant("tries-are-not-counted", WrongRestartError, "lies", backoff,
           " else before.tries + 1\n", " else before.tries\n"),
    Mutant("what-failed-is-never-tried-again", WrongEndError, "lies", asked,
           "    if now >= until:\n", "    if False:\n"),
    Mutant("no-breaker", WrongRestartError, "jumps", breaker,
           "    if breaker.opened_at is not None or not _is_crowd(", "    if True or not _is_crowd("),
    Mutant("suspects-are-served-at-once", WrongRestartError, "jumps", breaker,
           "    return turned is not None and now - turned <= WITHIN\n", "    return False\n"),
    Mutant("an-open-breaker-holds-nothing", WrongRestartError, "jumps", decide,
           " and not too_early and not stopped\n", " and not too_early\n"),
    Mutant("a-breaker-never-closes", WrongEndError, "jumps", breaker,
           "    return breaker.closed(now) if over or", "    return breaker.closed(now) if False or"),
    Mutant("a-reload-is-suspect", WrongEndError, "all_at_once", breaker,
           "    return now if before.load == sight.load and not before.stale else None\n",
           "    return now if not before.stale else None\n"),
    Mutant("a-crash-in-place-is-suspect", WrongEndError, "all_at_once", freshness,
           '    told = [f"{driver.uid}/{container.restarts if container is not None else 0}"]\n',
           "    told = [driver.uid]\n"),
    Mutant("a-follower-has-a-deadline", WrongEndError, "late", settings,
           "        if self.follow:\n", "        if False:\n"),
    Mutant("a-follower-stalls", WrongEndError, "late", decide,
           "    if settings.stall_timeout and not settings.follow and now", "    if settings.stall_timeout and now"),
)  # fmt: skip
