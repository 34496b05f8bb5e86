"""NVIDIADriver objects: many driver DaemonSets, one a pool; the intent is in the objects."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.config import Expect, Settings
from hook.decide.reasons import Reason
from hook.decide.result import Phase
from hook.decide.state import Memory
from tests.fixtures.cluster import LATER, Cluster, stale_plugin
from tests.fixtures.modes import DIGEST, Pool, owner, pool_daemonset, pooled
from tests.fixtures.objects import Object, merged, obj, parsed

A, B = Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",), version="570.124.06")
EMPTY = Pool("empty", ())
RDMA = "spec: {rdma: {enabled: true}}"
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"


def stale_pools() -> Cluster:
    """Give two pools with different drivers, and plugins of before both."""
    return pooled(A, B).put("plugin-pod", stale_plugin("gpu-a"), stale_plugin("gpu-b"))


def by_node(found: Cluster, settings: Settings | None = None) -> dict[str, Reason]:
    """Give each node's reason."""
    return {one.node: one.reason for one in found.decide(settings)[0].statuses}


def rendered_for(name: str, version: str) -> Object:
    """Give a driver DaemonSet of a pool, rendered for another version than it asks for now."""
    pool = Pool(name, (f"gpu-{name}",), version=version)
    return pool_daemonset(pool)


def test_pools_of_different_versions_are_done_together() -> None:
    """Each node is verified against its own pool's version."""
    decision, _memory = pooled(A, B).decide()
    assert (Phase.DONE, {"gpu-a": Reason.VERIFIED, "gpu-b": Reason.VERIFIED}, ()) == (
        decision.phase,
        by_node(pooled(A, B)),
        decision.warnings,
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(stale_pools(), (Reason.PLUGIN_STALE, Reason.PLUGIN_STALE), id="both-settled"),
        pytest.param(stale_pools().put("daemonset", rendered_for("a", "570.124.06")),
                     (Reason.NOT_RENDERED, Reason.PLUGIN_STALE), id="one-pool-is-not-rendered-yet"),
        pytest.param(stale_pools().change("driver-pod", OLD_HASH, "driver-gpu-a"),
                     (Reason.DRIVER_OUTDATED, Reason.PLUGIN_STALE), id="one-pool-is-still-rotating"),
        pytest.param(stale_pools().drop("pool", "a"), (Reason.NOT_RENDERED, Reason.PLUGIN_STALE),
                     id="one-pools-object-is-gone"),
        pytest.param(stale_pools().drop("daemonset", "nvidia-gpu-driver-a"),
                     (Reason.DRIVER_ORPHANED, Reason.PLUGIN_STALE), id="one-pools-daemonset-was-replaced"),
        pytest.param(stale_pools().change("slice", "spec: {devices: [{attributes: {driverVersion: {version: 1.2.3}}}]}")
                     .put("plugin-pod", *pooled(A, B).of("plugin-pod")),
                     (Reason.SLICE_OUTDATED, Reason.SLICE_OUTDATED), id="no-pool-asks-for-this-version"),
    ],
)  # fmt: skip
def test_each_node_is_judged_by_the_daemonset_that_owns_its_driver(
    found: Cluster, expected: tuple[Reason, Reason]
) -> None:
    """What holds one pool up does not hold the other's nodes."""
    assert dict(zip(("gpu-a", "gpu-b"), expected, strict=True)) == by_node(found)


def test_a_slice_of_the_other_pools_version_is_outdated() -> None:
    """The version to verify is the pool's own."""
    swapped = "spec: {devices: [{attributes: {driverVersion: {version: 570.124.6}}}]}"
    found = pooled(A, B).change("slice", swapped)
    assert {"gpu-a": Reason.SLICE_OUTDATED, "gpu-b": Reason.VERIFIED} == by_node(found)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(pooled(A, B).change("pool", "status: {state: notReady}", "b"), Reason.POLICY_NOT_READY,
                     id="a-pool-with-nodes-is-not-ready"),
        pytest.param(pooled(A, EMPTY).change("pool", "status: {state: notReady}", "empty"), Reason.NOTHING_STALE,
                     id="a-pool-without-nodes-says-nothing"),
        pytest.param(pooled(A, EMPTY), Reason.NOTHING_STALE, id="a-pool-without-nodes-is-ready"),
        pytest.param(pooled(A).change("policy", "status: {state: notReady}"), Reason.POLICY_NOT_READY,
                     id="the-cluster-policy-is-not-ready"),
        pytest.param(pooled(A).put("pool", obj("pool/policy", "metadata: {name: new, uid: new}")), Reason.NOTHING_STALE,
                     id="an-object-without-a-daemonset"),
    ],
)  # fmt: skip
def test_the_objects_that_own_nodes_may_veto_done(found: Cluster, expected: Reason) -> None:
    """For as long as a policy may; one without nodes is ready, or not, whatever happens."""
    assert expected is found.decide()[0].reason


def test_an_unready_pool_vetoes_for_a_while_only() -> None:
    """A skipped node keeps its object unready for good."""
    found = pooled(A).change("pool", "status: {state: notReady}")
    memory, verdicts = Memory(started=LATER), []
    for seconds in (0, 119, 120):
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=seconds))
        verdicts.append(decision.phase)
    assert [Phase.WAIT, Phase.WAIT, Phase.DONE] == verdicts
    assert "the state of NVIDIADriver a is notReady" in decision.warnings[0]


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        pytest.param("580.126.20", Reason.NOTHING_STALE, id="one-pool-asks-for-it"),
        pytest.param("570.124.06", Reason.NOTHING_STALE, id="the-other-pool-asks-for-it"),
        pytest.param("590.1.2", Reason.EXPECTATION_UNMET, id="no-pool-asks-for-it"),
    ],
)
def test_an_expected_version_must_be_that_of_some_pool(expected: str, reason: Reason) -> None:
    """Which pool it was meant for cannot be known."""
    assert reason is pooled(A, B).decide(Settings(expect=Expect(driver_version=expected)))[0].reason


def test_an_unmet_expectation_names_what_is_asked_for() -> None:
    """One object by its name, several by their number."""
    one = pooled(A).decide(Settings(expect=Expect(driver_version="590.1.2")))[0].message
    both = pooled(A, B).decide(Settings(expect=Expect(driver_version="590.1.2")))[0].message
    assert "NVIDIADriver a asks for driver 580.126.20, expected 590.1.2" == one
    assert "each of 2 NVIDIADriver objects asks for driver 570.124.06, 580.126.20, expected 590.1.2" == both


@pytest.mark.parametrize(
    ("version", "warned"),
    [
        pytest.param("580.126.20", False, id="version"),
        pytest.param(DIGEST, False, id="digest-is-compared-whole"),
        pytest.param("", True, id="left-to-the-operator"),
    ],
)
def test_a_pool_whose_intent_cannot_be_compared_is_told(version: str, warned: bool) -> None:
    """Its nodes are judged by generation, revision and quiet time; the run says so."""
    found = pooled(A).change("pool", {"spec": {"version": version}})
    image = f"nvcr.io/nvidia/driver@{version}" if "sha256" in version else "nvcr.io/nvidia/driver:580.126.20-rhel9.4"
    containers = [{"name": "nvidia-driver-ctr", "image": image}]
    rendered: Object = {"spec": {"template": {"spec": {"containers": containers}}}}
    found.change("daemonset", rendered, "nvidia-gpu-driver-a")
    decision, _memory = found.decide()
    assert (Phase.DONE, warned) == (
        decision.phase,
        any("names no driver image" in one for one in decision.warnings),
    )


def test_a_pool_that_appears_is_waited_for() -> None:
    """Its DaemonSet wants pods that are not there yet."""
    found = pooled(A).put("pool", obj("pool/policy", "metadata: {name: b, uid: b-uid}"))
    found.put("daemonset", merged(pool_daemonset(B), parsed("metadata: {generation: 2}")))
    assert found.decide()[0].reason is Reason.NOT_RENDERED


def test_a_leftover_of_a_pool_that_is_gone_does_not_count() -> None:
    """It wants no pods and has none."""
    found = pooled(A).put("daemonset", merged(pool_daemonset(EMPTY), {"metadata": {"ownerReferences": owner("gone")}}))
    assert found.decide()[0].phase is Phase.DONE


def test_a_migration_from_one_policy_to_pools_is_waited_for() -> None:
    """The old DaemonSet is deleted with its pods left behind: they are orphans until they are rotated."""
    found = pooled(A).change("driver-pod", {"metadata": {"ownerReferences": owner("driver-ds")}})
    assert {"gpu-a": Reason.DRIVER_ORPHANED} == by_node(found)


def test_an_object_without_a_spec_says_nothing() -> None:
    """It is unreadable, so nothing is touched and nothing is called done."""
    decision, _memory = stale_pools().put("pool", merged(obj("pool/policy"), parsed("spec: null"))).decide()
    assert (Phase.WAIT, Reason.MALFORMED_OBJECT, ()) == (decision.phase, decision.reason, decision.actions)


OFF, ON = ({"spec": {"upgradePolicy": {"autoUpgrade": on}}} for on in (False, True))
POLICY_OFF = "spec: {driver: {upgradePolicy: {autoUpgrade: false}}}"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(pooled(A, B).change("policy", POLICY_OFF).change("pool", ON), (Reason.DRIVER_OUTDATED,) * 2,
                     id="both-pools-rotate-though-the-policy-does-not"),
        pytest.param(pooled(A, B).change("pool", OFF), (Reason.MANUAL_UPGRADE,) * 2,
                     id="neither-pool-rotates-though-the-policy-does"),
        pytest.param(pooled(A, B).change("pool", OFF, "a"), (Reason.MANUAL_UPGRADE, Reason.DRIVER_OUTDATED),
                     id="one-pool-rotates-by-the-policy"),
        pytest.param(pooled(A, B).change("pool", {"spec": {"upgradePolicy": {"maxParallelUpgrades": 2}}}, "a"),
                     (Reason.DRIVER_OUTDATED,) * 2, id="on-is-the-default-of-the-object"),
        pytest.param(pooled(A, B).change("policy", POLICY_OFF).change("pool", ON, "a"),
                     (Reason.DRIVER_OUTDATED,) * 2, id="where-pools-decide-silence-is-the-default"),
        pytest.param(pooled(A, B).change("policy", POLICY_OFF), (Reason.MANUAL_UPGRADE,) * 2,
                     id="the-policy-speaks-for-pools-that-say-nothing"),
    ],
)  # fmt: skip
def test_whether_a_person_rotates_is_asked_of_the_pool(found: Cluster, expected: tuple[Reason, Reason]) -> None:
    """A pool's own upgrade policy pauses, or rotates, the nodes that it owns."""
    assert dict(zip(("gpu-a", "gpu-b"), expected, strict=True)) == by_node(found.change("driver-pod", OLD_HASH))


def test_nothing_is_done_while_pools_still_rotate() -> None:
    """Every plugin is about to go stale."""
    found = pooled(A, B).change("policy", POLICY_OFF).change("pool", ON).change("driver-pod", OLD_HASH)
    assert Phase.WAIT is found.decide()[0].phase


def test_a_migration_back_to_one_policy_is_waited_for() -> None:
    """The pool's DaemonSet still runs the pool's driver, which the policy no longer asks for."""
    asked = {"useNvidiaDriverCRD": None, "repository": "nvcr.io/nvidia", "image": "driver", "version": "590.1.2"}
    found = stale_pools().change("policy", {"spec": {"driver": asked}})
    assert {"gpu-a": Reason.NOT_RENDERED, "gpu-b": Reason.NOT_RENDERED} == by_node(found)
