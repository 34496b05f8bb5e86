"""Warnings in addition to the verdict; ``messages.txt`` holds the state that each of them is about."""

from __future__ import annotations

from hook.decide.result import Phase
from hook.settings import Expect, OnManualUpgrade, Settings
from tests.fixtures.cluster import Cluster, cluster, labelled, stale
from tests.fixtures.modes import DIGEST, Pool, avoiding, network, openshift, pooled, with_exporter
from tests.unit.decide import patches
from tests.unit.decide.messages import CLIENT, CORDONED, ELSEWHERE, EVICTING, NONE_WANTED, nowhere, selecting
from tests.unit.decide.runs import EXPORTER, JOB, PLUGIN

FOR_EXPORTER = Settings(driver_clients=(EXPORTER,))
EXPECTED = Settings(expect=Expect(driver_version="580.126.20"))


def waiting() -> Cluster:
    """Return a node that waits for its turn, and two that do not."""
    return cluster("a", "b", "c").change("driver-pod", patches.OUTDATED, "driver-a")


def test_no_warning_without_a_cause() -> None:
    """A warning that is always there is not read."""
    by_digest = {"repository": "nvcr.io/nvidia", "image": "driver", "version": DIGEST}
    hosts = cluster().change("node", labelled(deploy_driver="pre-installed")).drop("plugin-pod")
    for name, (found, settings) in {
        "stale": (stale(), JOB),
        "cordoned, and no node waits": (cluster("a", "b").change("node", CORDONED, "b"), JOB),
        "a node waits, and none is cordoned": (waiting(), JOB),
        "cordoned by the upgrade controller": (waiting().change("node", CORDONED, "b").change(
            "node", labelled("b", state="uncordon-required"), "b"), JOB),
        "the waiting node is cordoned": (waiting().change("node", CORDONED, "a"), JOB),
        "the network operator counts no cordoned nodes": (network("a", "b").change(
            "node", CORDONED, "a").change("driver-pod", patches.OUTDATED, "mofed-b"), JOB),
        "it evicts by a label of its own, and every plugin is there": (cluster("a", "b").change(
            "daemonset", ELSEWHERE, PLUGIN).change("policy", EVICTING), JOB),
        "a node without a plugin for another reason": (selecting(CLIENT).change(
            "node", {"metadata": {"labels": {"nvidia.com/gpu.deploy.client": "true"}}}), JOB),
        "another client runs no pod there": (with_exporter(cluster("a", "b")).drop("plugin-pod", "exporter-b").change(
            "daemonset", avoiding("b"), "dcgm-exporter").change("daemonset", CLIENT, PLUGIN), FOR_EXPORTER),
        "a manual upgrade is waited for": (waiting().change("policy", patches.BY_HAND), Settings(
            on_manual_upgrade=OnManualUpgrade.WAIT)),
        "driver client found": (with_exporter(cluster()), FOR_EXPORTER),
        "no policy": (cluster().drop("policy"), EXPECTED),
        "the policy names another version": (cluster().change("policy", "spec: {driver: {version: 590.1}}"), EXPECTED),
        "the policy names a digest": (openshift().change("policy", {"spec": {"driver": by_digest}}), JOB),
        "no plugin is desired, no node is eligible": (hosts.change("daemonset", NONE_WANTED, PLUGIN), JOB),
        "no plugin is desired, all nodes are skipped": (cluster().drop("plugin-pod").change(
            "daemonset", NONE_WANTED, PLUGIN).change("node", labelled(skip="true")), JOB),
    }.items():  # fmt: skip
        assert () == found.decide(settings)[0].warnings, name
    pools = pooled(Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",))).change("pool", "spec: {version: null}", "b")
    assert 1 == len(pools.decide(EXPECTED)[0].warnings), "one of them names an image"


def test_a_warning_is_no_failure() -> None:
    """A node was cordoned before the upgrade, a plugin wants no pod: the run is done."""
    for found in (
        cluster("a", "b").change("node", CORDONED, "b"),
        nowhere(),
        selecting(CLIENT),
        openshift(),
    ):
        assert Phase.DONE is found.decide()[0].phase
