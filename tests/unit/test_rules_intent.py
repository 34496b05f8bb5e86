"""Rules of reading what is asked for: policies, the DaemonSets to look after, and what is warned about."""

from __future__ import annotations

from hook.config import DriverClient, Expect, Plugin, PluginName, Rbac, Settings
from hook.decide import clients, rollout
from hook.objects import policies, readers
from hook.objects.drivers import GPU_OPERATOR, NETWORK_OPERATOR
from tests.fixtures.cluster import cluster, labelled
from tests.fixtures.modes import Pool, network, pooled, with_ofed, with_toolkit
from tests.fixtures.objects import driver_pod, merged, obj, stamp

PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"


# What the policy's words mean.


def test_a_repository_whose_name_only_looks_alike_is_another_one() -> None:
    """A dot in the repository stands for a dot alone."""
    asked = policies.cluster_policy(obj("policy", "spec: {driver: {repository: nvcr.io/my.org}}"))
    rendered = obj("driver-daemonset")
    for repository, shown in (("my.org", True), ("myxorg", False)):
        image = f"nvcr.io/{repository}/driver:580.126.20-ubuntu22.04"
        rendered["spec"]["template"]["spec"]["containers"] = [{"name": "nvidia-driver-ctr", "image": image}]
        assert shown is not bool(rollout.unrendered(readers.daemonset(rendered), asked, GPU_OPERATOR))


def test_a_policy_that_leaves_drivers_to_pools_names_no_version_to_verify() -> None:
    """Its own version field is ignored by the operator then, also where one is written."""
    wanted = Settings(expect=Expect(driver_version="580.126.20"))
    pooled = policies.cluster_policy(obj("policy", "spec: {driver: {useNvidiaDriverCRD: true, version: 570.124.06}}"))
    assert ("580.126.20", "") == (
        rollout.wanted_version(policies.cluster_policy(obj("policy")), wanted),
        rollout.wanted_version(pooled, wanted),
    )


def test_the_oldest_policy_counts_and_of_two_alike_the_first_name() -> None:
    """The operator ignores the others, whatever they are called."""
    created = {"a": "2025-07-01T08:00:00Z", "b": "2025-06-01T08:00:00Z", "c": "2025-06-01T08:00:00Z"}
    found = [
        policies.cluster_policy(obj("policy", {"metadata": {"name": name, "creationTimestamp": moment}}))
        for name, moment in created.items()
    ]
    for given in (found, found[::-1]):
        active = rollout.active_policy(given, GPU_OPERATOR)
        assert active is not None
        assert "b" == active.name


def test_a_daemonset_that_was_not_observed_is_not_rendered_for_any_intent() -> None:
    """Its revisions are still those of the spec before, also where no pool owns it."""
    seen = readers.daemonset(obj("driver-daemonset", "metadata: {generation: 3}"))
    assert "generation 3" in rollout.unrendered(seen, None, GPU_OPERATOR)


def test_a_branch_is_a_whole_number() -> None:
    """Not the beginning of one."""
    told = [rollout.same_driver("580.105.8", branch) for branch in ("580", "58", "5801")]
    assert [True, False, False] == told


def test_what_a_policy_does_not_say_is_off() -> None:
    """A driver is built on its node, and follows no other driver, unless the policy asks for it."""
    silent = "spec: {driver: {usePrecompiled: null, rdma: null}}"
    pool = policies.nvidia_driver(obj("pool/policy", "spec: {usePrecompiled: null}"))
    nic = policies.nic_cluster_policy(obj("network/policy"))
    for one in (policies.cluster_policy(obj("policy", silent)), pool, nic):
        assert (True, False, False) == (one.driver_enabled, one.precompiled, one.rdma), one.kind


# What is found.


def test_what_plugins_start_after_is_never_restarted_as_one_of_them() -> None:
    """The container toolkit is older than itself, so it would always look stale."""
    named = Settings(driver_clients=(DriverClient("gpu", "gpu-operator", "nvidia-container-toolkit-daemonset"),))
    found = clients.find(with_toolkit(cluster()).seen().daemonsets, GPU_OPERATOR, named)
    assert (["nvidia-container-toolkit-daemonset"], [PLUGIN]) == (
        [one.name for one in found.refused],
        [one.name for one in found.named],
    )


def test_one_label_of_a_selector_shows_a_plugin_whatever_else_it_selects() -> None:
    """A chart may add its own labels, and a container of its own."""
    lookalike = obj("plugin-daemonset", "metadata: {name: mine, uid: mine}")
    lookalike["spec"]["selector"]["matchLabels"]["team"] = "ours"
    lookalike["spec"]["template"]["spec"]["containers"] += [{"name": "proxy"}]
    found = clients.find([readers.daemonset(lookalike)], GPU_OPERATOR, Settings())
    assert ["mine"] == [one.name for one in found.unnamed]


def test_a_pod_that_says_ready_without_containers_ready_is_read() -> None:
    """Nothing is concluded from a moment that is not there."""
    found = [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(9)}]
    seen = readers.pod(merged(driver_pod(), {"status": {"conditions": found}}))
    assert (True, None) == (seen.ready, seen.containers_ready_since)


def test_what_a_container_leaves_out_of_its_end_is_not_made_up() -> None:
    """An end without a time has no length, a null is no end, and a long message is cut."""
    states = (
        {"terminated": {"exitCode": 0, "startedAt": stamp(5)}},
        {"terminated": None},
        {"waiting": {"reason": "CreateContainerError", "message": "x" * 2000}},
    )
    pods = (merged(driver_pod(), {"status": {"containerStatuses": [{"name": "a", "state": one}]}}) for one in states)
    seen = [readers.pod(merged(pod, {"spec": {"containers": [{"name": "a"}]}})).containers[0] for pod in pods]
    assert [None, None, None] == [one.lasted for one in seen]
    assert ["", "ContainerCreating", "CreateContainerError"] == [one.waiting for one in seen]
    assert 1024 == len(seen[2].message)


# What is warned about.


def test_a_plugin_that_wants_no_pod_is_no_surprise_where_every_node_is_excluded() -> None:
    """With DESIRED=0 its nodeSelector is checked only where a node could have it."""
    found = cluster().drop("plugin-pod").change("daemonset", "status: {desiredNumberScheduled: 0}", PLUGIN)
    assert 1 == len(found.decide()[0].warnings)
    assert () == found.change("node", labelled(skip="true")).decide()[0].warnings


def test_cordoned_nodes_are_named_only_where_the_upgrade_controller_counts_them() -> None:
    """The network operator's limit has no such count."""
    for found, pod, warned in ((cluster("a", "b"), "driver-b", True), (network("a", "b"), "mofed-b", False)):
        found.change("node", "spec: {unschedulable: true}", "a").change("driver-pod", OLD_HASH, pod)
        assert warned is any("cordoned" in warning for warning in found.decide()[0].warnings)
    turn = cluster("a", "b").change("node", "spec: {unschedulable: true}", "a")
    turn.change("node", labelled("b", state="drain-required"), "b")
    assert any("cordoned" in warning for warning in turn.decide()[0].warnings)


def test_a_network_driver_that_is_nowhere_is_missed_only_where_not_all_was_read() -> None:
    """Without a list of namespaces there is none to look in."""
    found = with_ofed(cluster(), network("gpu-0").drop("daemonset").drop("driver-pod"))
    for namespaces, warned in (((), False), (("gpu-operator",), True)):
        assert warned is bool(found.decide(Settings(rbac=Rbac(namespaces=namespaces)))[0].warnings)


def test_an_expected_version_that_one_pool_names_was_looked_for_in_the_policy() -> None:
    """The warning is for policies that name none at all."""
    expected = Settings(expect=Expect(driver_version="580.126.20"))
    assert () == cluster().decide(expected)[0].warnings
    found = pooled(Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",))).change("pool", "spec: {version: null}", "b")
    assert not any("names no driver version" in warning for warning in found.decide(expected)[0].warnings)


def test_the_names_of_one_stacks_plugins_leave_those_of_the_others() -> None:
    """Only for a stack that is named are the default names replaced."""
    named = Settings(plugin=Plugin(names=(PluginName(driver="network", name="mine"),)))
    assert (GPU_OPERATOR.plugin.names, ("mine",)) == (
        clients.plugin_names(GPU_OPERATOR, named),
        clients.plugin_names(NETWORK_OPERATOR, named),
    )
