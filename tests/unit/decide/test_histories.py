"""Histories in which an earlier version broke a promise. Each is a small scene, with what the program must do in it."""

from __future__ import annotations

from hook.decide.reasons import Reason
from hook.decide.result import Phase
from tests.fixtures.cluster import cluster, labelled, reasons, stale
from tests.fixtures.modes import avoiding
from tests.fixtures.objects import Object, driver_pod, merged, plugin_pod
from tests.unit.decide.runs import PLUGIN, Run, deleted

FULL = "0/1 nodes are available: 1 Insufficient memory."


def pending(pod: Object) -> Object:
    """Return a pod of a DaemonSet before the scheduler binds it: only its affinity names its node."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [pod["spec"]["nodeName"]]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": FULL}
    spec = {"nodeName": None, "affinity": {"nodeAffinity": required}}
    status = {"phase": "Pending", "conditions": [condition], "containerStatuses": [], "initContainerStatuses": []}
    whole: Object = merged(pod, {"spec": spec, "status": status})
    return whole


def test_a_toleration_that_compares_numbers_lets_the_plugin_come_back() -> None:
    """A taint with a higher level than the toleration asks for is tolerated, so the stale plugin is restarted."""
    found = stale().change("node", "spec: {taints: [{key: level, value: '950', effect: NoExecute}]}")
    template = "{tolerations: [{key: level, operator: OPERATOR, value: '900'}]}"
    for operator, expected in (("Gt", Reason.PLUGIN_STALE), ("Lt", Reason.TAINT_NOT_TOLERATED)):
        found.change("daemonset", f"spec: {{template: {{spec: {template.replace('OPERATOR', operator)}}}}}", PLUGIN)
        decision, _memory = found.decide()
        assert [expected.value] == reasons(decision.statuses), operator
        assert (["gpu-0"] if operator == "Gt" else []) == deleted(decision), operator


def test_a_pod_that_its_node_has_no_room_for_is_reported_with_the_message_of_the_scheduler() -> None:
    """The pod exists, so the advice is to describe it; a node without room fails after its grace period."""
    for pod, part, reason, end in (
        (plugin_pod(), "plugin-pod", Reason.PLUGIN_STARTING, 300),
        (driver_pod(), "driver-pod", Reason.DRIVER_FAILING, 601),
    ):
        run = Run(cluster().put(part, pending(pod)))
        first, last = run.look(), run.look(end)
        status = first.statuses[0]
        assert (reason, Phase.WAIT) == (status.reason, first.phase), part
        assert FULL in status.message, part
        assert status.subject.endswith(pod["metadata"]["name"]), part
        assert reason.explanation.look.endswith("describe pod {name}"), part
        assert (Phase.FAIL, reason) == (last.phase, last.reason), part


def test_a_node_that_wants_no_plugin_misses_none() -> None:
    """Not while a plugin is missing on an excluded node, and not while other plugins are restarted."""
    found = cluster("skipped", "without", "z").change("node", labelled("skipped", skip="true"), "skipped")
    found.drop("plugin-pod", "plugin-skipped").drop("plugin-pod", "plugin-without")
    run = Run(found.change("daemonset", avoiding("without"), PLUGIN))
    assert [Phase.DONE] == run.phases(0)
    assert ["NodeSkipped", "NothingToRefresh", "Verified"] == reasons(run.look().statuses)
    long = Run(stale("a", "b", "without").drop("plugin-pod", "plugin-without"))
    long.found.change("daemonset", avoiding("without"), PLUGIN)
    assert ["plugin-a", "plugin-b"] == long.restart(0)
    assert [Reason.NOTHING_TO_REFRESH] * 2 == [long.look(seconds).statuses[2].reason for seconds in (1, 299)]
