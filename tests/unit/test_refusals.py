"""Plugins that must not be restarted, or cannot be: untolerated taints and refused deletions."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from hook.config import Settings
from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, NodeState, Phase
from hook.objects import readers, views
from tests.fixtures.cluster import LATER, Cluster, cluster, reasons, stale
from tests.fixtures.objects import obj, parsed, plugin_pod, running

if TYPE_CHECKING:
    from datetime import datetime

    from hook.decide.state import Memory

PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
DENIED = "ValidatingAdmissionPolicy 'frozen' denied the request: not on Fridays"


def tainted(found: Cluster, taint: str, node: str = "gpu-0") -> Cluster:
    """Put a taint on a node."""
    return found.change("node", f"spec: {{taints: [{taint}]}}", node)


def tolerating(found: Cluster, *tolerations: str) -> Cluster:
    """Let the plugin's pods tolerate taints."""
    return found.change(
        "daemonset", f"spec: {{template: {{spec: {{tolerations: [{', '.join(tolerations)}]}}}}}}", PLUGIN
    )


@pytest.mark.parametrize(
    ("taint", "toleration", "expected"),
    [
        pytest.param("{key: a, effect: NoSchedule}", "{key: a, operator: Exists}", True, id="exists"),
        pytest.param("{key: a, value: x, effect: NoExecute}", "{key: a, operator: Exists}", True, id="any-value"),
        pytest.param("{key: a, effect: NoSchedule}", "{operator: Exists}", True, id="exists-tolerates-all"),
        pytest.param("{key: a, effect: NoSchedule}", "{key: b, operator: Exists}", False, id="another-key"),
        pytest.param("{key: a, value: x, effect: NoSchedule}", "{key: a, value: x}", True, id="equal-by-default"),
        pytest.param("{key: a, value: x, effect: NoSchedule}", "{key: a, operator: Equal, value: x}", True, id="equal"),
        pytest.param("{key: a, value: x, effect: NoSchedule}", "{key: a, operator: Equal, value: y}", False,
                     id="another-value"),
        pytest.param("{key: a, effect: NoSchedule}", "{key: a, operator: Equal}", True, id="equal-without-a-value"),
        pytest.param("{key: a, effect: NoSchedule}", "{operator: Equal}", False, id="equal-needs-a-key"),
        pytest.param("{key: a, value: '9', effect: NoSchedule}", "{key: a, operator: Gt, value: '1'}", False,
                     id="an-operator-of-another-version"),
        pytest.param("{key: a, effect: NoSchedule}", "{key: a, operator: Exists, effect: NoSchedule}", True,
                     id="that-effect"),
        pytest.param("{key: a, effect: NoExecute}", "{key: a, operator: Exists, effect: NoSchedule}", False,
                     id="another-effect"),
        pytest.param("{key: a, effect: NoExecute}", "{operator: Exists, effect: NoSchedule}", False,
                     id="all-of-another-effect"),
    ],
)  # fmt: skip
def test_a_toleration_is_read_as_the_scheduler_does(taint: str, toleration: str, expected: bool) -> None:
    """By key, operator, value and effect; what this version does not know tolerates nothing."""
    (seen,) = readers.node(obj("node", f"spec: {{taints: [{taint}]}}")).taints
    template = f"spec: {{template: {{spec: {{tolerations: [{toleration}]}}}}}}"
    (given,) = readers.daemonset(obj("plugin-daemonset", template)).tolerations
    assert expected == given.tolerates(seen)


def test_only_taints_that_keep_the_plugin_off_are_kept() -> None:
    """Preferences do not, and those of a node's own condition are tolerated by DaemonSets."""
    taints = [
        "{key: mine, value: x, effect: NoSchedule}",
        "{key: mine, effect: NoExecute}",
        "{key: mine, effect: PreferNoSchedule}",
        "{key: node.kubernetes.io/unschedulable, effect: NoSchedule}",
        "{key: node.kubernetes.io/disk-pressure, effect: NoSchedule}",
    ]
    found = readers.node(obj("node", f"spec: {{taints: [{', '.join(taints)}]}}"))
    assert (views.Taint("mine", "x", "NoSchedule"), views.Taint("mine", "", "NoExecute")) == found.taints


HALF_RUNNING = {"status": {"containerStatuses": [running("compute-domains", -499)]}}
CORDON = "{key: node.kubernetes.io/unschedulable, effect: NoSchedule}"
MINE = "{key: mine, effect: NoSchedule}"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(tainted(stale(), MINE), Reason.TAINT_NOT_TOLERATED, id="stale"),
        pytest.param(tainted(stale().change("plugin-pod", HALF_RUNNING), MINE), Reason.TAINT_NOT_TOLERATED,
                     id="half-running"),
        pytest.param(tolerating(tainted(stale(), MINE), "{key: other, operator: Exists}"), Reason.TAINT_NOT_TOLERATED,
                     id="tolerating-another-one"),
        pytest.param(tolerating(tainted(stale(), f"{MINE}, {{key: b, effect: NoExecute}}"), "{key: mine}"),
                     Reason.TAINT_NOT_TOLERATED, id="tolerating-one-of-two"),
        pytest.param(tolerating(tainted(stale(), MINE), "{key: b}", "{key: mine}"), Reason.PLUGIN_STALE,
                     id="tolerated"),
        pytest.param(tainted(stale(), CORDON), Reason.PLUGIN_STALE, id="cordoned"),
        pytest.param(tainted(stale(), "{key: mine, effect: PreferNoSchedule}"), Reason.PLUGIN_STALE, id="preferred"),
        pytest.param(tainted(cluster(), MINE), Reason.VERIFIED, id="fresh"),
    ],
)  # fmt: skip
def test_a_stale_plugin_that_would_not_come_back_is_not_deleted(found: Cluster, expected: Reason) -> None:
    """A stale plugin serves somehow; none at all serves nobody."""
    decision, _memory = found.decide()
    (judged,) = decision.statuses
    assert (expected, expected is Reason.PLUGIN_STALE) == (judged.reason, len(decision.actions) == 1)


def test_the_others_are_served_beside_a_tainted_node() -> None:
    """Taints come and go; when it stays for the plugin's timeout, the failure is said."""
    found = tainted(stale("a", "b"), MINE, "b")
    first, memory = found.decide()
    served = tainted(stale("a", "b").put("plugin-pod", *cluster("a").of("plugin-pod")), MINE, "b")
    early, memory = served.decide(memory=memory, now=soon(299))
    late, _memory = served.decide(memory=memory, now=soon(300))
    assert (Phase.WAIT, ["a"]) == (first.phase, deleted(first))
    assert (Phase.WAIT, []) == (early.phase, deleted(early))
    assert (Phase.FAIL, Reason.TAINT_NOT_TOLERATED, []) == (late.phase, late.reason, deleted(late))


def test_a_taint_that_goes_away_makes_its_node_served() -> None:
    """An autoscaler changed its mind, or a new node was initialised."""
    memory = tainted(stale(), MINE).decide()[1]
    assert ["gpu-0"] == deleted(stale().decide(memory=memory, now=soon(200))[0])


def deleted(decision: Decision) -> list[str]:
    """Give the nodes on which the program now deletes a plugin pod."""
    return [one.node for one in decision.actions if isinstance(one, DeletePod)]


def refused(found: Cluster, node: str) -> Memory:
    """Give the memory of a run whose deletion on a node was refused at LATER."""
    decision, memory = found.decide()
    (pod,) = [one.pod for one in decision.actions if isinstance(one, DeletePod) and one.node == node]
    return memory.asked(node, pod, LATER, refused=DENIED)


def soon(seconds: float = 5) -> datetime:
    """Give the moment so long after LATER."""
    return LATER + timedelta(seconds=seconds)


@pytest.mark.parametrize("seconds", [pytest.param(1, id="at-once"), pytest.param(60, id="a-minute-later")])
def test_a_refused_deletion_needs_a_person_and_is_not_asked_again(seconds: float) -> None:
    """An admission policy decides by rules that do not change by asking; the others are served."""
    found = stale("a", "b")
    decision, _memory = found.decide(memory=refused(found, "a"), now=soon(seconds))
    assert (Phase.WAIT, ["b"]) == (decision.phase, deleted(decision))
    assert ["RestartRefused", "PluginStale"] == reasons(decision.statuses)
    assert (NodeState.FAILED, True) == (decision.statuses[0].state, DENIED in decision.statuses[0].message)


def test_a_refusal_is_what_the_run_ends_with_in_the_servers_words() -> None:
    """Once the others are served."""
    memory = refused(stale("a", "b"), "a")
    found = stale("a", "b").put("plugin-pod", *cluster("b").of("plugin-pod"))
    decision, _memory = found.decide(memory=memory, now=soon())
    assert (Phase.FAIL, Reason.RESTART_REFUSED, True) == (
        decision.phase,
        decision.reason,
        DENIED in decision.message,
    )


def test_a_deletion_that_fails_is_asked_for_again_and_its_trouble_is_told() -> None:
    """A webhook that is out of reach: the run goes on trying, and if it ends so, its report names the cause.

    What failed last comes last: each try takes seconds, after which everything is decided anew.
    """
    decision, memory = stale("a", "b").decide()
    pods = {one.node: one.pod for one in decision.actions if isinstance(one, DeletePod)}
    memory = memory.troubled(pods["a"], "no webhook answers")
    decision, _memory = stale("a", "b").decide(memory=memory, now=soon())
    assert [True, False] == ["no webhook answers" in one.message for one in decision.statuses]
    assert ["b", "a"] == deleted(decision)
    both = memory.troubled(pods["b"], "nor here").troubled(pods["a"], "still none answers")
    assert ["b", "a"] == deleted(stale("a", "b").decide(memory=both, now=soon())[0])
    asked = memory.asked("a", pods["a"], LATER)
    decision, _memory = stale("a", "b").decide(memory=asked, now=soon())
    assert "no webhook answers" not in decision.statuses[0].message


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(stale("a", "b"), id="it-runs-on"),
        pytest.param(stale("a", "b").put("plugin-pod", plugin_pod("a", ready=None)), id="somebody-else-restarted-it"),
    ],
)
def test_a_refused_deletion_takes_no_place(found: Cluster) -> None:
    """Nothing is down because of us."""
    memory = refused(stale("a", "b"), "a")
    decision, _memory = found.decide(Settings(max_parallel_restarts=1), memory, soon())
    assert ["b"] == deleted(decision)


def test_a_plugin_that_went_without_us_need_not_come_back() -> None:
    """Its deletion was refused; somebody else took the node out of the DaemonSet's reach."""
    gone = cluster("a", "b").drop("plugin-pod", "plugin-a")
    gone.change("daemonset", "status: {desiredNumberScheduled: 1}", PLUGIN)
    decision, _memory = gone.decide(memory=refused(stale("a", "b"), "a"), now=soon())
    assert ["NothingToRefresh", "Verified"] == reasons(decision.statuses)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda found: found, [], id="same-pod-same-driver"),
        pytest.param(lambda found: found.put("plugin-pod", *cluster("a").of("plugin-pod")), [], id="went-by-itself"),
        pytest.param(lambda found: found.change("driver-pod", parsed("metadata: {uid: next}"), "driver-a"), ["a"],
                     id="stale-under-another-driver"),
    ],
)  # fmt: skip
def test_a_refusal_holds_for_the_pod_and_the_driver_run_that_it_was_about(change: object, expected: list[str]) -> None:
    """Another driver run is another reason to restart, and is asked for anew."""
    assert callable(change)
    decision, _memory = change(stale("a")).decide(Settings(), refused(stale("a"), "a"), soon())
    assert expected == deleted(decision)
