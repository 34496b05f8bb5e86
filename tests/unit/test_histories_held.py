"""More histories of a cluster: those in which a promise was broken once, then those in which all promises held."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.config import Settings, Strategy
from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, Phase, RolloutRestart
from hook.decide.state import Memory
from tests.fixtures.cluster import LATER, Cluster, cluster, not_ready_since, reasons, stale, stale_plugin
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import network, ofed_pod, with_ofed
from tests.fixtures.objects import (
    Object,
    R,
    conditions,
    driver_pod,
    merged,
    obj,
    parsed,
    plugin_pod,
    running,
    stamp,
    waiting,
)

OUTDATED: Object = parsed("metadata: {labels: {controller-revision-hash: old}}")
FOLLOW = FOLLOWING
DELETING = "metadata: {deletionTimestamp: '2026-01-01T10:59:59Z'}"
DRIVER = "nvidia-driver-daemonset"
PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"


def restarted(decision: Decision) -> list[str]:
    """Return the pods that a decision restarts."""
    return [one.pod.name for one in decision.actions if isinstance(one, DeletePod)]


def asked(memory: Memory, decision: Decision, found: Cluster, seconds: float = 0) -> Memory:
    """Return the memory of a run that executed a decision; the pods are gone."""
    for one in decision.actions:
        assert isinstance(one, DeletePod)
        memory = memory.asked(one.node, one.pod, LATER + timedelta(seconds=seconds))
        found.drop("plugin-pod", one.pod.name)
    return memory


def named(pod: Object, name: str) -> Object:
    """Return a pod under a name, and a UID, of its own."""
    whole: Object = merged(pod, {"metadata": {"name": name, "uid": name}})
    return whole


# Broken once: early or needless restarts.


def by_hand() -> Cluster:
    """Return a fresh node whose outdated driver only an administrator replaces."""
    found = cluster().change("policy", "spec: {driver: {upgradePolicy: {autoUpgrade: false}}}")
    return found.put("driver-pod", merged(driver_pod(), OUTDATED))


def flapped(moment: float) -> Object:
    """Return a driver pod whose side container crashed, so that ContainersReady moved."""
    moved = driver_pod(ready=moment)
    moved["status"]["containerStatuses"].append(running("nvidia-peermem-ctr", moment - 5, restarts=1))
    return moved


def test_what_is_fresh_next_to_an_outdated_driver_stays_fresh() -> None:
    """A side container that crashes on such a node moves ContainersReady as on any other."""
    found = by_hand().put("plugin-pod", plugin_pod(waited=None))
    _decision, memory = found.decide()
    found.put("driver-pod", merged(flapped(900), OUTDATED))
    decision, _memory = found.decide(memory=memory)
    assert (Phase.DONE, []) == (decision.phase, restarted(decision))
    assert ["plugin-gpu-0"] == restarted(found.decide()[0])


def test_each_crash_of_an_outdated_driver_is_followed_at_once() -> None:
    """The plugin was verified after the crash before, so no pause holds the next restart back."""
    found, memory = by_hand(), Memory(started=LATER)
    for count in (1, 2, 3, 4):
        began, now = 1000 * count, LATER + timedelta(minutes=2 * count)
        crashed = driver_pod(started=began, ready=began + R, restarts=count, ended_before=began - 1)
        found.put("driver-pod", merged(crashed, OUTDATED))
        decision, memory = found.decide(FOLLOW, memory, now)
        memory = asked(memory, decision, found, 120 * count)
        assert [1] == [one.tries for one in memory.restarts.values()]
        found.put("plugin-pod", named(plugin_pod(waited=began + 80, started=began + 81), f"next-{count}"))
        decision, memory = found.decide(FOLLOW, memory, now + timedelta(minutes=1))
        assert Phase.DONE is decision.phase


def test_what_came_of_a_restart_is_not_doubted_after_the_restart_of_another_pod() -> None:
    """Two stale pods are on one node; the first one's successor starts in the second in which the driver is ready."""
    found = cluster().only("plugin-pod", named(stale_plugin(), "first"), named(stale_plugin(), "second"))
    decision, memory = found.decide()
    memory = asked(memory, decision, found)
    found.put("plugin-pod", named(plugin_pod(waited=None, started=R), "successor"))
    decision, memory = found.decide(memory=memory)
    assert ["second"] == restarted(decision)
    decision, memory = found.decide(memory=asked(memory, decision, found))
    assert (Phase.DONE, []) == (decision.phase, restarted(decision))


def test_a_restart_that_did_not_help_is_not_repeated_for_the_pod_next_to_it() -> None:
    """Two stale pods are on one node, and by its clock each successor is stale, too."""
    found = cluster().only("plugin-pod", named(stale_plugin(), "first"), named(stale_plugin(), "second"))
    memory, gone = Memory(started=LATER), []
    for count in range(4):
        decision, memory = found.decide(memory=memory)
        gone += restarted(decision)
        memory = asked(memory, decision, found)
        if "first" in gone:
            found.put("plugin-pod", named(stale_plugin(), f"successor-{min(count, 1)}"))
    assert (["first", "second"], Reason.RESTART_DID_NOT_HELP) == (gone, decision.reason)


def test_what_came_of_a_restart_is_fresh_although_the_driver_was_ready_anew() -> None:
    """A kubelet that restarts meanwhile moves ContainersReady of a driver that runs on."""
    found = cluster().only("plugin-pod", stale_plugin())
    decision, memory = found.decide()
    memory = asked(memory, decision, found)
    found.put("driver-pod", driver_pod(ready=900))
    for started, phase in ((R + 100, Phase.DONE), (R - 1, Phase.FAIL)):
        found.only("plugin-pod", named(plugin_pod(waited=None, started=started), "successor"))
        assert phase is found.decide(memory=memory)[0].phase
    found.put("driver-pod", driver_pod(started=800, ready=900, restarts=1))
    found.only("plugin-pod", named(plugin_pod(waited=None, started=R + 100), "successor"))
    assert ["successor"] == restarted(found.decide(memory=memory)[0])


# Broken once: done too early.


@pytest.mark.parametrize("elected", ["hostNetwork", "no leader election"])
def test_an_operator_that_has_just_been_replaced_may_render_again(elected: str) -> None:
    """No Lease names the new pod: there is none, or it still names the host on which the old one led."""
    found = cluster()
    if elected == "hostNetwork":
        found.change("deployment", "spec: {template: {spec: {hostNetwork: true}}}")
        found.change("lease", "spec: {holderIdentity: node-7_0f3c}")
    else:
        found.drop("lease")
    assert Phase.DONE is found.decide()[0].phase
    found.change("deployment", progressing(3600 - 59))
    assert Reason.OPERATOR_SETTLING is found.decide()[0].reason
    found.change("deployment", progressing(3600 - 60))
    assert Phase.DONE is found.decide()[0].phase


def progressing(seconds: float) -> Object:
    """Return a patch of a Deployment whose last rollout completed at a moment."""
    done: Object = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
    return {"status": {"conditions": [{**done, "lastUpdateTime": stamp(seconds)}]}}


def test_an_operator_that_was_left_behind_at_zero_does_not_speak_for_the_other() -> None:
    """A release under another name was scaled to zero, and sorts first; the one that runs is being replaced."""
    found = cluster().change("deployment", "status: {updatedReplicas: 0}")
    none: Object = {"replicas": 0, "updatedReplicas": 0, "availableReplicas": 0}
    left = {"metadata": {"name": "a-gpu-operator", "uid": "left"}, "spec": {"replicas": 0}, "status": none}
    found.put("deployment", obj("deployment", left))
    assert Reason.OPERATOR_ROLLING_OUT is found.decide()[0].reason


# Broken once: never done, or the wrong end.


@pytest.mark.parametrize(("length", "reason"), [(46, Reason.NOTHING_STALE), (47, Reason.OPERATOR_SETTLING)])
def test_an_operator_with_a_long_name_leads(length: int, reason: Reason) -> None:
    """The network operator's Deployment is named after its release; the API server cuts off long names of pods."""
    name = "a" * length + "-5ddc6f64ff"
    found = network().change("replicaset", {"metadata": {"name": name}})
    holder = f"{name}-"[:58] + "x7k2p_0e3f"
    found.change("lease", {"spec": {"holderIdentity": holder, "acquireTime": stamp(3600 - 20)}})
    assert reason is found.decide()[0].reason
    found.change("lease", {"spec": {"acquireTime": stamp(0)}})
    assert Phase.DONE is found.decide()[0].phase
    found.change("lease", {"spec": {"holderIdentity": "b" + holder}})
    assert Reason.OPERATOR_NOT_LEADING is found.decide()[0].reason


def test_a_pod_that_terminates_on_a_dead_node_is_not_missing_on_another() -> None:
    """An update of the plugin left it there; a third node gets no plugin, by the DaemonSet's nodeSelector."""
    for kept in (2, 1):
        # The DaemonSet still wants a pod on the dead node, or not: its labels were removed.
        count: Object = {"desiredNumberScheduled": kept, "updatedNumberScheduled": 1, "numberMisscheduled": 2 - kept}
        found = cluster("dead", "without", "well").change("daemonset", {"status": count}, PLUGIN)
        found.change("node", not_ready_since(0), "dead").change("plugin-pod", DELETING, "plugin-dead")
        found.drop("plugin-pod", "plugin-without")
        decision, _memory = found.decide()
        assert (Phase.DONE, ["NodeNotReady", "NothingToRefresh", "Verified"]) == (
            decision.phase,
            sorted(reasons(decision.statuses)),
        )
        found.drop("plugin-pod", "plugin-well")
        assert ["NodeNotReady", "PluginMissing", "PluginMissing"] == sorted(reasons(found.decide()[0].statuses))


def test_nodes_that_blip_do_not_hide_that_a_node_needs_an_administrator() -> None:
    """One driver crashes, and the next node waits for its turn behind it, while a third one blips now and then."""
    crashing: Object = {"status": {"containerStatuses": [waiting("nvidia-driver-ctr", "CrashLoopBackOff")]}}
    memory, ends = Memory(started=LATER), []
    for seconds in range(0, 661, 20):
        found = cluster("bad", "next", "blips").change("driver-pod", OUTDATED, "driver-next")
        found.put("driver-pod", merged(driver_pod("bad", ready=None), crashing))
        if seconds % 100 == 0:
            found.change("node", not_ready_since(3600 + seconds - 1), "blips")
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=seconds))
        ends += [seconds] if decision.phase is Phase.FAIL else []
    assert (620, Reason.DRIVER_FAILING) == (ends[0], decision.reason)


def test_a_rollout_that_a_dead_node_never_ends_does_not_hold_the_next_one() -> None:
    """All other pods are updated, so a driver's reload after that needs a rollout of its own."""
    found = stale("a", "dead").change("daemonset", "status: {updatedNumberScheduled: 1}", PLUGIN)
    found.change("node", not_ready_since(0), "dead").change("plugin-pod", DELETING, "plugin-dead")
    decision, _memory = found.decide(Settings(strategy=Strategy.ROLLOUT))
    assert [RolloutRestart] == [type(one) for one in decision.actions]
    found.change("daemonset", "status: {updatedNumberScheduled: 0}", PLUGIN)
    decision, _memory = found.decide(Settings(strategy=Strategy.ROLLOUT))
    assert ["PluginRestarting", "NodeNotReady"] == reasons(decision.statuses)


def test_a_fresh_plugin_under_an_unknown_name_stays_fresh() -> None:
    """A side container of the driver that crashes must not end the run with a failure."""
    owner = [{"kind": "DaemonSet", "name": "mine", "uid": "mine", "controller": True}]
    found = cluster().put("daemonset", obj("plugin-daemonset", {"metadata": {"name": "mine", "uid": "mine"}}))
    found.put("plugin-pod", merged(named(plugin_pod(waited=None), "m"), {"metadata": {"ownerReferences": owner}}))
    _decision, memory = found.decide()
    found.put("driver-pod", flapped(900))
    assert Phase.DONE is found.decide(memory=memory)[0].phase
    assert Phase.FAIL is found.decide()[0].phase
    assert {"plugin-gpu-0-uid"} == found.drop("plugin-pod", "m").decide(memory=memory)[1].fresh.keys()


def test_a_fleet_that_lost_all_its_labels_is_no_success() -> None:
    """NFD was removed, and with the labels each driver pod; the plugins will be stale when it is back."""
    found, memory = cluster("a", "b"), Memory(started=LATER)
    gone: Object = {"nvidia.com/gpu.present": "false", "nvidia.com/gpu.deploy.driver": None}
    found.change("node", {"metadata": {"labels": gone}}).drop("driver-pod")
    found.change("daemonset", "status: {desiredNumberScheduled: 0}", DRIVER)
    for minutes in (0, 5, 10):
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(minutes=minutes))
        assert (Phase.WAIT, ["LabelsMissing"] * 2) == (decision.phase, reasons(decision.statuses))
    found.change("node", {"metadata": {"labels": {"nvidia.com/gpu.present": "true"}}}, "a")
    decision, _memory = found.decide(memory=memory, now=LATER + timedelta(minutes=11))
    assert ["DriverNotDeployed", "LabelsMissing"] == reasons(decision.statuses)


def test_a_policy_that_is_ready_only_while_a_node_blips_does_not_begin_its_grace_anew() -> None:
    """A ready policy would be done at once, if nothing else held; so nothing was learnt in that moment."""
    memory, verdicts = Memory(started=LATER), []
    for seconds in range(0, 121, 20):
        found, blips = cluster("a", "b"), seconds % 40 == 20
        found.change("policy", {"status": {"state": "ready" if blips else "notReady"}})
        if blips:
            found.change("node", not_ready_since(3600 + seconds - 1), "b")
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=seconds))
        verdicts.append(decision.phase)
    assert [Phase.WAIT] * 6 + [Phase.DONE] == verdicts


def test_a_network_driver_that_terminates_on_a_dead_node_is_not_missing_on_another() -> None:
    """The other node has a network device, and gets no network driver by the DaemonSet's nodeSelector."""
    device: Object = {"metadata": {"labels": {"feature.node.kubernetes.io/pci-15b3.present": "true"}}}
    ofed = network("dead", "gpu-0").drop("plugin-pod").drop("node").drop("policy").drop("driver-pod", "mofed-gpu-0")
    ofed.change("driver-pod", DELETING).change("daemonset", "status: {desiredNumberScheduled: 1}")
    found = with_ofed(stale("dead", "gpu-0").change("node", device), ofed)
    assert ["PriorDriverUnsettled"] * 2 == reasons(found.decide()[0].statuses)
    found.change("node", not_ready_since(0), "dead")
    decision, _memory = found.decide()
    assert (["NodeNotReady", "PluginStale"], ["plugin-gpu-0"]) == (reasons(decision.statuses), restarted(decision))


# Held.


@pytest.mark.parametrize(
    "image",
    [
        "nvcr.io/nvidia/mydriver:580.126.20-ubuntu22.04",
        "nvcr.io/nvidia/driver:580.126.2-ubuntu22.04",
        "mirror.example.com/driver:580.126.20-ubuntu22.04",
        "mirror.example.com/nvidia/driver:580.126.20-5.15.0-84-generic-ubuntu22.04",
    ],
)
def test_another_image_is_not_taken_for_a_rewritten_one(image: str) -> None:
    """The repository path and the tag must be the policy's; this one is not precompiled."""
    containers = [{"name": "nvidia-driver-ctr", "image": image}]
    found = cluster().change("daemonset", {"spec": {"template": {"spec": {"containers": containers}}}}, DRIVER)
    assert Reason.NOT_RENDERED is found.decide()[0].reason


def test_a_surge_has_two_plugins_on_a_node() -> None:
    """With maxSurge both run for a while: only a stale one is restarted, and both must be verified."""
    new = named(plugin_pod(waited=None, started=900, ready=None), "new")
    decision, _memory = stale().put("plugin-pod", new).decide()
    assert ["plugin-gpu-0"] == restarted(decision)
    decision, _memory = cluster().put("plugin-pod", new).decide()
    assert (["PluginNotReady"], []) == (reasons(decision.statuses), restarted(decision))


def test_two_pods_whose_restarts_do_not_help_are_restarted_ever_more_seldom() -> None:
    """By a node's clock each successor is stale, and two pods are on the node all the time."""
    found = cluster().only("plugin-pod", named(stale_plugin(), "a"), named(stale_plugin(), "b"))
    memory, moments = Memory(started=LATER), []
    for seconds in range(0, 3600, 5):
        decision, memory = found.decide(FOLLOW, memory, LATER + timedelta(seconds=seconds))
        memory = asked(memory, decision, found, seconds)
        if decision.actions:
            moments.append(seconds)
            found.put("plugin-pod", named(stale_plugin(), f"next-{seconds}"))
    assert [0, 5, 65, 70, 190, 195, 435, 440, 920, 925, 1885, 1890] == moments


def test_a_kubelet_that_restarts_makes_no_plugin_stale() -> None:
    """ContainersReady moves on all pods of its node. By times alone a run must have seen them before."""
    found = cluster().put("driver-pod", driver_pod(ready=2000)).change("plugin-pod", ready(2003))
    assert Phase.DONE is found.decide()[0].phase
    nics = network()
    _decision, memory = nics.decide()
    assert Phase.DONE is nics.put("driver-pod", ofed_pod(ready=2000)).decide(memory=memory)[0].phase


def ready(moment: float) -> Object:
    """Return a patch of a pod that is ready since a moment."""
    return {"status": {"conditions": conditions(moment)}}


def test_a_policy_whose_drivers_are_deleted_with_it_ends_in_a_skip() -> None:
    """The garbage collector deletes DaemonSets first, pods later; nothing is restarted meanwhile."""
    found, told = cluster(), []
    _decision, memory = found.decide()
    steps = {0: lambda: found.drop("policy"), 1: lambda: found.drop("daemonset", DRIVER).drop("revision")}
    steps |= {2: lambda: found.change("driver-pod", DELETING), 3: lambda: found.drop("driver-pod")}
    for seconds in (0, 1, 2, 3, 302, 303):
        steps.get(seconds, lambda: found)()
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=seconds))
        assert (Reason.NO_POLICY, []) == (decision.reason, restarted(decision))
        told.append(decision.phase)
    assert [Phase.WAIT] * 5 + [Phase.SKIP] == told


def test_a_policy_that_comes_back_with_another_version_is_waited_for() -> None:
    """A GitOps tool replaced it in the last second of the grace."""
    found = cluster()
    _decision, memory = found.drop("policy").decide()
    found.put("policy", obj("policy", "{metadata: {uid: new}, spec: {driver: {version: 580.999.1}}}"))
    assert Reason.NOT_RENDERED is found.decide(memory=memory, now=LATER + timedelta(seconds=121))[0].reason


def test_labels_that_vanish_while_a_driver_pod_is_replaced_exclude_nothing_too_early() -> None:
    """The five minutes begin once the old driver pod is gone, and what is labelled again counts again."""
    lost: Object = {"metadata": {"labels": {"nvidia.com/gpu.present": "false", "nvidia.com/gpu.deploy.driver": None}}}
    found = cluster("a", "b").change("node", lost, "b").change("driver-pod", DELETING, "driver-b")
    found.change("daemonset", "status: {desiredNumberScheduled: 1}", DRIVER)
    memory, told = Memory(started=LATER), []
    for minutes in (0, 6, 7, 11, 12):
        if minutes == 7:
            found.drop("driver-pod", "driver-b")
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(minutes=minutes))
        told.append(decision.phase)
    assert [Phase.WAIT] * 4 + [Phase.DONE] == told
    again: Object = {"metadata": {"labels": {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.driver": "true"}}}
    decision, _memory = found.change("node", again, "b").decide(memory=memory, now=LATER + timedelta(minutes=13))
    assert (Phase.WAIT, ["Verified", "DriverMissing"]) == (decision.phase, reasons(decision.statuses))


def test_what_replaces_a_restarted_plugin_elsewhere_is_not_its_successor() -> None:
    """A node was created again under its name, or the plugin's DaemonSet was: the next restart is a first one."""
    found = stale()
    decision, memory = found.decide()
    memory = asked(memory, decision, found)
    other = named(stale_plugin(), "other")
    node = cluster().put("driver-pod", named(driver_pod(), "other-driver")).drop("driver-pod", "driver-gpu-0")
    owner: Object = {"metadata": {"ownerReferences": [{"kind": "DaemonSet", "uid": "again", "controller": True}]}}
    daemonset = cluster().change("daemonset", "metadata: {uid: again}", PLUGIN)
    for there in (node.only("plugin-pod", other), daemonset.only("plugin-pod", merged(other, owner))):
        assert ["other"] == restarted(there.decide(memory=memory)[0])


def test_a_plugin_that_terminates_without_end_is_a_failure() -> None:
    """A finalizer or a runtime that hangs holds it on a node that is Ready."""
    found = cluster().change("plugin-pod", DELETING)
    _decision, memory = found.decide()
    decision, _memory = found.decide(memory=memory, now=LATER + timedelta(minutes=5))
    assert (Phase.FAIL, Reason.PLUGIN_RESTARTING) == (decision.phase, decision.reason)


def test_sidecars_and_ephemeral_containers_say_nothing() -> None:
    """A native sidecar of either pod runs from before the driver, or crashes; a debug container is not looked at."""
    driver, plugin = driver_pod(), plugin_pod()
    driver["status"]["initContainerStatuses"].append(running("side", 300, restarts=3, ended_before=299))
    driver["spec"]["initContainers"].append({"name": "side", "restartPolicy": "Always"})
    plugin["status"]["initContainerStatuses"].append(running("side", -500))
    plugin["spec"]["initContainers"].append({"name": "side", "restartPolicy": "Always"})
    plugin["status"]["ephemeralContainerStatuses"] = [running("debugger", -5)]
    found = cluster().put("driver-pod", driver).put("plugin-pod", plugin)
    assert Phase.DONE is found.decide()[0].phase


def test_each_pool_of_a_node_must_show_the_driver() -> None:
    """Also one whose slices are v1beta1, whatever its generation."""
    found = cluster()
    for version, reason in (("580.126.20", "Verified"), ("570.1.2", "SliceOutdated")):
        device = {"name": "m", "basic": {"attributes": {"driverVersion": {"version": version}}}}
        pool = {"name": "gpu-0-b", "generation": 7}
        found.put("slice", obj("slice", {"metadata": {"name": "b"}, "spec": {"pool": pool, "devices": [device]}}))
        assert [reason] == reasons(found.decide()[0].statuses)


def test_the_next_of_two_policies_counts_once_the_first_is_gone() -> None:
    """Both were created in one second; the operator follows the first by name."""
    found = cluster().put("policy", obj("policy", "{metadata: {name: z, uid: z}, spec: {driver: {version: 1.2.3}}}"))
    decision, memory = found.decide()
    assert Phase.DONE is decision.phase
    assert Reason.NOT_RENDERED is found.drop("policy", "cluster-policy").decide(memory=memory)[0].reason


def test_an_operator_that_is_paused_or_scaled_to_zero_is_not_quiet_at_once() -> None:
    """A paused Deployment with an edit has no updated pod; without any pod the longer quiet time counts."""
    paused = cluster().change("deployment", "{spec: {paused: true}, status: {updatedReplicas: null}}")
    assert Reason.OPERATOR_ROLLING_OUT is paused.decide()[0].reason
    none: Object = {"replicas": None, "updatedReplicas": None, "availableReplicas": None}
    for seconds, phase in ((59, Phase.WAIT), (60, Phase.DONE)):
        found = cluster().change("deployment", {"spec": {"replicas": 0}, "status": none})
        found.change("revision", {"metadata": {"creationTimestamp": stamp(3600 - seconds)}})
        assert phase is found.decide()[0].phase


def test_a_node_whose_clock_is_an_hour_ahead_is_done() -> None:
    """All times of a node are compared with each other alone."""
    found = cluster().put("driver-pod", driver_pod(started=7000, ready=7070))
    assert Phase.DONE is found.put("plugin-pod", plugin_pod(waited=7060, started=7065)).decide()[0].phase
    assert ["plugin-gpu-0"] == restarted(found.put("plugin-pod", plugin_pod()).decide()[0])
