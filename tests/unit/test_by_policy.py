"""The policy's own status alone: simpler, with a warning of what it cannot see."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.core.by_policy import ANY_NODE, WARNING
from hook.core.memory import Memory
from hook.core.reasons import Reason
from hook.core.verdicts import DeletePod, NodeState, Verdict
from hook.settings import Settings, Strategy, WaitFor, Wanted, WhenAbsent
from tests.fixtures.cluster import LATER, Cluster, cluster
from tests.fixtures.modes import network, pooled, rdma_pod, wants, with_exporter
from tests.fixtures.objects import Object, at, conditions, merged, obj, plugin_pod, running, stamp, waiting

PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
PLAIN = Settings(wait_for=WaitFor.POLICY_READY)
NOT_READY = "status: {state: notReady}"
SINCE = 500
"""When the policy became ready, in seconds after D."""


def by_policy(*nodes: str, started: float = SINCE + 100, found: Cluster | None = None) -> Cluster:
    """Give what this mode reads: policy, DaemonSets and the pods of consumers; no node, driver pod or slice."""
    found = found or cluster(*nodes)
    for part in ("node", "driver-pod", "revision", "slice", "deployment", "replicaset", "lease"):
        found.drop(part)
    found.unserved("slice")
    ready: Object = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(SINCE)}
    found.change("policy", {"status": {"conditions": [ready]}})
    named = [one["spec"]["nodeName"] for one in found.of("plugin-pod")]
    return found.only("plugin-pod", *(plugin_pod(name, started=started, ready=started + 4) for name in named))


@pytest.mark.parametrize(
    ("found", "state", "expected"),
    [
        pytest.param(by_policy(), NodeState.VERIFIED, Reason.VERIFIED, id="started-after-it-was-ready"),
        pytest.param(by_policy(started=SINCE), NodeState.STALE, Reason.PLUGIN_STALE, id="in-the-same-second"),
        pytest.param(by_policy(started=10), NodeState.STALE, Reason.PLUGIN_STALE, id="before-it-was-ready"),
        pytest.param(by_policy().change("policy", NOT_READY), NodeState.WAITING, Reason.POLICY_SAYS_NOT_READY,
                     id="not-ready"),
        pytest.param(by_policy(started=10).change("policy", "status: {state: null}"), NodeState.WAITING,
                     Reason.POLICY_SAYS_NOT_READY, id="never-reconciled"),
        pytest.param(by_policy().put("plugin-pod", merged(plugin_pod(), {"metadata": {
            "deletionTimestamp": stamp(900)}})), NodeState.VERIFYING, Reason.PLUGIN_RESTARTING, id="terminating"),
        pytest.param(by_policy().put("plugin-pod", merged(plugin_pod(ready=None), {"status": {
            "containerStatuses": [waiting("gpus", "PodInitializing")]}})), NodeState.VERIFYING,
            Reason.PLUGIN_STARTING, id="starting"),
        pytest.param(by_policy().put("plugin-pod", merged(plugin_pod(), {"spec": {"containers": []},
                                                                         "status": {"containerStatuses": []}})),
                     NodeState.VERIFYING, Reason.PLUGIN_STARTING, id="without-containers"),
        pytest.param(by_policy().put("plugin-pod", plugin_pod(started=SINCE + 9, ready=None)), NodeState.VERIFYING,
                     Reason.PLUGIN_NOT_READY, id="not-up-yet"),
        pytest.param(by_policy().put("plugin-pod", merged(plugin_pod(), {"status": {"containerStatuses": [
            running("gpus", 3595, restarts=3), running("compute-domains", SINCE + 9)],
            "conditions": conditions(3596)}})), NodeState.VERIFYING,
            Reason.PLUGIN_NOT_READY, id="crashed-a-moment-ago"),
    ],
)  # fmt: skip
def test_a_plugin_is_judged_by_when_the_policy_became_ready(found: Cluster, state: NodeState, expected: Reason) -> None:
    """Nothing else is looked at."""
    judged = found.decide(PLAIN)[0].judgements[0]
    assert (state, expected) == (judged.state, judged.reason)


def test_a_terminating_plugin_is_no_missing_one() -> None:
    """Its successor comes when it is gone: one line in the table, not two."""
    leaving = merged(plugin_pod(), {"metadata": {"deletionTimestamp": stamp(900)}})
    assert [Reason.PLUGIN_RESTARTING] == [
        one.reason for one in by_policy().put("plugin-pod", leaving).decide(PLAIN)[0].judgements
    ]


def test_a_run_ends_once_all_plugins_are_newer_than_the_ready_policy() -> None:
    """Running it again then restarts nothing."""
    decision, memory = by_policy("a", "b", started=10).decide(PLAIN)
    assert ["plugin-a", "plugin-b"] == [one.pod.name for one in decision.actions if isinstance(one, DeletePod)]
    for action in decision.actions:
        assert isinstance(action, DeletePod)
        memory = memory.asked(action.node, action.pod, LATER)
    done, _memory = by_policy("a", "b").decide(PLAIN, memory, LATER + timedelta(seconds=60))
    assert (Verdict.DONE, Reason.REFRESHED) == (done.verdict, done.reason)
    assert Reason.NOTHING_STALE is by_policy("a", "b").decide(PLAIN)[0].reason


@pytest.mark.parametrize("found", [by_policy(), by_policy(started=1), by_policy().change("policy", NOT_READY)],
                         ids=["done", "stale", "waiting"])  # fmt: skip
def test_it_always_says_what_it_cannot_see(found: Cluster) -> None:
    """The deployer must not take this for the whole truth."""
    assert WARNING in found.decide(PLAIN)[0].warnings
    assert WARNING not in cluster().decide()[0].warnings


@pytest.mark.parametrize("found", [
    pytest.param(by_policy(), id="with-plugins"),
    pytest.param(by_policy().drop("plugin-pod").change("daemonset", wants(0)), id="with-plugins-wanted-nowhere"),
    pytest.param(by_policy().drop("plugin-pod").drop("daemonset", PLUGIN), id="without-any-plugin"),
])  # fmt: skip
def test_a_policy_that_is_not_ready_holds_to_the_end(found: Cluster) -> None:
    """Its word is all that there is: no grace makes it ready."""
    settings = Settings(wait_for=WaitFor.POLICY_READY, when_absent=WhenAbsent.WAIT)
    found.change("policy", NOT_READY)
    memory, told = Memory(started=LATER), []
    for minutes in (0, 3, 20):
        decision, memory = found.decide(settings, memory, LATER + timedelta(minutes=minutes))
        told.append(decision.verdict)
    assert [Verdict.WAIT] * 3 == told
    late, _memory = found.decide(settings, memory, LATER + timedelta(minutes=25))
    assert Verdict.DEADLINE is late.verdict


def test_it_claims_nothing_about_nodes() -> None:
    """Without a plugin there is only the policy's word to repeat."""
    settings = Settings(wait_for=WaitFor.POLICY_READY, when_absent=WhenAbsent.WAIT)
    decision, _memory = by_policy().drop("plugin-pod").drop("daemonset", PLUGIN).decide(settings)
    assert Verdict.DONE is decision.verdict
    assert "on every node" not in decision.message


UNREADY: dict[str, Object] = {
    "no-conditions": {"status": {"conditions": None}},
    "not-true": {"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": stamp(SINCE)}]}},
    "another-condition": {
        "status": {"conditions": [{"type": "Error", "status": "True", "lastTransitionTime": stamp(SINCE)}]}
    },
}


@pytest.mark.parametrize("status", UNREADY.values(), ids=UNREADY)
@pytest.mark.parametrize("started", [10, 3500], ids=["old-plugin", "new-plugin"])
def test_a_state_without_a_true_ready_condition_is_not_ready(status: Object, started: float) -> None:
    """Since when it is ready is the whole measure: by the Job's start, every run would restart every plugin."""
    decision, _memory = by_policy(started=started).change("policy", status).decide(PLAIN)
    assert (Verdict.WAIT, [Reason.POLICY_SAYS_NOT_READY], ()) == (
        decision.verdict,
        [one.reason for one in decision.judgements],
        decision.actions,
    )
    assert "says ready, but its Ready condition does not" in decision.judgements[0].message


def test_a_second_run_restarts_nothing_again() -> None:
    """Hours later, with another Job."""
    found = by_policy(started=SINCE + 100)
    for hours in (0, 1, 2):
        now = LATER + timedelta(hours=hours)
        decision, _memory = found.decide(PLAIN, Memory(started=now), now)
        assert (Verdict.DONE, ()) == (decision.verdict, decision.actions)


def test_pools_are_not_read_so_none_is_missed() -> None:
    """Their driver DaemonSets belong to objects that this mode does not see."""
    found = by_policy(found=pooled()).drop("pool")
    decision, _memory = found.decide(PLAIN)
    assert (Verdict.DONE, Reason.NOTHING_STALE) == (decision.verdict, decision.reason)


def test_an_expectation_is_waited_for() -> None:
    """The intent of before is not the one that was asked for, however ready it is."""
    settings = Settings(wait_for=WaitFor.POLICY_READY, expect_driver_version="590.1")
    decision, _memory = by_policy(started=10).decide(settings)
    assert (Verdict.WAIT, Reason.EXPECTATION_UNMET, ()) == (decision.verdict, decision.reason, decision.actions)


def test_no_policy_is_waited_for_where_one_is_expected() -> None:
    """And skipped otherwise."""
    settings = Settings(wait_for=WaitFor.POLICY_READY, expect_driver_version="590.1")
    decision, _memory = by_policy().drop("policy").decide(settings)
    assert (Verdict.WAIT, Reason.POLICY_EXPECTED) == (decision.verdict, decision.reason)
    assert "there is no ClusterPolicy yet" in decision.judgements[0].message
    assert Reason.NO_POLICY is by_policy().drop("policy").decide(PLAIN)[0].reason


def test_a_missing_pod_is_waited_for_on_no_node_in_particular() -> None:
    """Nodes are not read, so nobody knows where it belongs."""
    decision, _memory = by_policy("a", "b").drop("plugin-pod", "plugin-b").decide(PLAIN)
    assert {"a": Reason.VERIFIED, ANY_NODE: Reason.PLUGIN_MISSING} == {
        one.node: one.reason for one in decision.judgements
    }
    assert "fewer pods than the 2 that it wants" in decision.judgements[1].message


def test_a_pod_that_is_over_or_on_no_node_is_not_judged() -> None:
    """Its successor is."""
    found = by_policy("a")
    over = merged(plugin_pod("a", started=1), {"metadata": {"name": "over", "uid": "o"}, "status": {"phase": "Failed"}})
    nowhere = merged(plugin_pod("x", started=1), {"spec": {"nodeName": None}})
    decision, _memory = found.put("plugin-pod", over, nowhere).decide(PLAIN)
    assert ["plugin-a"] == [one.subject.partition("/")[2] for one in decision.judgements]


def test_a_plugin_that_does_not_come_up_needs_a_person() -> None:
    """The same patience as in the full mode."""
    found = by_policy().put("plugin-pod", plugin_pod(started=SINCE + 9, ready=None))
    memory = found.decide(PLAIN, Memory(started=LATER))[1]
    decision, _memory = found.decide(PLAIN, memory, LATER + timedelta(minutes=5))
    assert (Verdict.FAIL, Reason.PLUGIN_NOT_READY) == (decision.verdict, decision.reason)


def test_it_works_by_rollout_and_with_further_consumers() -> None:
    """What is restarted, and how, is another question than by what it is judged."""
    found = with_exporter(by_policy(started=10), 20)
    found.put("plugin-pod", obj("exporter/pod"))
    wanted = (Wanted("gpu", "monitoring", "dcgm-exporter"),)
    settings = Settings(wait_for=WaitFor.POLICY_READY, consumers=wanted, strategy=Strategy.ROLLOUT)
    assert 2 == len(found.decide(settings)[0].actions)


def test_it_works_for_the_network_by_the_drivers_own_state() -> None:
    """``state-OFED`` of the NicClusterPolicy, and its Ready condition where it has one."""
    settings = Settings(stacks=("network",), wait_for=WaitFor.POLICY_READY)
    found = by_policy(found=network()).only("plugin-pod", rdma_pod(started=10))
    assert Reason.PLUGIN_STALE is found.judge(settings).reason
    found.change("policy", "status: {appliedStates: [{name: state-OFED, state: notReady}]}")
    assert Reason.POLICY_SAYS_NOT_READY is found.judge(settings).reason


def test_the_moment_is_the_policys_own() -> None:
    """A restart under a later ready moment is another restart."""
    first = by_policy(started=10).judge(PLAIN).stale_pod
    assert first is not None
    assert f"policy/{at(SINCE).isoformat()}" == first.driver_run
