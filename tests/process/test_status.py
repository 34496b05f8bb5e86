"""The command status as a process: who restarts what is stale, and the exit code for scripts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import pytest
from msgspec import structs

from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, NodeState, NodeStatus, Phase
from hook.objects import names
from hook.run import lookup
from hook.run.lookup import Lookup
from hook.run.status import ControllerStatus, OpenBreaker, lease_status
from tests.client.controller import stale_pod
from tests.client.fixtured import showing
from tests.fixtures.cluster import cluster, labelled, stale
from tests.fixtures.objects import obj
from tests.process.program import run, write_kubeconfig

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fixtures.cluster import Cluster
    from tests.fixtures.objects import Object
    from tests.process.program import Ended

NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
RECORD: Final = ControllerStatus(spec_hashes={"gpu": ""}, writer="pod-a")
OTHER: Final = ControllerStatus(spec_hashes={"network": ""}, writer="pod-a")
NOTHING_RESTARTS: Final = "nothing restarts the plugin by itself"
DELETE: Final = "kubectl -n nvidia-dra-driver-gpu delete pod plugin-"
UNTOLERATED: Final = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
OUTDATED: Final = {"metadata": {"labels": {"controller-revision-hash": "old"}}}
BY_HAND: Final = {"spec": {"driver": {"upgradePolicy": {"autoUpgrade": False}}}}
STARTING: Final = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}


def status(folder: Path, found: Cluster, *arguments: str, controller: bool = False) -> Ended:
    """Look at a cluster, perhaps with a controller that is alive."""
    own = (lambda: [lease(datetime.now(UTC))]) if controller else list
    with showing(found, own) as server:
        file = write_kubeconfig(folder / "kubeconfig", server.api.host)
        return run("status", f"--kubeconfig={file}", *arguments)


def lease(renewed: datetime, record: ControllerStatus | None = RECORD) -> Object:
    """Return the Lease of a controller."""
    metadata = {"name": "post", "namespace": "gpu-operator", "labels": names.OWN_LABELS}
    annotations = {names.STATUS_ANNOTATION: record.encode()} if record is not None else {}
    spec = {"holderIdentity": "pod-a", "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    return {"kind": "Lease", "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def test_a_stale_plugin_that_nothing_restarts_is_named_with_what_to_do(tmp_path: Path) -> None:
    """All drivers are settled, so waiting changes nothing: it is not called normal."""
    done = status(tmp_path, stale("a"))
    assert (0, True) == (done.code, NOTHING_RESTARTS in done.out), done.said
    assert f"{DELETE}a" in done.out
    assert "helm upgrade" in done.out
    assert "per node is normal" not in done.out


def test_a_stale_plugin_is_left_to_the_controller_that_is_alive(tmp_path: Path) -> None:
    """The one that leads restarts it; a second hand would only disturb it."""
    done = status(tmp_path, stale("a"), controller=True)
    assert "PluginStale (a): The controller (gpu-operator/post) restarts the plugin." in done.out, done.said
    assert (False, False) == (NOTHING_RESTARTS in done.out, "delete pod" in done.out)
    assert "per node is normal" not in done.out


FINE: Final = {
    "verified": cluster("a"),
    "driver-starting": cluster("a").change("driver-pod", STARTING),
    "excluded": cluster("a", "b").change("node", labelled("b", skip="true"), "b"),
}
WRONG: Final = {
    "stale": stale("a"),
    "one-of-two-stale": cluster("a", "b").put("plugin-pod", *stale("a").of("plugin-pod")),
    "stale-and-not-tolerated": stale("a").change("node", UNTOLERATED),
    "driver-upgrade-failed": cluster("a").change("node", labelled("a", state="upgrade-failed")),
    "stale-under-another-name": stale("a").only(
        "daemonset", obj("driver-daemonset"), obj("plugin-daemonset", {"metadata": {"name": "mine"}})
    ),
}


@pytest.mark.parametrize(
    ("found", "code"),
    [
        *(pytest.param(found, 0, id=name) for name, found in FINE.items()),
        *(pytest.param(found, 3, id=name) for name, found in WRONG.items()),
    ],
)
def test_a_script_learns_by_the_exit_code_whether_something_is_wrong(tmp_path: Path, found: Cluster, code: int) -> None:
    """3 for a stale plugin or a failure; what is in progress is not wrong."""
    done = status(tmp_path, found, "--exit-code")
    assert code == done.code, done.said


def test_the_exit_code_does_not_depend_on_the_output(tmp_path: Path) -> None:
    """A script that reads JSON gets both."""
    done = status(tmp_path, stale("a"), "--exit-code", "--output=json")
    assert (3, "Stale") == (done.code, json.loads(done.out)["nodes"][0]["state"])


def test_a_failed_node_is_wrong_too(tmp_path: Path) -> None:
    """Here one that has to be upgraded by hand, where that was declared a failure."""
    found = cluster("a").change("driver-pod", OUTDATED).change("policy", BY_HAND)
    done = status(tmp_path, found, "--exit-code", "onManualUpgrade=fail")
    assert (3, True) == (done.code, "Failed  ManualUpgrade" in done.out), done.said
    assert status(tmp_path, found, "--exit-code", "onManualUpgrade=report").code == 0


def test_an_error_is_not_taken_for_a_stale_plugin(tmp_path: Path) -> None:
    """1: nothing was seen."""
    file = write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1")
    done = run("status", "--exit-code", f"--kubeconfig={file}")
    assert done.code == 1, done.said


def test_help_says_what_each_exit_code_means() -> None:
    """Also of what is neither stale nor done."""
    shown = " ".join(run("status", "--help").out.split())
    assert "3 if a plugin is stale or a node has failed" in shown
    assert "0 otherwise, also while nodes wait or restart" in shown


def judged(state: NodeState, reason: Reason = Reason.PLUGIN_STALE, node: str = "a", stack: str = "gpu") -> NodeStatus:
    """Judge a node."""
    return NodeStatus(node, state, reason, "so it is", subject=f"ns/plugin-{node}", stack=stack)


def pending(*statuses: NodeStatus) -> Decision:
    """Wait for nodes."""
    due = tuple(DeletePod(one.node, stale_pod()) for one in statuses if one.reason is Reason.PLUGIN_STALE)
    return Decision(Phase.WAIT, Reason.NODES_PENDING, "so it is", statuses=statuses, actions=due, stack="gpu")


def advice(*statuses: NodeStatus, seen: Lookup | None = None) -> str:
    """Return what one look advises."""
    return "\n".join(lookup.advice(pending(*statuses), seen or Lookup(NOW)))


STALE: Final = judged(NodeState.STALE)
QUEUED: Final = judged(NodeState.STALE, Reason.PLUGIN_QUEUED, "b")
OPENED: Final = structs.replace(RECORD, breakers={"gpu": OpenBreaker(NOW, "9 of 10 nodes")})


def test_nodes_that_reload_are_normal_beside_a_stale_plugin() -> None:
    """Both are said: the other nodes do change by themselves."""
    told = advice(STALE, judged(NodeState.WAITING, Reason.DRIVER_NOT_READY, "b"))
    assert (True, True) == ("per node is normal" in told, NOTHING_RESTARTS in told)


def test_a_plugin_that_is_being_restarted_shows_that_something_restarts_them() -> None:
    """A run is in progress: the stale ones wait for their turn."""
    told = advice(STALE, judged(NodeState.RESTARTING, Reason.PLUGIN_RESTARTING, "b"))
    assert (True, False) == ("per node is normal" in told, NOTHING_RESTARTS in told)


def test_no_restart_is_advised_before_the_driver_is_the_one_that_is_asked_for() -> None:
    """The operator is about to reload it: a plugin that is restarted now would be stale again."""
    early = replace(pending(STALE), reason=Reason.EXPECTATION_UNMET, actions=())
    (told,) = lookup.advice(early, Lookup(NOW))
    assert told.startswith("ExpectationUnmet: ")


def test_several_stale_plugins_share_one_advice() -> None:
    """With the pod of the first."""
    told = advice(STALE, QUEUED)
    assert told.startswith("PluginStale (a, b): ")
    assert told.endswith("the driver pod of node a is Ready: kubectl -n ns delete pod plugin-a")


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        pytest.param(Lookup(NOW), "No controller is active here, so", id="no-lease"),
        pytest.param(Lookup(NOW, lease_status(lease(NOW - timedelta(minutes=5)))),
                     "No controller is active here, so", id="dead"),
        pytest.param(Lookup(NOW, lease_status(lease(NOW, OTHER))),
                     "No controller is active here, so", id="of-another-stack"),
        pytest.param(Lookup(NOW, lease_status(lease(NOW, None))), "(it has not written a status yet)", id="just-began"),
        pytest.param(Lookup(NOW, problem="no"), "No controller is known to be active here (no), so", id="not-allowed"),
    ],
)  # fmt: skip
def test_what_no_controller_restarts_is_said_with_the_reason(seen: Lookup, words: str) -> None:
    """A controller that is dead, blind to this stack or unknown restarts nothing."""
    told = advice(STALE, seen=seen)
    assert (True, True) == (words in told, NOTHING_RESTARTS in told), told


def test_a_controller_with_an_open_breaker_restarts_nothing() -> None:
    """It says what to compare first; deleting the plugin by hand is no advice then."""
    told = advice(STALE, seen=Lookup(NOW, lease_status(lease(NOW, OPENED))))
    assert told.startswith("BreakerOpen: ")
    assert (False, False) == ("restarts the plugin." in told, "delete pod" in told)


def test_the_breaker_of_an_earlier_leader_is_no_longer_open() -> None:
    """It was in the memory of a process that is gone; the one that leads now restarts what is stale."""
    seen = Lookup(NOW, lease_status(lease(NOW, structs.replace(OPENED, writer="another-pod"))))
    assert advice(STALE, seen=seen).startswith("PluginStale (a): The controller")
    assert not [line for line in lookup.as_lines(seen) if "breaker" in line]
    found = lookup.as_json(seen)
    assert found is not None
    assert {} == found["breakers"]


def test_each_stack_is_advised_by_itself() -> None:
    """A controller of one stack leaves the plugins of another as they are."""
    told = advice(STALE, judged(NodeState.STALE, node="b", stack="network"), seen=Lookup(NOW, lease_status(lease(NOW))))
    assert ["The controller" in line for line in told.splitlines()] == [True, False]
    assert [line.split(":")[0] for line in told.splitlines()] == ["PluginStale (a)", "PluginStale (b)"]


def test_no_controller_restarts_what_has_no_name() -> None:
    """A stale plugin that is not among the names has its own advice, and no command that deletes its pod."""
    told = advice(
        STALE, judged(NodeState.STALE, Reason.UNNAMED_PLUGIN, node="b"), seen=Lookup(NOW, lease_status(lease(NOW)))
    )
    assert ["UnnamedPlugin (b)", "PluginStale (a)"] == [line.split(":")[0] for line in told.splitlines()]


def test_a_failure_that_a_run_would_wait_with_is_advised_at_once() -> None:
    """One look has no memory: it cannot know for how long a node has failed."""
    told = advice(judged(NodeState.WAITING, Reason.UPGRADE_FAILED))
    assert told.startswith("UpgradeFailed (a): ")
    assert "per node is normal" not in told


def test_a_fleet_that_is_done_needs_no_advice() -> None:
    """Neither a meaning nor a command."""
    done = Decision(Phase.DONE, Reason.NOTHING_STALE, "", statuses=(judged(NodeState.VERIFIED, Reason.VERIFIED),))
    assert lookup.advice(done, Lookup(NOW)) == []
