"""What ends a run: nothing to protect, every node verified, a quiet operator; and the warnings in addition to it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.decide.end import is_rolled_out
from hook.decide.reasons import Reason
from hook.decide.record import Memory
from hook.decide.result import Phase
from hook.objects import read_deployment
from hook.settings import Advanced, Duration, Expect, OnManualUpgrade, Plugin, Settings
from tests.fixtures.cluster import (
    LATER,
    Cluster,
    cluster,
    labelled,
    reasons,
    stale,
    without_drivers,
    without_operator,
)
from tests.fixtures.limits import of
from tests.fixtures.modes import DIGEST, Pool, avoiding, network, openshift, pooled, with_exporter, with_mig
from tests.fixtures.objects import Object, conditions, driver_pod, merged, obj, parsed, plugin_pod, stamp, waiting
from tests.unit.decide import patches
from tests.unit.decide.messages import CLIENT, CORDONED, ELSEWHERE, EVICTING, selecting
from tests.unit.decide.runs import DRIVER, EXPORTER, JOB, PLUGIN, Run, reasons_over, timeline, wrong_decisions

MANAGED = """metadata: {name: nvidia-dra-driver-kubelet-plugin, namespace: gpu-operator, uid: managed,
ownerReferences: [{kind: GPUCluster, uid: gc, controller: true}]}"""
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


NOWHERE = without_nodes().drop("deployment").drop("revision").drop("daemonset", DRIVER)


@pytest.mark.parametrize(
    ("found", "settings", "expected"),
    [
        pytest.param(without_plugin(), Settings(), Reason.NO_PLUGIN, id="no plugin"),
        pytest.param(
            cluster(), Settings(plugin=Plugin(namespace="x")), Reason.NO_PLUGIN, id="no plugin in its namespace"
        ),
        pytest.param(without_plugin(), EXPECTING, Reason.NO_PLUGIN, id="no plugin, whatever is expected"),
        pytest.param(
            without_plugin(obj("plugin-daemonset", MANAGED)),
            Settings(),
            Reason.OPERATOR_MANAGED,
            id="plugin of the operator",
        ),
        pytest.param(without_operator(cluster()), Settings(), Reason.NO_POLICY, id="no policy"),
        pytest.param(
            without_operator(cluster()).unserved("policy"), Settings(), Reason.NO_POLICY, id="no kind of policy"
        ),
        pytest.param(
            without_drivers(stale()).change("policy", patches.DISABLED),
            Settings(),
            Reason.DRIVER_DISABLED,
            id="driver disabled",
        ),
        pytest.param(without_nodes(), Settings(), Reason.NO_ELIGIBLE_NODE, id="no GPU node"),
        pytest.param(
            stale().change("node", labelled(deploy_driver="false")),
            Settings(),
            Reason.NO_ELIGIBLE_NODE,
            id="no driver deployed",
        ),
        pytest.param(NOWHERE, Settings(), Reason.NO_ELIGIBLE_NODE, id="no operator, node or pod"),
        pytest.param(
            fresh_install().change("policy", "status: {state: ready}"),
            Settings(),
            Reason.NO_ELIGIBLE_NODE,
            id="plugins on nodes without a GPU",
        ),
    ],
)
def test_a_run_with_nothing_to_protect_is_skipped(found: Cluster, settings: Settings, expected: Reason) -> None:
    """The deployment tool sees success with the reason, and nothing is restarted."""
    decision, _memory = found.decide(settings)
    assert (Phase.SKIP, expected, ()) == (decision.phase, decision.reason, decision.actions)


UNREADABLE = without_plugin(obj("plugin-daemonset", "status: {desiredNumberScheduled: x}"))
PENDING = without_nodes().put("driver-pod", obj("driver-pod", "spec: {nodeName: null}"))
PLUGIN_ALONE = without_nodes().put("plugin-pod", plugin_pod()).change("deployment", "status: {replicas: 2}")
MALFORMED = Reason.MALFORMED_OBJECT


@pytest.mark.parametrize(
    ("found", "settings", "expected"),
    [
        (cluster().drop("policy"), EXPECTING, Reason.POLICY_EXPECTED),
        (cluster().unserved("policy"), EXPECTING, Reason.POLICY_EXPECTED),
        (cluster().change("policy", patches.DISABLED), EXPECTING, Reason.EXPECTATION_UNMET),
        (without_nodes(), EXPECTING, Reason.EXPECTATION_UNMET),
        (without_nodes().drop("policy"), EXPECTING, Reason.POLICY_EXPECTED),
        (cluster().only("policy", obj("policy", "metadata: {uid: 7}")), Settings(), MALFORMED),
        (UNREADABLE, Settings(), MALFORMED),
        (without_nodes().put("node", obj("node", "metadata: {labels: []}")), Settings(), MALFORMED),
        (cluster().put("slice", obj("slice", "metadata: {name: ''}")), Settings(), MALFORMED),
        (cluster().drop("node"), Settings(), Reason.NODES_PENDING),  # their pods run
        (cluster().change("node", labelled(present="false")), Settings(), Reason.NODES_PENDING),
        (cluster().drop("daemonset", DRIVER).drop("driver-pod"), Settings(), Reason.NOT_RENDERED),
        (PENDING, Settings(), Reason.OPERATOR_SETTLING),
        (fresh_install(), Settings(), Reason.POLICY_NOT_READY),
        (PLUGIN_ALONE, Settings(), Reason.NODES_PENDING),
    ],
)
def test_what_is_not_known_is_never_a_reason_to_skip(found: Cluster, settings: Settings, expected: Reason) -> None:
    """Unmet expectations, malformed objects and missing labels hold the run instead."""
    rendered: Object = {"metadata": {"creationTimestamp": (LATER - timedelta(seconds=10)).isoformat()}}
    decision, _memory = found.change("revision", rendered).decide(settings)
    assert (Phase.WAIT, expected) == (decision.phase, decision.reason)


def test_one_plugin_pod_on_one_of_the_nodes_is_enough_to_wait() -> None:
    """The operator may not have labelled them yet."""
    bare = cluster("gpu-0", "gpu-1").drop("driver-pod").drop("plugin-pod").change("policy", "status: {state: null}")
    bare.change("node", {"metadata": {"labels": {"nvidia.com/gpu.deploy.driver": "false"}}})
    assert Phase.SKIP is bare.decide()[0].phase
    assert Phase.SKIP is not bare.put("plugin-pod", plugin_pod("gpu-1")).decide()[0].phase


def test_a_plugin_that_the_operator_manages_does_not_speak_for_a_named_one() -> None:
    """The named one is restarted."""
    both = stale().put("daemonset", obj("plugin-daemonset", MANAGED))
    assert 1 == len(both.decide()[0].actions)
    both.drop("daemonset", PLUGIN).drop("plugin-pod")
    assert Reason.OPERATOR_MANAGED is both.decide()[0].reason


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


@pytest.mark.parametrize(
    ("found", "reason", "over"),
    [
        (without_operator(cluster()), Reason.NO_POLICY, (Phase.SKIP, Reason.NO_POLICY)),
        (without_plugin(), Reason.NO_PLUGIN, (Phase.SKIP, Reason.NO_PLUGIN)),
        (unlabelled(), Reason.NODES_PENDING, (Phase.DONE, Reason.NOTHING_STALE)),
        # The grace of a policy whose drivers are still there is shorter.
        (without_drivers(cluster()).drop("policy"), Reason.NO_POLICY, (Phase.SKIP, Reason.NO_POLICY)),
        (
            without_drivers(cluster()).change("policy", patches.DISABLED),
            Reason.DRIVER_DISABLED,
            (Phase.SKIP, Reason.DRIVER_DISABLED),
        ),
    ],
)
def test_a_fleet_that_vanishes_is_skipped_only_after_a_grace_period(
    found: Cluster, reason: Reason, over: tuple[Phase, Reason]
) -> None:
    """It may come back, recreated by its deployment tool or labelled again. If it vanishes again, the time restarts."""
    gone, back = (Phase.WAIT, reason, 0), (Phase.WAIT, Reason.NODES_PENDING, 1)
    steps = ((0, stale()), (2, found), (200, stale()), (250, found), (549, found), (550, found))
    decisions = [(step.phase, step.reason, len(step.actions)) for step in timeline(*steps)]
    assert [back, gone, back, gone, gone, (*over, 0)] == decisions


def test_a_fleet_that_vanishes_at_the_end_of_the_time_is_no_success() -> None:
    """What became of it is unknown. The run ends with the time of its Job."""
    gone = without_operator(cluster())
    early, late = (timeline((0, stale()), (seconds, gone))[1] for seconds in (25 * 60 - 31, 25 * 60 - 30))
    assert (Phase.WAIT, Phase.DEADLINE) == (early.phase, late.phase)
    assert (Reason.TIME_UP, Reason.NO_POLICY) == (late.reason, late.cause)
    # First the policy was gone, now the plugin is: neither for as long as the grace period.
    assert Reason.NO_PLUGIN is reasons_over((0, cluster()), (0, cluster().drop("policy")), (300, without_plugin()))[-1]
    # A fleet that was seen may come back, also if all of its nodes were excluded since.
    excluded = stale().change("node", labelled(skip="true")).change("policy", patches.ILL)
    gone = stale().change("node", labelled(skip="true")).drop("policy")
    decision = timeline((0, stale()), (0, excluded), (0, gone))[-1]
    assert (Phase.WAIT, Reason.NO_POLICY) == (decision.phase, decision.reason)


NO_FLEET = without_nodes().put("node", obj("node", "metadata: {labels: []}"))
LABELLED_NONE = fresh_install().change("policy", "status: {state: ready}")


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (fresh_install(), LABELLED_NONE, Reason.NO_ELIGIBLE_NODE),
        (NO_FLEET, without_nodes(), Reason.NO_ELIGIBLE_NODE),
    ],
)
def test_a_skip_that_is_certain_is_reported_at_once(first: Cluster, second: Cluster, reason: Reason) -> None:
    """The run waited for something, but there was no fleet that could vanish, and no driver that could reload."""
    decisions = timeline((0, first), (90, second))
    assert [Phase.WAIT, Phase.SKIP] == [decision.phase for decision in decisions]
    assert reason is decisions[1].reason


# Every node is verified.


def test_done_needs_every_eligible_node_verified_and_quiet() -> None:
    """Excluded nodes are reported and do not delay it."""
    two = ("a", "b")
    wants_none = cluster().drop("driver-pod").change("daemonset", patches.NONE_WANTED)
    own = cluster(*two).change("node", labelled("b", deploy_driver="pre-installed"), "b")
    unknown = cluster().put("driver-pod", merged(driver_pod("gpu-9"), parsed("spec: {containers: broken}")))
    assert {} == wrong_decisions({
        "a node to verify": (cluster(*two).drop("slice", "0-gpu.nvidia.com-b"), Reason.NODES_PENDING),
        "a node to settle": (cluster(*two).drop("driver-pod", "driver-b"), Reason.NODES_PENDING),
        "a label that is not quiet": (cluster(*two).change("node", labelled("b", state="validation-required"), "b"),
                                      Reason.UPGRADE_LABELS_PENDING),
        "an excluded node": (cluster(*two).change("node", labelled("b", skip="true"), "b"), DONE),
        "a driver DaemonSet that wants no pods yet": (wants_none, Reason.NOT_RENDERED),
        "no driver DaemonSet for one node of two": (own.drop("daemonset", DRIVER).drop("driver-pod"),
                                                    Reason.NOT_RENDERED),
        "a malformed pod on an unknown node": (unknown, Reason.MALFORMED_OBJECT),
    })  # fmt: skip


POLICY_WAITS = Reason.POLICY_NOT_READY
ILL = cluster().change("policy", patches.ILL)
ILL_POOLS = [pooled(*pools).change("policy", patches.ILL) for pools in ((A, B), (B, A))]


@pytest.mark.parametrize("state", ["notReady", None, "ignored"])
def test_a_policy_that_is_not_ready_delays_done_for_two_minutes(state: str | None) -> None:
    """No longer: a skipped node or an unrelated operand keeps it so for good. The time begins when all else is done."""
    found = cluster().change("policy", {"status": {"state": state}})
    decisions = timeline(*((seconds, found) for seconds in (0, 119, 120)))
    assert [(POLICY_WAITS, 0), (POLICY_WAITS, 0), (DONE, 1)] == [(one.reason, len(one.warnings)) for one in decisions]
    assert f"is {state or 'empty'}, not ready" in decisions[0].message


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([(0, ILL_POOLS[0]), (60, ILL_POOLS[1]), (120, ILL_POOLS[0])], DONE, id="pools in any order"),
        pytest.param([(0, stale().change("policy", patches.ILL)), (600, ILL)], POLICY_WAITS, id="after all else"),
        pytest.param([(0, ILL), (60, cluster()), (130, ILL)], POLICY_WAITS, id="anew once it was ready"),
    ],
)
def test_the_grace_of_a_policy_begins_when_all_else_is_done(
    steps: list[tuple[float, Cluster]], expected: Reason
) -> None:
    """What came before had another cause."""
    assert expected is reasons_over(*steps)[-1]


def test_the_grace_of_a_policy_is_a_setting() -> None:
    """Without it, the state delays nothing."""
    assert Phase.DONE is ILL.decide(Settings(advanced=Advanced(policy_grace=Duration())))[0].phase


@pytest.mark.parametrize(
    ("asked", "refused", "reason", "message"),
    [
        ("", "", DONE, "no plugin needed a restart, 3 run"),
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


ROLLING, NOT_LEADING, SETTLING = Reason.OPERATOR_ROLLING_OUT, Reason.OPERATOR_NOT_LEADING, Reason.OPERATOR_SETTLING
OLD_HOLDER = "spec: {holderIdentity: gpu-operator-57d75775c8-szwt7_uuid}"
OLD_REPLICASET = """
metadata: {name: gpu-operator-57d75775c8, annotations: {deployment.kubernetes.io/revision: "1"}}
"""


def before(seconds: float) -> str:
    """Return the time so many seconds before LATER."""
    return (LATER - timedelta(seconds=seconds)).isoformat()


def acquired(seconds: float) -> Object:
    """Return a patch of the Lease: acquired so many seconds before LATER."""
    return {"spec": {"acquireTime": before(seconds)}}


def created(seconds: float) -> Object:
    """Return a patch of the driver's revision: created so many seconds before LATER."""
    return {"metadata": {"creationTimestamp": before(seconds)}}


def written(*seconds: float, part: str = "") -> Object:
    """Return a patch of the policy: written so many seconds before LATER, or a subresource of it."""
    fields = [{"manager": "helm", "subresource": part, "time": before(each)} for each in seconds]
    return {"metadata": {"managedFields": fields}}


def revision(name: str, number: int, created_at: float, patch: str = "{}") -> Object:
    """Return a revision of the driver DaemonSet, created so many seconds after D."""
    metadata = {"name": name, "labels": {"controller-revision-hash": name}, "creationTimestamp": stamp(created_at)}
    changed: Object = merged(obj("revision", {"metadata": metadata, "revision": number}), parsed(patch))
    return changed


def test_done_waits_for_a_quiet_operator() -> None:
    """It is rolled out, leads with a pod of its current ReplicaSet, and nothing changed for 15 seconds."""
    new_pool = {seconds: pooled().change("pool", written(seconds)) for seconds in (14, 15)}
    elsewhere = obj("deployment", "{metadata: {namespace: a, uid: other}, status: {updatedReplicas: 0}}")
    unnamed = cluster().change("policy", "status: {namespace: null}")
    other = obj("replicaset", "metadata: {name: other, ownerReferences: [{uid: other, controller: true}]}")
    gone = "metadata: {ownerReferences: [{kind: DaemonSet, uid: gone-ds, controller: true}]}"
    assert {} == wrong_decisions({
        "not observed": (cluster().change("deployment", "metadata: {generation: 3}"), ROLLING),
        "old pod left": (cluster().change("deployment", "status: {replicas: 2}"), ROLLING),
        "Deployment anywhere until the policy names a namespace": (
            unnamed.change("deployment", "{metadata: {namespace: x}, status: {replicas: 2}}"), ROLLING),
        "Deployment of another namespace": (cluster().put("deployment", elsewhere), DONE),
        "Lease of the old operator, whose ReplicaSet is left": (
            cluster().change("lease", OLD_HOLDER).put("replicaset", obj("replicaset", OLD_REPLICASET)), NOT_LEADING),
        "holder's name only begins alike": (
            cluster().change("lease", "spec: {holderIdentity: gpu-operator-5ddc6f64ffx-a_uuid}"), NOT_LEADING),
        "other ReplicaSets listed first": (
            cluster().only("replicaset", other, obj("replicaset", OLD_REPLICASET), obj("replicaset")), DONE),
        "acquired 14 s ago": (cluster().change("lease", acquired(14)), SETTLING),
        "acquired 15 s ago": (cluster().change("lease", acquired(15)), DONE),
        "held but never acquired": (cluster().change("lease", "spec: {acquireTime: null}"), DONE),
        "rendered 14 s ago": (cluster().change("revision", created(14)), SETTLING),
        "rendered 15 s ago": (cluster().change("revision", created(15)), DONE),
        "the later of both": (cluster().change("revision", created(20)).change("lease", acquired(3)), SETTLING),
        "rendered in the future": (cluster().change("revision", created(-9)), SETTLING),
        "revision of a deleted DaemonSet": (cluster().put("revision", revision("gone", 1, 3597, gone)), DONE),
        "rollback of a deleted DaemonSet": (
            cluster().put("revision", revision("g4", 4, 0, gone), revision("g3", 3, 600, gone)), DONE),
        "policy changed 14 s ago": (cluster().change("policy", written(14)), SETTLING),
        "policy changed 15 s ago": (cluster().change("policy", written(15)), DONE),
        "pool changed 14 s ago": (new_pool[14], SETTLING),
        "pool changed 15 s ago": (new_pool[15], DONE),
        "latest change counts": (cluster().change("policy", written(60, 3)), SETTLING),
        "only the status was written": (cluster().change("policy", written(3, part="status")), DONE),
        "changed at no time": (cluster().change("policy", "metadata: {managedFields: [{manager: helm}]}"), DONE),
    })  # fmt: skip


@pytest.mark.parametrize(("age", "expected"), [(59, SETTLING), (60, DONE)])
def test_an_invisible_operator_must_be_quiet_for_a_minute(age: int, expected: Reason) -> None:
    """Where its Deployment, ReplicaSet or Lease is not found, only a longer time without a change is a proof."""
    hidden = {
        "no Deployment, as under OLM": cluster().drop("deployment"),
        "no Lease": cluster().drop("lease"),
        "Lease of another namespace": cluster().change("lease", "metadata: {namespace: x}"),
        "no ReplicaSet": cluster().drop("replicaset"),
        "no current ReplicaSet": cluster().change("replicaset", OLD_REPLICASET),
        "scaled to nothing": cluster().change("deployment", "spec: {replicas: 0}"),
        "Deployment of another namespace": cluster().change("deployment", "metadata: {namespace: x}"),
    }
    cases = {name: (found.change("revision", created(age)), expected) for name, found in hidden.items()}
    assert {} == wrong_decisions(cases)


def test_no_observed_change_for_the_quiet_time_is_enough() -> None:
    """A wrong clock delays the end and does not block it. A second render starts the time again."""
    ahead = cluster().change("revision", created(-3600))
    assert [SETTLING, SETTLING, DONE] == reasons_over((0, ahead), (14, ahead), (15, ahead))
    listed = [pooled(*order).change("revision", created(-3600)) for order in ((A, B), (B, A), (A, B))]
    assert [SETTLING, SETTLING, DONE] == reasons_over(*zip((0, 14, 15), listed, strict=True)), "in any order"
    again = cluster().change("revision", created(-3601))
    assert [SETTLING, SETTLING] == reasons_over((0, ahead), (20, again))
    pending = cluster().change("revision", created(-3600)).drop("slice")
    assert DONE is reasons_over((0, pending), (15, ahead))[1], "the time runs while nodes are pending"
    # Between two operators the Lease is released for a moment, and the next one renders again.
    free = cluster().change("lease", "spec: {holderIdentity: null}")
    assert [NOT_LEADING, NOT_LEADING, DONE] == reasons_over((0, free), (59, free), (60, free))
    gone = Cluster(dict(free.parts)).drop("policy")
    assert [Reason.NO_POLICY, DONE] == reasons_over((0, gone), (60, free)), "the time runs without a policy, too"
    # The creation of a revision that is taken up again (``helm rollback``) proves nothing.
    back = cluster().put("revision", revision("b", 3, 600)).change("revision", "revision: 4", f"{DRIVER}-new")
    assert [SETTLING, DONE] == reasons_over((0, back), (15, back))
    between = cluster().put("revision", revision("b", 3, 3610)).change("revision", "revision: 4", f"{DRIVER}-new")
    assert SETTLING is reasons_over((0, cluster()), (20, between))[1]


@pytest.mark.parametrize(
    ("patch", "rolled_out"),
    [
        pytest.param("{}", True, id="complete"),
        pytest.param("spec: {replicas: null}", True, id="one-by-default"),
        pytest.param("metadata: {generation: 3}", False, id="not-observed"),
        pytest.param("spec: {replicas: 2}", False, id="scaled-up"),
        pytest.param("status: {replicas: 2}", False, id="an-old-pod-is-left"),
        pytest.param("status: {updatedReplicas: 0}", False, id="not-updated"),
        pytest.param("status: {availableReplicas: 0}", False, id="not-available"),
        pytest.param("status: null", False, id="without-a-status"),
    ],
)
def test_a_deployment_is_rolled_out(patch: str, rolled_out: bool) -> None:
    """By the definition of ``kubectl rollout status``."""
    assert rolled_out is is_rolled_out(read_deployment(obj("deployment", patch)))


FOR_EXPORTER = Settings(driver_clients=(EXPORTER,))
EXPECTED = Settings(expect=Expect(driver_version="580.126.20"))


def one_that_waits() -> Cluster:
    """Return a node that waits for its turn, and two that do not."""
    return cluster("a", "b", "c").change("driver-pod", patches.OUTDATED, "driver-a")


def test_no_warning_without_a_cause() -> None:
    """A warning that is always there is not read."""
    by_digest = {"repository": "nvcr.io/nvidia", "image": "driver", "version": DIGEST}
    hosts = cluster().change("node", labelled(deploy_driver="pre-installed")).drop("plugin-pod")
    for name, (found, settings) in {
        "stale": (stale(), JOB),
        "no plugin need start after the MIG manager": (with_mig(cluster(), "failed"), JOB),
        "cordoned, and no node waits": (cluster("a", "b").change("node", CORDONED, "b"), JOB),
        "a node waits, and none is cordoned": (one_that_waits(), JOB),
        "cordoned by the upgrade controller": (one_that_waits().change("node", CORDONED, "b").change(
            "node", labelled("b", state="uncordon-required"), "b"), JOB),
        "the waiting node is cordoned": (one_that_waits().change("node", CORDONED, "a"), JOB),
        "the network operator counts no cordoned nodes": (network("a", "b").change(
            "node", CORDONED, "a").change("driver-pod", patches.OUTDATED, "mofed-b"), JOB),
        "it evicts by a label of its own, and every plugin is there": (cluster("a", "b").change(
            "daemonset", ELSEWHERE, PLUGIN).change("policy", EVICTING), JOB),
        "a node without a plugin for another reason": (selecting(CLIENT).change(
            "node", {"metadata": {"labels": {"nvidia.com/gpu.deploy.client": "true"}}}), JOB),
        "another client runs no pod there": (with_exporter(cluster("a", "b")).drop("plugin-pod", "exporter-b").change(
            "daemonset", avoiding("b"), "dcgm-exporter").change("daemonset", CLIENT, PLUGIN), FOR_EXPORTER),
        "a manual upgrade is waited for": (one_that_waits().change("policy", patches.BY_HAND), Settings(
            on_manual_upgrade=OnManualUpgrade.WAIT)),
        "driver client found": (with_exporter(cluster()), FOR_EXPORTER),
        "no policy": (cluster().drop("policy"), EXPECTED),
        "the policy names another version": (cluster().change("policy", "spec: {driver: {version: 590.1}}"), EXPECTED),
        "the policy names a digest": (openshift().change("policy", {"spec": {"driver": by_digest}}), JOB),
        "no plugin is desired, no node is eligible": (hosts.change("daemonset", patches.NONE_WANTED, PLUGIN), JOB),
        "no plugin is desired, all nodes are skipped": (cluster().drop("plugin-pod").change(
            "daemonset", patches.NONE_WANTED, PLUGIN).change("node", labelled(skip="true")), JOB),
    }.items():  # fmt: skip
        assert () == found.decide(settings)[0].warnings, name
    pools = pooled(Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",))).change("pool", "spec: {version: null}", "b")
    assert 1 == len(pools.decide(EXPECTED)[0].warnings), "one of them names an image"


@pytest.mark.parametrize(("value", "warned"), [("yes", False), ("no", True)])
def test_a_plugin_whose_selector_a_node_lacks_is_a_warning(value: str, *, warned: bool) -> None:
    """Not if the node has the label, and no plugin runs there for another reason, such as its taint."""
    selector = {"spec": {"template": {"spec": {"nodeSelector": {"dra": "yes"}}}}}
    found = cluster("a", "b").drop("plugin-pod", "plugin-b").change("daemonset", selector, PLUGIN)
    found.change("node", {"metadata": {"labels": {"dra": "yes"}}}, "a")
    found.change("node", {"metadata": {"labels": {"dra": value}}, **patches.TAINT}, "b")
    decision, _memory = found.decide()
    assert ["Verified", "NothingToRefresh"] == reasons(decision.statuses)
    assert warned is any("its nodeSelector asks for dra=yes" in warning for warning in decision.warnings)
