"""What people are told beside the verdict: what could not be judged, and what will bite them later."""

from __future__ import annotations

import pytest

from hook.config import DriverClient, Expect, OnManualUpgrade, Settings
from hook.decide.result import Phase
from hook.format import some
from tests.fixtures.cluster import Cluster, cluster, labelled, stale
from tests.fixtures.modes import network, openshift, with_exporter
from tests.fixtures.objects import Object, obj

PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
CORDONED = "spec: {unschedulable: true}"
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"
CLIENT: Object = {"spec": {"template": {"spec": {"nodeSelector": {"nvidia.com/gpu.deploy.client": "true"}}}}}
ELSEWHERE: Object = {"spec": {"template": {"spec": {"nodeSelector": {"example.com/dra": "true"}}}}}
BY_HAND = "spec: {driver: {upgradePolicy: {autoUpgrade: false}}}"
ONE = "status: {desiredNumberScheduled: 1, updatedNumberScheduled: 1}"


def waiting() -> Cluster:
    """Give a node that waits for its turn, and two that do not."""
    return cluster("a", "b", "c").change("driver-pod", OLD_HASH, "driver-a")


def unlabelled(selector: Object, label: str | None = None) -> Cluster:
    """Give two nodes of which the plugin selects one."""
    found = cluster("a", "b").change("daemonset", selector, PLUGIN).change("daemonset", ONE, PLUGIN)
    found.change("node", {"metadata": {"labels": {"nvidia.com/gpu.deploy.client": "true"}}}, "a")
    if label is not None:
        found.change("node", {"metadata": {"labels": {"nvidia.com/gpu.deploy.client": label}}}, "b")
    return found.drop("plugin-pod", "plugin-b")


WARNED: dict[str, tuple[Cluster, Settings, str]] = {
    "cordoned-while-others-wait": (waiting().change("node", CORDONED, "b"), Settings(),
                                   "cordoned, and so counted against the policy's maxUnavailable: b"),
    "cordoned-and-skipped-while-others-wait": (
        waiting().change("node", CORDONED, "c").change("node", labelled("c", skip="true"), "c"), Settings(),
        "maxUnavailable: c"),
    "plugin-selects-a-label-that-a-node-lacks": (unlabelled(CLIENT), Settings(),
                                                 f"{PLUGIN} runs no pod on b: its nodeSelector asks for"),
    "plugin-selects-another-value": (unlabelled(CLIENT, "false"), Settings(), f"{PLUGIN} runs no pod on b"),
    "plugin-wanted-nowhere": (cluster().drop("plugin-pod").change("daemonset", "status: {desiredNumberScheduled: 0}",
                                                                  PLUGIN), Settings(), "DESIRED=0"),
    "another-plugin-beside-the-named-one": (
        cluster().put("daemonset", obj("plugin-daemonset", "metadata: {name: mine, uid: mine}")), Settings(),
        "nvidia-dra-driver-gpu/mine looks like a DRA kubelet plugin but is not in plugin.names"),
    "consumer-that-matches-nothing": (cluster(), Settings(driver_clients=(DriverClient("gpu", "a", "b"),)),
                                      "no DaemonSet matches the driver client a/b"),
    "plugin-selects-a-label-that-is-not-read-and-that-decides": (
        unlabelled(ELSEWHERE).change("policy", {"spec": {"driver": {"manager": {"env": [
            {"name": "NODE_LABEL_FOR_GPU_POD_EVICTION", "value": "example.com/dra"}]}}}}), Settings(),
        f"{PLUGIN} runs no pod on some nodes; this program does not read whether they carry example.com/dra"),
    "node-that-people-upgrade": (
        waiting().change("policy", BY_HAND), Settings(),
        "excluded, with an outdated driver: a. No controller replaces driver pods here"),
    "node-that-people-upgrade-with-the-command": (
        waiting().change("policy", BY_HAND), Settings(), "kubectl -n gpu-operator delete pod driver-a"),
    "no-image-to-compare": (openshift(), Settings(), "names no driver image to compare with"),
    "expected-version-cannot-be-looked-up": (openshift(), Settings(expect=Expect(driver_version="580.126.20")),
                                             "only compared with the plugins' ResourceSlices"),
}  # fmt: skip


@pytest.mark.parametrize(("found", "settings", "words"), WARNED.values(), ids=WARNED)
def test_it_is_told(found: Cluster, settings: Settings, words: str) -> None:
    """Once, in a sentence, whatever the verdict."""
    assert 1 == sum(words in one for one in found.decide(settings)[0].warnings)


SILENT: dict[str, tuple[Cluster, Settings]] = {
    "nothing-is-the-matter": (cluster("a", "b"), Settings()),
    "stale": (stale(), Settings()),
    "cordoned-and-nobody-waits": (cluster("a", "b").change("node", CORDONED, "b"), Settings()),
    "waiting-and-nobody-is-cordoned": (waiting(), Settings()),
    "cordoned-by-the-controller-in-its-turn": (
        waiting().change("node", CORDONED, "b").change("node", labelled("b", state="uncordon-required"), "b"),
        Settings()),
    "the-waiting-one-is-cordoned": (waiting().change("node", CORDONED, "a"), Settings()),
    "plugin-not-wanted-by-a-label-that-is-not-read": (unlabelled(ELSEWHERE), Settings()),
    "every-plugin-is-there-by-a-label-that-is-not-read": (
        cluster("a", "b").change("daemonset", ELSEWHERE, PLUGIN).change("policy", {"spec": {"driver": {"manager": {
            "env": [{"name": "NODE_LABEL_FOR_GPU_POD_EVICTION", "value": "example.com/dra"}]}}}}), Settings()),
    "node-that-people-upgrade-is-waited-for": (
        waiting().change("policy", BY_HAND), Settings(on_manual_upgrade=OnManualUpgrade.WAIT)),
    "plugin-not-wanted-for-another-reason": (unlabelled(CLIENT, "true"), Settings()),
    "consumer-found": (with_exporter(cluster()), Settings(
        driver_clients=(DriverClient("gpu", "monitoring", "dcgm-exporter"),))),
    "network": (network(), Settings(drivers=("network",))),
    "no-policy": (cluster().drop("policy"), Settings()),
    "no-policy-but-one-is-expected": (cluster().drop("policy"), Settings(expect=Expect(driver_version="1.2.3"))),
    "hosts-without-eligible-nodes": (
        cluster().change("node", labelled(deploy_driver="pre-installed")).drop("plugin-pod")
        .change("daemonset", "status: {desiredNumberScheduled: 0}", PLUGIN), Settings()),
}  # fmt: skip


@pytest.mark.parametrize(("found", "settings"), SILENT.values(), ids=SILENT)
def test_nothing_is_told_without_a_reason(found: Cluster, settings: Settings) -> None:
    """A warning that is always there is not read."""
    assert () == found.decide(settings)[0].warnings


def test_many_nodes_are_named_in_part() -> None:
    """The table has all of them."""
    names = [f"n{number}" for number in range(8)]
    assert "n0, n1, n2, n3, n4 and 3 more" == some(names)
    assert "n0, n1, n2, n3, n4" == some(names[:5])


def test_a_cordoned_node_that_is_done_is_no_failure() -> None:
    """A person cordoned it before the upgrade, and the controller leaves it so."""
    assert Phase.DONE is cluster("a", "b").change("node", CORDONED, "b").decide()[0].phase
