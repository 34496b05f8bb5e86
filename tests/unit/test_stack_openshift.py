"""OpenShift: the driver toolkit's DaemonSet names, OLM instead of a chart, images by digest."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.config import Expect, Settings
from hook.decide.reasons import Reason
from hook.decide.result import Phase
from hook.decide.state import Memory
from tests.fixtures.cluster import LATER, Cluster, cluster, stale_plugin
from tests.fixtures.modes import DIGEST, openshift
from tests.fixtures.objects import Object, obj, stamp

DRIVER = "nvidia-driver-daemonset-410.84.202203290245-0"
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"
UNLABELLED = "metadata: {labels: {app.kubernetes.io/component: null}}"


def stale_openshift() -> Cluster:
    """Give an OpenShift cluster whose plugin is of before."""
    return openshift().put("plugin-pod", stale_plugin())


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(openshift(), Reason.VERIFIED, id="done"),
        pytest.param(stale_openshift(), Reason.PLUGIN_STALE, id="stale"),
        pytest.param(stale_openshift().change("driver-pod", OLD_HASH), Reason.DRIVER_OUTDATED, id="rotating"),
        pytest.param(stale_openshift().change("daemonset", "metadata: {generation: 3}", DRIVER), Reason.NOT_RENDERED,
                     id="changed-but-not-observed"),
        pytest.param(stale_openshift().change("daemonset", UNLABELLED, DRIVER), Reason.PLUGIN_STALE,
                     id="by-its-owner-where-the-label-was-overridden"),
        pytest.param(stale_openshift().change("policy", {"spec": {"driver": {
            "repository": "nvcr.io/nvidia", "image": "driver", "version": DIGEST}}}), Reason.PLUGIN_STALE,
            id="digest-as-asked"),
        pytest.param(stale_openshift().change("policy", {"spec": {"driver": {
            "repository": "nvcr.io/nvidia", "image": "driver", "version": "sha256:" + "1b" * 32}}}),
            Reason.NOT_RENDERED, id="another-digest"),
    ],
)  # fmt: skip
def test_the_driver_is_found_by_its_component(found: Cluster, expected: Reason) -> None:
    """Whatever its DaemonSet is called; generation, hash and readiness decide."""
    assert expected is found.judge().reason


def test_it_says_that_the_intent_could_not_be_compared() -> None:
    """Under OLM the policy names no image."""
    decision, _memory = openshift().decide()
    (warning,) = decision.warnings
    assert decision.phase is Phase.DONE
    for words in (
        "ClusterPolicy gpu-cluster-policy names no driver image",
        "generation",
        "revision",
        "60 s without a change",
    ):
        assert words in warning


def test_a_policy_by_digest_is_compared_and_says_nothing_of_it() -> None:
    """The whole reference is there to compare."""
    driver = {"repository": "nvcr.io/nvidia", "image": "driver", "version": DIGEST}
    assert () == openshift().change("policy", {"spec": {"driver": driver}}).decide()[0].warnings


@pytest.mark.parametrize(
    ("published", "expected", "reason"),
    [
        pytest.param("580.126.20", "580.126.20", Reason.NOTHING_STALE, id="as-expected"),
        pytest.param("570.124.6", "580.126.20", Reason.NODES_PENDING, id="not-as-expected"),
    ],
)
def test_an_expected_version_is_looked_for_in_the_slices(published: str, expected: str, reason: Reason) -> None:
    """And the run says that it could look nowhere else."""
    published_devices: Object = {"devices": [{"attributes": {"driverVersion": {"version": published}}}]}
    found = openshift().change("slice", {"spec": published_devices})
    decision, _memory = found.decide(Settings(expect=Expect(driver_version=expected)))
    assert reason is decision.reason
    assert any("only compared with" in one for one in decision.warnings)


def test_without_a_deployment_to_look_at_it_is_quiet_for_longer() -> None:
    """OLM's operator cannot be asked, so what it rendered must be unchanged for a minute, not for 15 s."""
    found = openshift().change("revision", {"metadata": {"creationTimestamp": stamp(3600 - 5)}})
    memory, told = Memory(started=LATER), []
    for seconds in (0, 30, 60):
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=seconds))
        told.append((decision.phase, decision.reason))
    waiting = (Phase.WAIT, Reason.OPERATOR_SETTLING)
    assert [waiting, waiting, (Phase.DONE, Reason.NOTHING_STALE)] == told


def test_a_toolkit_daemonset_of_a_new_release_replaces_the_old_one() -> None:
    """Its name, and even its app label, change with RHCOS; the old one's pod is an orphan."""
    found = openshift().drop("daemonset", DRIVER)
    found.put("daemonset", obj("openshift/driver-daemonset", "metadata: {name: next, uid: next}"))
    assert found.judge().reason is Reason.DRIVER_ORPHANED


def test_a_plain_cluster_has_no_such_warning() -> None:
    """The warning is told where it is true."""
    assert () == cluster().decide()[0].warnings
