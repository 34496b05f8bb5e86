"""Several driver stacks in one run, and the one that waits for the other where the policy asks for both."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from hook.config import DriverClient, Expect, OnMissingPlugin, Rbac, Settings, Strategy
from hook.decide import decide as together
from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, Phase, RolloutRestart
from tests.fixtures.cluster import LATER, Cluster, cluster, stale, without_operator
from tests.fixtures.modes import Pool, network, ofed_pod, pooled, rdma_pod, with_exporter, with_ofed
from tests.fixtures.objects import Object, conditions

if TYPE_CHECKING:
    from hook.decide.decide import Memories

BOTH = Settings(drivers=("gpu", "network"))
PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
NIC_STATE = "nvidia.com/ofed-driver-upgrade-state"
WAIT = "network.nvidia.com/operator.mofed.wait"


def decide(
    gpu: Cluster, nic: Cluster, settings: Settings = BOTH, memories: Memories | None = None, seconds: float = 0
) -> tuple[Decision, Memories]:
    """Decide about both stacks."""
    seen = {"gpu": gpu.seen(), "network": nic.seen()}
    return together.decide_all(seen, memories or {}, settings, LATER + timedelta(seconds=seconds))


def stale_network(*nodes: str) -> Cluster:
    """Give a network stack with a stale plugin on each node."""
    return network(*nodes).put("plugin-pod", *(rdma_pod(name, started=-99) for name in nodes or ("nic-0",)))


GONE = without_operator(cluster())
GONE_NETWORK = without_operator(network())


@pytest.mark.parametrize(
    ("gpu", "nic", "phase", "reason", "speaker"),
    [
        pytest.param(cluster(), network(), Phase.DONE, Reason.NOTHING_STALE, "gpu", id="both-done"),
        pytest.param(cluster(), stale_network(), Phase.WAIT, Reason.NODES_PENDING, "network", id="one-still-waits"),
        pytest.param(stale(), network(), Phase.WAIT, Reason.NODES_PENDING, "gpu", id="the-other-still-waits"),
        pytest.param(cluster(), GONE_NETWORK, Phase.DONE, Reason.NOTHING_STALE, "gpu",
                     id="done-beside-skipped"),
        pytest.param(GONE, GONE_NETWORK, Phase.SKIP, Reason.NO_POLICY, "gpu", id="both-skipped"),
        pytest.param(cluster().put("daemonset", *stale().of("daemonset")).change(
            "daemonset", "metadata: {name: mine-kubelet-plugin}", PLUGIN), network(), Phase.FAIL,
            Reason.UNNAMED_PLUGIN, "gpu", id="one-needs-a-person"),
        pytest.param(cluster().change("daemonset", "metadata: {name: mine-kubelet-plugin}", PLUGIN), stale_network(),
                     Phase.WAIT, Reason.NODES_PENDING, "network", id="a-person-is-called-when-the-other-is-served"),
    ],
)  # fmt: skip
def test_the_most_telling_verdict_speaks_for_all(
    gpu: Cluster, nic: Cluster, phase: Phase, reason: Reason, speaker: str
) -> None:
    """The message tells of each stack, the speaker first."""
    decision, _memories = decide(gpu, nic)
    assert (phase, reason, speaker) == (decision.phase, decision.reason, decision.stack)
    first, second = decision.message.split("; ", 1) if decision.message.count("; ") == 1 else (decision.message, "")
    assert first.startswith(f"{speaker}: ")
    assert all(f"{name}: " in f"{first}; {second}" for name in ("gpu", "network"))


def test_each_stack_is_served_at_once() -> None:
    """None waits for another one's nodes; each judgement says whose it is."""
    decision, _memories = decide(stale("a"), stale_network("b"))
    assert [("a", "gpu"), ("b", "network")] == [(one.node, one.stack) for one in decision.statuses]
    assert ["plugin-a", "rdma-b"] == [one.pod.name for one in decision.actions if isinstance(one, DeletePod)]


def test_warnings_say_which_stack_they_are_about() -> None:
    """The same words may be true of one only."""
    gpu = cluster().change("policy", "spec: {driver: {version: null, image: null}}")
    decision, _memories = decide(gpu, network())
    assert decision.warnings
    assert all(one.startswith("gpu: ") for one in decision.warnings)


def test_a_single_stack_is_told_as_it_is() -> None:
    """Nobody who has one stack reads of stacks."""
    seen = {"gpu": stale().seen()}
    decision, memories = together.decide_all(seen, {}, Settings(), LATER)
    assert (stale().decide()[0], {"gpu"}) == (decision, set(memories))


def test_each_stack_has_its_own_memory() -> None:
    """What is noted about one is not taken for the other's."""
    gpu = stale("a")
    decision, memories = decide(gpu, stale_network("a"))
    for action in decision.actions:
        assert isinstance(action, DeletePod)
        memories = {**memories, "gpu": memories["gpu"].asked(action.node, action.pod, LATER)}
        break
    later, _memories = decide(gpu, stale_network("a"), memories=memories, seconds=1)
    assert ["rdma-a"] == [one.pod.name for one in later.actions if isinstance(one, DeletePod)]


def test_a_deadline_is_shared() -> None:
    """Both runs began with the Job."""
    memories = decide(stale(), network())[1]
    late, _memories = decide(stale(), network(), memories=memories, seconds=25 * 60)
    assert (Phase.DEADLINE, Reason.NODES_PENDING, "gpu") == (late.phase, late.cause, late.stack)


def test_a_stack_that_is_named_twice_is_served_once() -> None:
    """Chart values are merged from several files."""
    assert ["network", "gpu"] == [one.name for one in together.chosen(Settings(drivers=("network", "gpu", "network")))]


@pytest.mark.parametrize(
    ("gpu", "nic", "expected"),
    [
        pytest.param(cluster().drop("daemonset"), network().drop("daemonset"), Reason.NO_PLUGIN, id="no-plugin"),
        pytest.param(cluster().drop("daemonset"), network(), None, id="a-plugin-of-one"),
        pytest.param(cluster(), network().drop("daemonset"), None, id="a-plugin-of-the-other"),
        pytest.param(GONE, network().drop("daemonset"), None, id="a-plugin-and-no-policy"),
    ],
)
def test_the_first_look_skips_only_if_every_stack_can_be(gpu: Cluster, nic: Cluster, expected: Reason | None) -> None:
    """Otherwise the rest of the cluster is read: only driver pods tell a missing policy from a missing operator."""
    found = together.look_first({"gpu": gpu.seen(), "network": nic.seen()}, BOTH)
    assert expected == (found.reason if found else None)


def test_holding_for_an_absent_plugin_is_asked_of_each_stack() -> None:
    """One may be settled while the other is not."""
    settings = Settings(drivers=("gpu", "network"), on_missing_plugin=OnMissingPlugin.WAIT)
    gpu = cluster().drop("daemonset", PLUGIN).drop("plugin-pod")
    nic = network().drop("daemonset", "rdma-shared-dp-ds").drop("plugin-pod")
    assert Phase.DONE is decide(gpu, nic, settings)[0].phase
    assert Phase.WAIT is decide(gpu, nic.drop("driver-pod"), settings)[0].phase


def ofed(ready: float | None = 70, **labels: str | None) -> Cluster:
    """Give a stale GPU node whose policy asks for GPUDirect RDMA, over an OFED driver in some state."""
    keys = {"state": NIC_STATE, "wait": WAIT, "skip": "nvidia.com/ofed-driver-upgrade.skip"}
    found = with_ofed(stale(), network("gpu-0").put("driver-pod", ofed_pod("gpu-0", ready=ready)).drop("plugin-pod"))
    return found.change("node", {"metadata": {"labels": {keys[word]: value for word, value in labels.items()}}})


def without_ofed(found: Cluster) -> Cluster:
    """Remove the OFED pods."""
    assert found.prior is not None
    found.prior.drop("driver-pod")
    return found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(ofed(), Reason.PLUGIN_STALE, id="settled"),
        pytest.param(ofed(ready=None), Reason.PRIOR_DRIVER_UNSETTLED, id="loading"),
        pytest.param(ofed(wait="true"), Reason.PRIOR_DRIVER_UNSETTLED, id="the-network-operator-says-wait"),
        pytest.param(without_ofed(ofed(wait="true")), Reason.PRIOR_DRIVER_UNSETTLED, id="between-two-pods"),
        pytest.param(ofed(wait="false"), Reason.PLUGIN_STALE, id="the-network-operator-says-go"),
        pytest.param(ofed(state="upgrade-required"), Reason.PRIOR_DRIVER_UNSETTLED, id="its-turn-comes"),
        pytest.param(ofed(state="uncordon-required"), Reason.PLUGIN_STALE, id="rotated-and-labels-trail"),
        pytest.param(ofed(state="upgrade-failed"), Reason.PLUGIN_STALE, id="failed-but-ready"),
        pytest.param(without_ofed(ofed()), Reason.PLUGIN_STALE, id="no-network-driver-on-this-node"),
        pytest.param(ofed(ready=None).change("policy", "spec: {driver: {rdma: {useHostMofed: true}}}"),
                     Reason.PLUGIN_STALE, id="the-hosts-own-network-driver"),
        pytest.param(ofed(ready=None).change("policy", "spec: {driver: {rdma: {enabled: false}}}"),
                     Reason.PLUGIN_STALE, id="not-asked-for"),
        pytest.param(ofed(ready=None).drop("driver-pod"), Reason.PRIOR_DRIVER_UNSETTLED, id="neither-is-settled"),
    ],
)  # fmt: skip
def test_a_gpu_node_waits_for_its_network_driver_where_the_policy_asks_for_both(
    found: Cluster, expected: Reason
) -> None:
    """GPUDirect RDMA with a containerised network driver; an old one that is left alone is no reason to wait."""
    assert expected is found.judge().reason


def test_two_network_drivers_on_a_node_are_not_settled() -> None:
    """One of them owns the device."""
    found = ofed()
    assert found.prior is not None
    another: Object = {"metadata": {"name": "another", "uid": "another"}}
    found.prior.put("driver-pod", {**ofed_pod("gpu-0"), "metadata": {**ofed_pod("gpu-0")["metadata"],
                                                                    **another["metadata"]}})  # fmt: skip
    assert Reason.PRIOR_DRIVER_UNSETTLED is found.judge().reason


def test_what_it_waits_for_is_said() -> None:
    """The stack by its name, and what is the matter with it."""
    assert "the network driver, which comes first here, is not settled: its pod is not ready" == (
        ofed(ready=None).judge().message
    )
    assert "its upgrade state is upgrade-required" in ofed(state="upgrade-required").judge().message


def test_only_the_pools_that_ask_for_both_wait() -> None:
    """Another pool's GPUs have nothing to do with the network driver of their node."""
    found = pooled(Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",))).change("pool", "spec: {rdma: {enabled: true}}", "a")
    found.prior = (
        network("gpu-a", "gpu-b").drop("plugin-pod").change("driver-pod", {"status": {"conditions": conditions(None)}})
    )
    assert {"gpu-a": Reason.PRIOR_DRIVER_UNSETTLED, "gpu-b": Reason.VERIFIED} == {
        one.node: one.reason for one in found.decide()[0].statuses
    }


def test_an_object_of_a_pool_mode_that_is_off_asks_for_nothing() -> None:
    """The operator ignores it, and so does the run."""
    found = ofed(ready=None).change("policy", "spec: {driver: {rdma: null}}")
    found.put("pool", *pooled(Pool()).change("pool", "spec: {rdma: {enabled: true}}").of("pool"))
    assert Reason.PLUGIN_STALE is found.judge().reason


def test_in_a_run_of_both_the_gpu_node_follows_its_network_driver() -> None:
    """First one, then the other, on the same node."""
    gpu = stale("x").change("policy", "spec: {driver: {rdma: {enabled: true}}}")
    loading = network("x").put("driver-pod", ofed_pod("x", ready=None)).put("plugin-pod", rdma_pod("x", started=-99))
    first, memories = decide(gpu, loading)
    assert [Reason.PRIOR_DRIVER_UNSETTLED, Reason.DRIVER_NOT_READY] == [one.reason for one in first.statuses]
    second, _memories = decide(gpu, stale_network("x"), memories=memories, seconds=60)
    assert [Reason.PLUGIN_STALE, Reason.PLUGIN_STALE] == [one.reason for one in second.statuses]


def scoped(state: str | None) -> Cluster:
    """Give a stale node under an upgrade state, whose network driver is in a namespace that is not read."""
    found = without_ofed(ofed(state=state))
    assert found.prior is not None
    found.prior.drop("daemonset")
    return found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(ofed(state="upgrade-required", skip="true"), Reason.PLUGIN_STALE, id="skipped-for-good"),
        pytest.param(ofed(ready=None, skip="true"), Reason.PRIOR_DRIVER_UNSETTLED, id="skipped-and-loading"),
        pytest.param(ofed(state="upgrade-required", skip="false"), Reason.PRIOR_DRIVER_UNSETTLED, id="not-skipped"),
        pytest.param(scoped("drain-required"), Reason.PRIOR_DRIVER_UNSETTLED, id="draining-for-a-driver-out-of-sight"),
        pytest.param(scoped(None), Reason.PLUGIN_STALE, id="nothing-in-sight"),
    ],
)
def test_its_labels_count_and_so_does_its_skip_label(found: Cluster, expected: Reason) -> None:
    """A skipped node stays ``upgrade-required`` for good; a label is there also where the pods cannot be read."""
    assert expected is found.judge().reason


@pytest.mark.parametrize(("namespaces", "told"), [(("gpu-operator",), True), ((), False)], ids=["scoped", "cluster"])
def test_a_network_driver_out_of_sight_is_told(namespaces: tuple[str, ...], told: bool) -> None:
    """Somebody forgot the network operator's namespace; where all are read, there is none."""
    warnings = scoped(None).decide(Settings(rbac=Rbac(namespaces=namespaces)))[0].warnings
    words = "GPUDirect RDMA is on, but no driver of stack network is visible in gpu-operator"
    assert told == (words in warnings)
    assert words not in ofed().decide(Settings(rbac=Rbac(namespaces=("gpu-operator",))))[0].warnings


def test_an_unreadable_network_driver_is_not_taken_for_none() -> None:
    """Nothing is touched on its node, and nothing is called done."""
    found = ofed()
    assert found.prior is not None
    found.prior.change("driver-pod", "metadata: {resourceVersion: null}")
    decision, _memory = found.decide()
    assert (Phase.WAIT, [Reason.MALFORMED_OBJECT], ()) == (
        decision.phase,
        [one.reason for one in decision.statuses],
        decision.actions,
    )
    fresh = cluster().change("policy", "spec: {driver: {rdma: {enabled: true}}}")
    fresh.prior = found.prior
    assert Phase.WAIT is fresh.decide()[0].phase


AUTO, BY_HAND = ({"spec": {"ofedDriver": {"upgradePolicy": {"autoUpgrade": on}}}} for on in (True, False))


@pytest.mark.parametrize(
    ("policy", "labels", "expected"),
    [
        pytest.param(AUTO, {}, Reason.PRIOR_DRIVER_UNSETTLED, id="about-to-be-rotated"),
        pytest.param(AUTO, {"nvidia.com/ofed-driver-upgrade.skip": "true"}, Reason.PLUGIN_STALE, id="skipped"),
        pytest.param(BY_HAND, {}, Reason.PLUGIN_STALE, id="nobody-rotates-it"),
        pytest.param(None, {}, Reason.PLUGIN_STALE, id="its-policy-is-not-read"),
    ],
)
def test_an_outdated_network_driver_comes_first_although_its_label_is_quiet(
    policy: Object | None, labels: dict[str, str], expected: Reason
) -> None:
    """The label moves up to two minutes late; where it may never, nothing is waited for."""
    nic = network("x").change("driver-pod", "metadata: {labels: {controller-revision-hash: old}}")
    nic = nic.change("policy", policy) if policy else nic.drop("policy")
    gpu = stale("x").change("policy", "spec: {driver: {rdma: {enabled: true}}}")
    decision, _memories = decide(gpu.change("node", {"metadata": {"labels": labels}}), nic)
    assert expected is decision.statuses[0].reason
    waits = expected is Reason.PRIOR_DRIVER_UNSETTLED
    assert waits == ("it is about to be upgraded" in decision.statuses[0].message)


def test_the_stack_that_restarted_something_speaks_for_done() -> None:
    """What people read is what was done."""
    decision, memories = decide(cluster("x"), stale_network("x"))
    (action,) = decision.actions
    assert isinstance(action, DeletePod)
    memories = {**memories, action.stack: memories[action.stack].asked(action.node, action.pod, LATER)}
    done, _memories = decide(cluster("x"), network("x"), memories=memories, seconds=60)
    assert (Phase.DONE, Reason.REFRESHED, "network") == (done.phase, done.reason, done.stack)


SHARED = Settings(
    drivers=("gpu", "network"),
    driver_clients=tuple(DriverClient(stack, "monitoring", "dcgm-exporter") for stack in ("gpu", "network")),
)


def test_a_consumer_of_both_stacks_is_restarted_once_and_remembered_by_both() -> None:
    """If that does not help, it is told by either: nobody restarts it again and again."""
    gpu, nic = with_exporter(cluster("x"), -9), with_exporter(network("x"), -9)
    memories: Memories = {}
    rounds = []
    for number in range(4):
        successor = {"metadata": {"uid": f"exporter-{number}"}}
        for found in (gpu, nic):
            found.change("plugin-pod", successor, "exporter-x")
        decision, memories = decide(gpu, nic, SHARED, memories, seconds=40 * number)
        rounds.append((decision.phase, len(decision.actions)))
        for action in decision.actions:
            for one in (action, *action.also):
                assert isinstance(one, DeletePod)
                memories = {**memories, one.stack: memories[one.stack].asked(one.node, one.pod, LATER)}
    assert [(Phase.WAIT, 1), *[(Phase.FAIL, 0)] * 3] == rounds


def test_a_rollout_that_both_stacks_ask_for_is_one() -> None:
    """Each with the pods that it calls stale."""
    gpu, nic = with_exporter(cluster("x"), -9), with_exporter(network("x"), -9)
    settings = Settings(drivers=SHARED.drivers, driver_clients=SHARED.driver_clients, strategy=Strategy.ROLLOUT)
    (action,) = decide(gpu, nic, settings)[0].actions
    assert isinstance(action, RolloutRestart)
    assert (("gpu",), ("network",)) == ((action.stack,), tuple(one.stack for one in action.also))


@pytest.mark.parametrize("stacks", [("gpu", "network"), ("network", "gpu")], ids=["gpu-first", "gpu-second"])
def test_an_expected_chart_is_that_of_the_stack_that_says_its_chart(stacks: tuple[str, ...]) -> None:
    """Whichever comes first: it is what keeps a run from ending before the operator's own release."""
    settings = Settings(drivers=stacks, expect=Expect(chart_version="v99.0.0"))
    decision, _memories = decide(cluster(), network(), settings)
    assert (Phase.WAIT, Reason.EXPECTATION_UNMET, "gpu") == (decision.phase, decision.reason, decision.stack)
    gone = together.look_first({"gpu": GONE.seen(), "network": network().drop("policy").seen()}, settings)
    assert gone is None
