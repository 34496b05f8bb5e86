"""What ends a run: nothing to protect, every node verified, a quiet operator; and the warnings in addition to it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from hook.decide.end import is_rolled_out
from hook.decide.reasons import Reason
from hook.decide.record import Memory
from hook.decide.result import Phase
from hook.objects import read_deployment
from hook.settings import Advanced, Duration, Expect, OnManualUpgrade, Settings
from tests.fixtures.cluster import (
    LATER,
    Cluster,
    cluster,
    labelled,
    not_ready_since,
    stale,
    without_drivers,
    without_operator,
)
from tests.fixtures.limits import of
from tests.fixtures.modes import (
    DIGEST,
    Pool,
    avoiding,
    network,
    openshift,
    pooled,
    rdma_pod,
    with_exporter,
    with_mig,
)
from tests.fixtures.objects import Object, conditions, driver_pod, merged, obj, parsed, plugin_pod, stamp, waiting
from tests.unit.decide import patches
from tests.unit.decide.messages import CLIENT, CORDONED, ELSEWHERE, EVICTING, selecting
from tests.unit.decide.runs import DRIVER, EXPORTER, JOB, PLUGIN, Run, deleted, reasons_over

EXPECTING = Settings(expect=Expect(chart_version="v26.7.0"))
NEW_DRIVER = Settings(expect=Expect(driver_version="590.1"))
DONE = Reason.NOTHING_STALE
A, B = Pool("a", ("a",)), Pool("b", ("b",), "570.1.2")


# Nothing to protect.


def without_plugin(*objects: Object) -> Cluster:
    """Return a cluster without a DRA plugin, or with these DaemonSets instead."""
    return cluster().drop("daemonset", PLUGIN).drop("plugin-pod").put("daemonset", *objects)


def without_nodes() -> Cluster:
    """Return a cluster with neither a GPU node nor a pod of ours."""
    return cluster().drop("node").drop("driver-pod").drop("plugin-pod")


def unlabelled() -> Cluster:
    """Return a fleet without its labels, and so without the pods of DaemonSets that select by label."""
    labels = labelled(present="false", deploy_driver=None)
    found = cluster().change("node", labels).drop("driver-pod").drop("plugin-pod").drop("slice")
    return found.change("daemonset", patches.NONE_WANTED)


def fresh_install() -> Cluster:
    """Return a cluster whose plugins wait for their first driver on nodes that have no labels yet."""
    status = {"conditions": conditions(None), "initContainerStatuses": [waiting("init-container", "PodInitializing")]}
    plugin = merged(plugin_pod(), {"status": {**status, "containerStatuses": []}})
    found = without_nodes().only("plugin-pod", plugin).drop("revision").drop("lease").drop("deployment")
    return found.drop("daemonset", DRIVER).change("policy", "status: null")


def disabled() -> Cluster:
    """Return a cluster whose policy deploys no driver any more; its DaemonSet wants no pods."""
    found = cluster().change("policy", patches.DISABLED).drop("driver-pod")
    return found.change("daemonset", patches.NONE_WANTED, DRIVER)


WITHOUT_GPU = fresh_install().change("policy", "status: {state: ready}")
NOWHERE = without_nodes().drop("deployment").drop("revision").drop("daemonset", DRIVER)
NOT_DEPLOYED_YET = cluster("a", "b").drop("driver-pod").drop("plugin-pod").change("policy", "status: {state: null}")
NOT_DEPLOYED_YET.change("node", {"metadata": {"labels": {"nvidia.com/gpu.deploy.driver": "false"}}})
SKIPPED = {
    "no plugin, whatever is expected": (without_plugin(), EXPECTING, Reason.NO_PLUGIN),
    "driver disabled": (disabled(), JOB, Reason.DRIVER_DISABLED),
    "driver disabled, no DaemonSet": (disabled().drop("daemonset", DRIVER), JOB, Reason.DRIVER_DISABLED),
    "no operator, node or pod": (NOWHERE, JOB, Reason.NO_ELIGIBLE_NODE),
    "no driver and no plugin deployed yet": (Cluster(dict(NOT_DEPLOYED_YET.parts)), JOB, Reason.NO_ELIGIBLE_NODE),
    "plugins on nodes without a GPU": (WITHOUT_GPU, JOB, Reason.NO_ELIGIBLE_NODE),
}


@pytest.mark.parametrize(("found", "settings", "expected"), SKIPPED.values(), ids=SKIPPED)
def test_a_run_with_nothing_to_protect_is_skipped(found: Cluster, settings: Settings, expected: Reason) -> None:
    """The deployment tool sees success with the reason, and nothing is restarted."""
    decision, _memory = found.decide(settings)
    assert (Phase.SKIP, expected, ()) == (decision.phase, decision.reason, decision.actions)


UNREADABLE = without_plugin(obj("plugin-daemonset", "status: {desiredNumberScheduled: x}"))
NO_FLEET = without_nodes().put("node", obj("node", "metadata: {labels: []}"))
NOT_LABELLED_YET = fresh_install().put("node", obj("node", labelled(present=None, deploy_driver=None)))
UNKNOWN = {
    "an expected release, drivers disabled": (disabled(), EXPECTING, Reason.EXPECTATION_UNMET),
    "an expected release, no node": (without_nodes(), EXPECTING, Reason.EXPECTATION_UNMET),
    "an expected policy, no driver left": (
        without_drivers(cluster()).drop("policy"), EXPECTING, Reason.POLICY_EXPECTED),
    "an expected policy, no node": (without_nodes().drop("policy"), EXPECTING, Reason.POLICY_EXPECTED),
    "no policy, but a DaemonSet wants drivers": (
        cluster().drop("policy").drop("driver-pod"), JOB, Reason.NO_POLICY),
    "drivers disabled, but a DaemonSet may want some": (
        disabled().change("daemonset", "metadata: {generation: 9}", DRIVER), JOB, Reason.DRIVER_DISABLED),
    "a malformed DaemonSet": (UNREADABLE, JOB, Reason.MALFORMED_OBJECT),
    "a malformed node": (NO_FLEET, JOB, Reason.MALFORMED_OBJECT),
    "no node, but their pods": (cluster().drop("node"), JOB, Reason.NODES_PENDING),
    "no node, but a driver pod that is not scheduled": (
        without_nodes().put("driver-pod", obj("driver-pod", "spec: {nodeName: null}")), JOB, Reason.OPERATOR_SETTLING),
    "no labels, and an operator that has not reconciled": (fresh_install(), JOB, Reason.POLICY_NOT_READY),
    "no driver deployed yet, but one of two nodes has a plugin": (
        NOT_DEPLOYED_YET.drop("revision").put("plugin-pod", plugin_pod("b")), JOB, Reason.POLICY_NOT_READY),
    "no labels, and an operator that rolls out": (
        NOT_LABELLED_YET.change("policy", "status: {state: ready}").put(
            "deployment", obj("deployment", "status: {replicas: 2}")), JOB, Reason.OPERATOR_ROLLING_OUT),
}  # fmt: skip


@pytest.mark.parametrize(("found", "settings", "expected"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_known_is_never_a_reason_to_skip(found: Cluster, settings: Settings, expected: Reason) -> None:
    """Unmet expectations, malformed objects and missing labels hold the run instead."""
    decision, _memory = found.change("revision", created(10)).decide(settings)
    assert (Phase.WAIT, expected) == (decision.phase, decision.reason)


@pytest.mark.parametrize(("controller", "kept"), [(True, set()), (False, {("gpu-0", "plugin-ds")})])
def test_a_job_that_skips_forgets_nothing_and_a_controller_what_is_gone(
    kept: set[tuple[str, str]], *, controller: bool
) -> None:
    """A controller may skip for months while nodes come and go. A Job needs its records when they are back."""
    run = Run(stale(), of(Settings(), controller=controller))
    run.act()
    gone = run.then(without_plugin().only("node").drop("driver-pod"))
    assert Phase.SKIP is gone.through((1, gone.found), (3600, gone.found))[1].phase
    assert kept == set(gone.memory.records)


VANISHED = {
    "policy and drivers": (without_operator(cluster()), Reason.NO_POLICY, (Phase.SKIP, Reason.NO_POLICY)),
    "plugin": (without_plugin(), Reason.NO_PLUGIN, (Phase.SKIP, Reason.NO_PLUGIN)),
    "nodes": (
        without_nodes().change("daemonset", patches.NONE_WANTED), Reason.NO_ELIGIBLE_NODE,
        (Phase.SKIP, Reason.NO_ELIGIBLE_NODE)),
    "labels": (unlabelled(), Reason.NODES_PENDING, (Phase.DONE, Reason.NOTHING_STALE)),
    "drivers, disabled": (disabled(), Reason.DRIVER_DISABLED, (Phase.SKIP, Reason.DRIVER_DISABLED)),
}  # fmt: skip


@pytest.mark.parametrize(("found", "reason", "over"), VANISHED.values(), ids=VANISHED)
def test_a_fleet_that_vanishes_is_skipped_only_after_a_grace_period(
    found: Cluster, reason: Reason, over: tuple[Phase, Reason]
) -> None:
    """It may come back, recreated by its deployment tool or labelled again. If it vanishes again, the time restarts."""
    gone, back = (Phase.WAIT, reason, 0), (Phase.WAIT, Reason.NODES_PENDING, 1)
    steps = ((0, stale()), (2, found), (200, stale()), (250, found), (549, found), (550, found))
    decisions = [(step.phase, step.reason, len(step.actions)) for step in Run(stale()).through(*steps)]
    assert [back, gone, back, gone, gone, (*over, 0)] == decisions


def test_a_fleet_that_vanishes_at_the_end_of_the_time_is_no_success() -> None:
    """What became of it is unknown. The run ends with the time of its Job."""
    gone = without_operator(cluster())
    early, late = (Run(gone).through((0, stale()), (seconds, gone))[1] for seconds in (25 * 60 - 31, 25 * 60 - 30))
    assert (Phase.WAIT, Phase.DEADLINE) == (early.phase, late.phase)
    assert (Reason.TIME_UP, Reason.NO_POLICY) == (late.reason, late.cause)
    # First the policy was gone, now the plugin is: neither for as long as the grace period.
    assert Reason.NO_PLUGIN is reasons_over((0, cluster()), (0, cluster().drop("policy")), (300, without_plugin()))[-1]
    # A fleet that was seen may come back, also if all of its nodes were excluded since.
    excluded = stale().change("node", labelled(skip="true")).change("policy", patches.ILL)
    gone = stale().change("node", labelled(skip="true")).drop("policy")
    decision = Run(gone).through((0, stale()), (0, excluded), (0, gone))[-1]
    assert (Phase.WAIT, Reason.NO_POLICY) == (decision.phase, decision.reason)


@pytest.mark.parametrize(("first", "second"), [(fresh_install(), WITHOUT_GPU), (NO_FLEET, without_nodes())])
def test_a_skip_that_is_certain_is_reported_at_once(first: Cluster, second: Cluster) -> None:
    """The run waited for something, but there was no fleet that could vanish, and no driver that could reload."""
    decisions = Run(first).through((0, first), (90, second))
    assert [Phase.WAIT, Phase.SKIP] == [decision.phase for decision in decisions]
    assert Reason.NO_ELIGIBLE_NODE is decisions[1].reason


def test_a_plugin_that_is_away_as_the_run_begins_is_waited_for_while_drivers_reload() -> None:
    """Its DaemonSet may be replaced in this moment. Where no driver reloads, nothing can become stale."""
    away = cluster("a", "b").drop("daemonset", PLUGIN).drop("plugin-pod")
    assert (Phase.SKIP, Reason.NO_PLUGIN) == ((seen := away.decide()[0]).phase, seen.reason)
    away.change("driver-pod", patches.NOT_READY, "driver-b")
    assert [Phase.WAIT, Phase.WAIT, Phase.SKIP] == Run(away).phases(0, 299, 300)


# A policy that is withdrawn while its drivers run.


def network_stale(*nodes: str) -> Cluster:
    """Return a network stack whose plugins started before their drivers."""
    found = network(*nodes)
    return found.put("plugin-pod", *(rdma_pod(node["metadata"]["name"], started=-99) for node in found.of("node")))


Made = Callable[..., Cluster]
WITHDRAWN: dict[str, tuple[Made, Made, Callable[[Cluster], Cluster], Reason]] = {
    "deleted": (cluster, stale, lambda found: found.drop("policy"), Reason.NO_POLICY),
    "its CRD deleted": (cluster, stale, lambda found: found.unserved("policy"), Reason.NO_POLICY),
    "driver disabled": (
        cluster, stale, lambda found: found.change("policy", patches.DISABLED), Reason.DRIVER_DISABLED),
    "network driver disabled": (
        network, network_stale, lambda found: found.change("policy", "spec: {ofedDriver: null}"),
        Reason.DRIVER_DISABLED),
}  # fmt: skip


@pytest.mark.parametrize(("fresh", "before", "withdraw", "reason"), WITHDRAWN.values(), ids=WITHDRAWN)
def test_a_policy_that_is_withdrawn_is_waited_for_while_its_drivers_run(
    fresh: Made, before: Made, withdraw: Callable[[Cluster], Cluster], reason: Reason
) -> None:
    """A GitOps tool may create it again. Stale plugins are restarted meanwhile, and no upgrade under way is ended."""
    run = Run(withdraw(before("a")))
    first = run.look()
    assert (Phase.WAIT, reason, ["a"]) == (first.phase, first.reason, deleted(first))
    run.found = withdraw(fresh("a"))
    seen = [(decision.phase, decision.reason) for decision in map(run.look, (60, 119, 120))]
    assert [(Phase.WAIT, reason), (Phase.WAIT, reason), (Phase.SKIP, reason)] == seen
    driver = fresh("b").of("driver-pod")[0]["metadata"]["name"]
    upgrading = withdraw(fresh("a", "b").change("driver-pod", patches.NOT_READY, driver))
    assert [Phase.WAIT, Phase.WAIT] == Run(upgrading).phases(0, 600)


@pytest.mark.parametrize(
    ("found", "settings", "last"),
    [
        (cluster().drop("policy"), JOB, Phase.SKIP),
        (cluster().drop("policy"), Settings(expect=Expect(chart_version="v26.3.4")), Phase.WAIT),
        (cluster().only("policy", obj("policy", {"metadata": {"uid": 7}})), JOB, Phase.WAIT),
    ],
    ids=["deleted", "expected", "malformed"],
)
def test_a_policy_that_is_expected_or_malformed_is_not_gone_after_its_grace(
    found: Cluster, settings: Settings, last: Phase
) -> None:
    """Only a policy that was withdrawn for good ends a run while its drivers are in place."""
    run = Run(cluster(), settings)
    assert [Phase.DONE] == run.phases(0)
    assert [Phase.WAIT, Phase.WAIT, last] == run.then(found).phases(10, 129, 131)


# Every node is verified.

TWO = ("a", "b")
HOST_DRIVER = cluster(*TWO).change("node", labelled("b", deploy_driver="pre-installed"), "b")
UNVERIFIED = {
    "a node to verify": (cluster(*TWO).drop("slice", "0-gpu.nvidia.com-b"), Reason.NODES_PENDING),
    "a node to settle": (cluster(*TWO).drop("driver-pod", "driver-b"), Reason.NODES_PENDING),
    "a label that is not quiet": (
        cluster(*TWO).change("node", labelled("b", state="validation-required"), "b"), Reason.UPGRADE_LABELS_PENDING),
    "an excluded node": (cluster(*TWO).change("node", labelled("b", skip="true"), "b"), DONE),
    "a driver DaemonSet that wants no pods yet": (
        cluster().drop("driver-pod").change("daemonset", patches.NONE_WANTED), Reason.NOT_RENDERED),
    "no driver DaemonSet for one node of two": (
        HOST_DRIVER.drop("daemonset", DRIVER).drop("driver-pod"), Reason.NOT_RENDERED),
    "a malformed pod on an unknown node": (
        cluster().put("driver-pod", merged(driver_pod("gpu-9"), parsed("spec: {containers: x}"))),
        Reason.MALFORMED_OBJECT),
}  # fmt: skip


@pytest.mark.parametrize(("found", "reason"), UNVERIFIED.values(), ids=UNVERIFIED)
def test_done_needs_every_eligible_node_verified_and_quiet(found: Cluster, reason: Reason) -> None:
    """Excluded nodes are reported and do not delay it."""
    assert reason is found.decide()[0].reason


POLICY_WAITS = Reason.POLICY_NOT_READY
ILL = cluster().change("policy", patches.ILL)
ILL_POOLS = [pooled(*pools).change("policy", patches.ILL) for pools in ((A, B), (B, A))]
ANOTHER_GENERATION = cluster().change("policy", patches.ILL).change("policy", "metadata: {generation: 9}")
NEWER = "metadata: {labels: {controller-revision-hash: b}}"
ANOTHER_REVISION = cluster().change("policy", patches.ILL).change("revision", NEWER).change("driver-pod", NEWER)


@pytest.mark.parametrize("state", ["notReady", None, "ignored"])
def test_a_policy_that_is_not_ready_delays_done_for_two_minutes(state: str | None) -> None:
    """No longer: a skipped node or an unrelated operand keeps it so for good. The time begins when all else is done."""
    found = cluster().change("policy", {"status": {"state": state}})
    decisions = Run(found).through(*((seconds, found) for seconds in (0, 119, 120)))
    assert [(POLICY_WAITS, 0), (POLICY_WAITS, 0), (DONE, 1)] == [(one.reason, len(one.warnings)) for one in decisions]
    assert f"is {state or 'empty'}, not ready" in decisions[0].message


GRACE_OF_A_POLICY: dict[str, tuple[list[tuple[float, Cluster]], Reason]] = {
    "pools in any order": ([(0, ILL_POOLS[0]), (60, ILL_POOLS[1]), (120, ILL_POOLS[0])], DONE),
    "after all else": ([(0, stale().change("policy", patches.ILL)), (600, ILL)], POLICY_WAITS),
    "anew once it was ready": ([(0, ILL), (60, cluster()), (130, ILL)], POLICY_WAITS),
    "anew with its generation": ([(0, ILL), (120, ANOTHER_GENERATION), (135, ANOTHER_GENERATION)], POLICY_WAITS),
    "anew with a revision": ([(0, ILL), (120, ANOTHER_REVISION), (135, ANOTHER_REVISION)], POLICY_WAITS),
}


@pytest.mark.parametrize(("steps", "expected"), GRACE_OF_A_POLICY.values(), ids=GRACE_OF_A_POLICY)
def test_the_grace_of_a_policy_begins_when_all_else_is_done(
    steps: list[tuple[float, Cluster]], expected: Reason
) -> None:
    """What came before had another cause."""
    assert expected is reasons_over(*steps)[-1]


@pytest.mark.parametrize("state", ["notReady", "ready"])
def test_nodes_that_are_silent_for_a_moment_do_not_start_the_grace_again(state: str) -> None:
    """In a large fleet, one node is always silent; a policy that is ready only then proves nothing."""
    run, phases = Run(cluster("a", "b")), []
    for seconds in range(0, 121, 20):
        silent = seconds % 40 == 20
        run.found = cluster("a", "b").change("policy", {"status": {"state": state if silent else "notReady"}})
        if silent:
            run.found.change("node", not_ready_since(3600 + seconds - 1), "b")
        phases += run.phases(seconds)
    assert [Phase.WAIT] * 6 + [Phase.DONE] == phases


def test_the_grace_of_a_policy_is_a_setting() -> None:
    """Without it, the state delays nothing."""
    assert Phase.DONE is ILL.decide(Settings(advanced=Advanced(policy_grace=Duration())))[0].phase


@pytest.mark.parametrize(
    ("asked", "refused", "reason", "message"),
    [
        ("ab", "", Reason.REFRESHED, "2 plugins were restarted, 3 run"),
        ("ab", "a", Reason.REFRESHED, "1 plugins were restarted, 3 run"),
        ("a", "a", DONE, "no plugin needed a restart, 3 run"),
    ],
)
def test_done_counts_the_accepted_restarts_of_this_run(asked: str, refused: str, reason: Reason, message: str) -> None:
    """By what the API server accepted. Excluded nodes are not called fresh."""
    memory = Memory(started=LATER)
    for status in stale("a", "b", "c").decide()[0].statuses:
        assert status.stale is not None
        if status.node in asked:
            no = "no" if status.node in refused else ""
            memory = memory.with_restart(status.stale, LATER, refused=no)
    decision, _memory = cluster("a", "b", "c").decide(memory=memory)
    assert (reason, True) == (decision.reason, decision.message.startswith(message))


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (stale(), Reason.EXPECTATION_UNMET),
        (stale().drop("policy"), Reason.POLICY_EXPECTED),
        (cluster(), Reason.EXPECTATION_UNMET),
    ],
)
def test_nothing_is_restarted_before_the_policy_shows_the_expected_release(found: Cluster, reason: Reason) -> None:
    """A plugin that restarted then would be stale after the reload. Also a run of verified nodes is not done."""
    decision, _memory = found.decide(NEW_DRIVER)
    assert (Phase.WAIT, reason, ()) == (decision.phase, decision.reason, decision.actions)


NOT_BEGUN: dict[str, tuple[str, Object | None, Settings]] = {
    "expectation": ("lease", {}, NEW_DRIVER),
    "no policy yet": ("policy", None, NEW_DRIVER),
    "rollout": ("deployment", {"status": {"updatedReplicas": 0}}, JOB),
    "leader": ("lease", {"spec": {"holderIdentity": "old-operator-x"}}, JOB),
    "rendering": ("policy", {"spec": {"driver": {"version": "590.1.2"}}}, JOB),
}


@pytest.mark.parametrize(("part", "patch", "settings"), NOT_BEGUN.values(), ids=NOT_BEGUN)
def test_no_failure_ends_a_run_before_the_release_has_begun(
    part: str, patch: Object | None, settings: Settings
) -> None:
    """A plugin that is broken for its own reasons fails. The upgrade comes later, and needs the run."""
    found = cluster("a", "b").change("plugin-pod", patches.BROKEN, "plugin-b")
    run = Run(found.drop(part) if patch is None else found.change(part, patch), settings)
    assert [Phase.WAIT] * 3 == run.phases(0, 300, 900)
    begun = Run(cluster("a", "b").change("plugin-pod", patches.BROKEN, "plugin-b"), memory=run.memory)
    assert Phase.FAIL is begun.phases(901, 1201)[1]


# A quiet operator.

ROLLING, NOT_LEADING, SETTLING = Reason.OPERATOR_ROLLING_OUT, Reason.OPERATOR_NOT_LEADING, Reason.OPERATOR_SETTLING
OLD_HOLDER = "spec: {holderIdentity: gpu-operator-57d75775c8-szwt7_uuid}"
OLD_REPLICASET = """
metadata: {name: gpu-operator-57d75775c8, annotations: {deployment.kubernetes.io/revision: "1"}}
"""
LEFT: Object = {
    "metadata": {"name": "a-gpu-operator", "uid": "left"},
    "spec": {"replicas": 0},
    "status": {"replicas": None, "updatedReplicas": None, "availableReplicas": None},
}
"""The Deployment of a release under another name, scaled to zero."""


def before(seconds: float) -> str:
    """Return the time so many seconds before LATER."""
    return (LATER - timedelta(seconds=seconds)).isoformat()


def acquired(seconds: float) -> Object:
    """Return a patch of the Lease: acquired so many seconds before LATER."""
    return {"spec": {"acquireTime": before(seconds)}}


def created(seconds: float) -> Object:
    """Return a patch of the driver's revision: created so many seconds before LATER."""
    return {"metadata": {"creationTimestamp": before(seconds)}}


def written(*seconds: float) -> Object:
    """Return a patch of the policy: written so many seconds before LATER."""
    return {"metadata": {"managedFields": [{"manager": "helm", "time": before(each)} for each in seconds]}}


def replaced(seconds: float) -> Object:
    """Return a patch of a Deployment whose last rollout completed so many seconds before LATER."""
    done = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
    return {"status": {"conditions": [{**done, "lastUpdateTime": before(seconds)}]}}


def revision(name: str, number: int, created_at: float, patch: str = "{}") -> Object:
    """Return a revision of the driver DaemonSet, created so many seconds after D."""
    metadata = {"name": name, "labels": {"controller-revision-hash": name}, "creationTimestamp": stamp(created_at)}
    changed: Object = merged(obj("revision", {"metadata": metadata, "revision": number}), parsed(patch))
    return changed


def on_host() -> Cluster:
    """Return a cluster whose operator is named by its host, and leads."""
    found = cluster().change("lease", "spec: {holderIdentity: node-7_0f3c}")
    return found.change("deployment", "spec: {template: {spec: {hostNetwork: true}}}")


def long_named(length: int, holder: str = "", seconds: float = 3600) -> Cluster:
    """Return a network operator whose ReplicaSet has a long name: that of its release.

    It leads since so many seconds, unless there is another holder. The API server cuts long names of pods.
    """
    name = "a" * length + "-5ddc6f64ff"
    found = network().change("replicaset", {"metadata": {"name": name}})
    leads = {"holderIdentity": holder or f"{name}-"[:58] + "x7k2p_0e3f", "acquireTime": before(seconds)}
    return found.change("lease", {"spec": leads})


GONE = "metadata: {ownerReferences: [{kind: DaemonSet, uid: gone-ds, controller: true}]}"
ELSEWHERE_TOO = obj("deployment", "{metadata: {namespace: a, uid: other}, status: {updatedReplicas: 0}}")
OTHER_REPLICASET = obj("replicaset", "metadata: {name: other, ownerReferences: [{uid: other, controller: true}]}")
UNNAMED_NAMESPACE = cluster().change("policy", "status: {namespace: null}")
QUIET = {
    "old pod left": (cluster().change("deployment", "status: {replicas: 2}"), ROLLING),
    "paused with an edit": (
        cluster().change("deployment", "{spec: {paused: true}, status: {updatedReplicas: null}}"), ROLLING),
    "next to a Deployment that was scaled to zero": (
        cluster().change("deployment", "status: {updatedReplicas: 0}").put("deployment", obj("deployment", LEFT)),
        ROLLING),
    "Deployment anywhere until the policy names a namespace": (
        UNNAMED_NAMESPACE.change("deployment", "{metadata: {namespace: x}, status: {replicas: 2}}"), ROLLING),
    "Deployment of another namespace": (cluster().put("deployment", ELSEWHERE_TOO), DONE),
    "Lease of the old operator, whose ReplicaSet is left": (
        cluster().change("lease", OLD_HOLDER).put("replicaset", obj("replicaset", OLD_REPLICASET)), NOT_LEADING),
    "holder's name only begins alike": (
        cluster().change("lease", "spec: {holderIdentity: gpu-operator-5ddc6f64ffx-a_uuid}"), NOT_LEADING),
    "other ReplicaSets listed first": (
        cluster().only("replicaset", OTHER_REPLICASET, obj("replicaset", OLD_REPLICASET), obj("replicaset")), DONE),
    "named by its host": (on_host(), DONE),
    "named by its host, acquired 20 s ago": (on_host().change("lease", acquired(20)), SETTLING),
    "a long name": (long_named(47), DONE),
    "a long name, acquired 20 s ago": (long_named(46, seconds=20), DONE),
    "a name that was cut off, acquired 20 s ago": (long_named(47, seconds=20), SETTLING),
    "another long name": (long_named(47, "b" * 58), NOT_LEADING),
    "replaced 59 s ago, without a Lease": (cluster().drop("lease").change("deployment", replaced(59)), SETTLING),
    "replaced 60 s ago, without a Lease": (cluster().drop("lease").change("deployment", replaced(60)), DONE),
    "replaced 59 s ago on its host": (on_host().change("deployment", replaced(59)), SETTLING),
    "acquired 14 s ago": (cluster().change("lease", acquired(14)), SETTLING),
    "acquired 15 s ago": (cluster().change("lease", acquired(15)), DONE),
    "held but never acquired": (cluster().change("lease", "spec: {acquireTime: null}"), DONE),
    "rendered 14 s ago": (cluster().change("revision", created(14)), SETTLING),
    "rendered 15 s ago": (cluster().change("revision", created(15)), DONE),
    "the later of both": (cluster().change("revision", created(20)).change("lease", acquired(3)), SETTLING),
    "rendered in the future": (cluster().change("revision", created(-9)), SETTLING),
    "revision of a deleted DaemonSet": (cluster().put("revision", revision("gone", 1, 3597, GONE)), DONE),
    "rollback of a deleted DaemonSet": (
        cluster().put("revision", revision("g4", 4, 0, GONE), revision("g3", 3, 600, GONE)), DONE),
    "policy changed 14 s ago": (cluster().change("policy", written(14)), SETTLING),
    "policy changed 15 s ago": (cluster().change("policy", written(15)), DONE),
    "pool changed 14 s ago": (pooled().change("pool", written(14)), SETTLING),
    "latest change counts": (cluster().change("policy", written(60, 3)), SETTLING),
    "changed at no time": (cluster().change("policy", "metadata: {managedFields: [{manager: helm}]}"), DONE),
}  # fmt: skip


@pytest.mark.parametrize(("found", "reason"), QUIET.values(), ids=QUIET)
def test_done_waits_for_a_quiet_operator(found: Cluster, reason: Reason) -> None:
    """It is rolled out, leads with a pod of its current ReplicaSet, and nothing changed for 15 seconds."""
    assert reason is found.decide()[0].reason


SECOND_WITHOUT_IMAGE = pooled(A, Pool("b", ("b",))).change("pool", "spec: {version: null}", "b")
INVISIBLE = {
    "no Deployment, as under OLM": cluster().drop("deployment"),
    "no Lease": cluster().drop("lease"),
    "Lease of another namespace": cluster().change("lease", "metadata: {namespace: x}"),
    "no ReplicaSet": cluster().drop("replicaset"),
    "no current ReplicaSet": cluster().change("replicaset", OLD_REPLICASET),
    "scaled to nothing": cluster().change("deployment", "spec: {replicas: 0}"),
    "Deployment of another namespace": cluster().change("deployment", "metadata: {namespace: x}"),
    "one of two pools names no image": SECOND_WITHOUT_IMAGE,
}


@pytest.mark.parametrize(("age", "expected"), [(59, SETTLING), (60, DONE)])
@pytest.mark.parametrize("name", INVISIBLE)
def test_an_invisible_operator_must_be_quiet_for_a_minute(name: str, age: int, expected: Reason) -> None:
    """Where it, or what it rendered, cannot be compared, only a longer time without a change is a proof."""
    assert expected is INVISIBLE[name].change("revision", created(age)).decide()[0].reason


AHEAD, AGAIN = (cluster().change("revision", created(seconds)) for seconds in (-3600, -3601))
POOLS_AHEAD = [pooled(*order).change("revision", created(-3600)) for order in ((A, B), (B, A))]
FREE = cluster().change("lease", "spec: {holderIdentity: null}")
WITHOUT_POLICY = Cluster(dict(FREE.parts)).drop("policy")
BACK, FORTH = (
    cluster().put("revision", revision("b", 3, moment)).change("revision", "revision: 4", f"{DRIVER}-new")
    for moment in (600, 3610)
)
"""Rollbacks: a revision that was created earlier is the newest again."""
ROLLED, ROLLED_AGAIN = (cluster().change("deployment", replaced(seconds)) for seconds in (-3600, -3610))
EDITED = cluster().change("policy", "metadata: {generation: 99, managedFields: null}").change("policy", written(-9))
OBSERVED: dict[str, tuple[list[tuple[float, Cluster]], list[Reason]]] = {
    "a clock that is ahead": ([(0, AHEAD), (14, AHEAD), (15, AHEAD)], [SETTLING, SETTLING, DONE]),
    "pools in any order": (
        [(0, POOLS_AHEAD[0]), (14, POOLS_AHEAD[1]), (15, POOLS_AHEAD[0])], [SETTLING, SETTLING, DONE]),
    "a second render": ([(0, AHEAD), (20, AGAIN)], [SETTLING, SETTLING]),
    "a second rollout": ([(0, ROLLED), (15, ROLLED), (15, ROLLED_AGAIN)], [SETTLING, DONE, SETTLING]),
    "an edit": ([(0, cluster()), (16, EDITED)], [DONE, SETTLING]),
    "metadata that is touched all the time": (
        [(seconds, cluster().change("policy", written(-seconds))) for seconds in (0, 14, 15)],
        [SETTLING, SETTLING, DONE]),
    "the time runs while nodes are pending": (
        [(0, cluster().change("revision", created(-3600)).drop("slice")), (15, AHEAD)], [Reason.NODES_PENDING, DONE]),
    # Between two operators the Lease is released for a moment, and the next one renders again.
    "a Lease without a holder": ([(0, FREE), (59, FREE), (60, FREE)], [NOT_LEADING, NOT_LEADING, DONE]),
    "the time runs without a policy": ([(0, WITHOUT_POLICY), (60, FREE)], [Reason.NO_POLICY, DONE]),
    # The creation of a revision that is taken up again (``helm rollback``) proves nothing.
    "a rollback": ([(0, BACK), (15, BACK)], [SETTLING, DONE]),
    "a rollback during the run": ([(0, cluster()), (20, FORTH)], [DONE, SETTLING]),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "expected"), OBSERVED.values(), ids=OBSERVED)
def test_no_observed_change_for_the_quiet_time_is_enough(
    steps: list[tuple[float, Cluster]], expected: list[Reason]
) -> None:
    """A wrong clock delays the end and does not block it. A change starts the time again."""
    assert expected == reasons_over(*steps)


ROLLED_OUT = {
    "complete": ("{}", True),
    "one by default": ("spec: {replicas: null}", True),
    "not observed": ("metadata: {generation: 3}", False),
    "scaled up": ("spec: {replicas: 2}", False),
    "an old pod is left": ("status: {replicas: 2}", False),
    "not updated": ("status: {updatedReplicas: 0}", False),
    "not available": ("status: {availableReplicas: 0}", False),
    "without a status": ("status: null", False),
}


@pytest.mark.parametrize(("patch", "rolled_out"), ROLLED_OUT.values(), ids=ROLLED_OUT)
def test_a_deployment_is_rolled_out(patch: str, *, rolled_out: bool) -> None:
    """By the definition of ``kubectl rollout status``."""
    assert rolled_out is is_rolled_out(read_deployment(obj("deployment", patch)))


# Warnings.

FOR_EXPORTER = Settings(driver_clients=(EXPORTER,))
EXPECTED = Settings(expect=Expect(driver_version="580.126.20"))
BY_DIGEST: Object = {"spec": {"driver": {"repository": "nvcr.io/nvidia", "image": "driver", "version": DIGEST}}}
HOSTS = cluster().change("node", labelled(deploy_driver="pre-installed")).drop("plugin-pod")


def one_that_waits() -> Cluster:
    """Return a node that waits for its turn, and two that do not."""
    return cluster("a", "b", "c").change("driver-pod", patches.OUTDATED, "driver-a")


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(one_that_waits(), id="outdated"),
        pytest.param(cluster("a", "b").change("node", labelled("a", state="upgrade-required"), "a"), id="required"),
    ],
)
def test_a_cordoned_node_is_a_warning_while_another_one_waits_for_its_turn(found: Cluster) -> None:
    """It may block the upgrade."""
    (warning,) = found.change("node", CORDONED, "b").decide()[0].warnings
    assert warning == "cordoned, and so counted against the policy's maxUnavailable: b"


CALM: dict[str, tuple[Cluster, Settings]] = {
    "no plugin need start after the MIG manager": (with_mig(cluster(), "failed"), JOB),
    "cordoned, and no node waits": (cluster("a", "b").change("node", CORDONED, "b"), JOB),
    "a node waits, and none is cordoned": (one_that_waits(), JOB),
    "cordoned by the upgrade controller": (
        one_that_waits().change("node", CORDONED, "b").change("node", labelled("b", state="uncordon-required"), "b"),
        JOB),
    "the waiting node is cordoned": (one_that_waits().change("node", CORDONED, "a"), JOB),
    "the network operator counts no cordoned nodes": (
        network("a", "b").change("node", CORDONED, "a").change("driver-pod", patches.OUTDATED, "mofed-b"), JOB),
    "it evicts by a label of its own, and every plugin is there": (
        cluster("a", "b").change("daemonset", ELSEWHERE, PLUGIN).change("policy", EVICTING), JOB),
    "a node without a plugin for another reason": (
        selecting(CLIENT).change("node", {"metadata": {"labels": {"nvidia.com/gpu.deploy.client": "true"}}}), JOB),
    "another client runs no pod there": (
        with_exporter(cluster("a", "b")).drop("plugin-pod", "exporter-b").change(
            "daemonset", avoiding("b"), "dcgm-exporter").change("daemonset", CLIENT, PLUGIN), FOR_EXPORTER),
    "a manual upgrade is waited for": (
        one_that_waits().change("policy", patches.BY_HAND), Settings(on_manual_upgrade=OnManualUpgrade.WAIT)),
    "driver client found": (with_exporter(cluster()), FOR_EXPORTER),
    "no policy": (cluster().drop("policy"), EXPECTED),
    "the policy names another version": (cluster().change("policy", "spec: {driver: {version: 590.1}}"), EXPECTED),
    "the policy names a digest": (openshift().change("policy", BY_DIGEST), JOB),
    "no plugin is desired, no node is eligible": (HOSTS.change("daemonset", patches.NONE_WANTED, PLUGIN), JOB),
}  # fmt: skip


@pytest.mark.parametrize(("found", "settings"), CALM.values(), ids=CALM)
def test_no_warning_without_a_cause(found: Cluster, settings: Settings) -> None:
    """A warning that is always there is not read."""
    assert () == found.decide(settings)[0].warnings


def test_one_source_without_an_image_is_a_warning() -> None:
    """Although another one names its image."""
    assert 1 == len(SECOND_WITHOUT_IMAGE.decide(EXPECTED)[0].warnings)
