"""Histories in which an earlier version broke a promise. Each is a small scene, with what the program must do in it."""

from __future__ import annotations

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Phase
from hook.objects.names import MERGED_MANAGER
from hook.objects.stacks import StackName
from hook.settings import Expect, Settings
from tests.fixtures.cluster import (
    LATER,
    Cluster,
    cluster,
    reasons,
    stale,
    stale_plugin,
)
from tests.fixtures.following import Controller
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import Pool, avoiding, network, pooled, with_mig, with_toolkit
from tests.fixtures.objects import Object, driver_pod, merged, obj, plugin_pod, stamp
from tests.unit.decide import patches
from tests.unit.decide.runs import DRIVER, MIG, PLUGIN, Run, deleted, failing, named

BOTH = pytest.mark.parametrize("settings", [Settings(), FOLLOWING], ids=["job", "controller"])
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


@pytest.mark.parametrize(
    ("pod", "part", "reason", "end"),
    [
        (plugin_pod(), "plugin-pod", Reason.PLUGIN_STARTING, 300),
        (driver_pod(), "driver-pod", Reason.DRIVER_FAILING, 601),
    ],
)
def test_a_pod_that_its_node_has_no_room_for_is_reported_with_the_message_of_the_scheduler(
    pod: Object, part: str, reason: Reason, end: int
) -> None:
    """The pod exists, so the advice is to describe it; a node without room fails after its grace period."""
    run = Run(cluster().put(part, pending(pod)))
    first, last = run.look(), run.look(end)
    status = first.statuses[0]
    assert (reason, Phase.WAIT) == (status.reason, first.phase)
    assert FULL in status.message
    assert status.subject.endswith(pod["metadata"]["name"])
    assert reason.explanation.look.endswith("describe pod {name}")
    assert (Phase.FAIL, reason) == (last.phase, last.reason)


def _set_up(seconds_before: float, restarts: int) -> Object:
    driver = driver_pod(restarts=2, unloaded=-seconds_before)
    driver["status"]["initContainerStatuses"][0]["restartCount"] = restarts
    return driver


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        pytest.param(_set_up(3, 1), Reason.VERIFIED, id="a reboot"),
        pytest.param(_set_up(0, 1), Reason.VERIFIED, id="a reboot, in the same second"),
        pytest.param(_set_up(10, 1), Reason.VERIFIED, id="a reboot, with the longest start"),
        pytest.param(_set_up(11, 1), Reason.PLUGIN_STALE, id="a crash, after the unloader had failed once"),
        pytest.param(_set_up(3, 0), Reason.PLUGIN_STALE, id="a crash"),
    ],
)
def test_a_reboot_whose_last_run_was_lost_makes_no_fresh_plugin_stale(driver: Object, expected: Reason) -> None:
    """That the init containers ran again with the driver container is visible in themselves."""
    # It waited for the driver, and started before the driver was ready.
    found = cluster().put("driver-pod", driver).put("plugin-pod", plugin_pod(waited=30, started=31))
    assert expected is found.judge().reason


def test_a_deletion_that_fails_every_time_has_a_reason_of_its_own() -> None:
    """More time does not help. It is tried again all the same, and the other nodes come first."""
    run = Run(stale("a", "b"))
    (action, _other) = run.look().actions
    run.memory = run.memory.troubled(action, LATER, "failed calling webhook")
    first = run.look(5)
    assert ["RestartFailing", "PluginStale"] == reasons(first.statuses)
    assert ["b", "a"] == deleted(first)
    run.found.put("plugin-pod", plugin_pod("b"))
    assert (Phase.WAIT, ["a"]) == ((late := run.look(304)).phase, deleted(late))
    last = run.look(305)
    assert (Phase.FAIL, Reason.RESTART_FAILING) == (last.phase, last.reason)
    assert "failed calling webhook" in last.message
    # What waits for its turn does not fail by that.
    one = Run(stale("a", "b"), Settings(max_parallel_restarts=1), run.memory)
    one.found.change("plugin-pod", patches.DELETING, "plugin-b")
    assert [Reason.PLUGIN_QUEUED] * 2 == [one.look(seconds).statuses[0].reason for seconds in (310, 609)]


def test_a_driver_that_is_disabled_for_a_moment_ends_no_run() -> None:
    """As with a policy that is gone: the run waits out the grace period, then for each node that is not done."""
    for name, there, node, disabled in (
        (StackName.GPU, cluster, "driver", patches.DISABLED),
        (StackName.NETWORK, network, "mofed", "spec: {ofedDriver: null}"),
    ):
        for before in (True, False):
            found = there("a", "b").change("driver-pod", patches.NOT_READY, f"{node}-b")
            run = Run(found, Settings(stack=name))
            if before:
                run.look(0)
            found.change("policy", disabled)
            assert [Phase.WAIT] * 2 == run.phases(10, 300), name
            settled = run.then(there("a", "b").change("policy", disabled))
            assert [Phase.WAIT, Phase.SKIP] == settled.phases(100, 310), name


def test_a_plugin_that_is_away_as_the_run_begins_is_waited_for_while_drivers_reload() -> None:
    """Its DaemonSet may be replaced in this moment. Where no driver reloads, nothing can become stale."""
    away = cluster("a", "b").drop("daemonset", PLUGIN).drop("plugin-pod")
    assert (Phase.SKIP, Reason.NO_PLUGIN) == ((seen := away.decide()[0]).phase, seen.reason)
    away.change("driver-pod", patches.NOT_READY, "driver-b")
    run = Run(away)
    assert [Phase.WAIT, Phase.WAIT, Phase.SKIP] == run.phases(0, 299, 300)
    assert ["a"] == deleted(Run(away).then(stale("a", "b").change("driver-pod", patches.NOT_READY, "driver-b")).look(5))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, Reason.NOT_RENDERED),
        ({"pool": "new"}, Reason.NOT_RENDERED),
        ({"pool": "other"}, Reason.NOTHING_STALE),
    ],
)
def test_a_new_pool_with_nodes_is_not_rendered_before_it_has_a_daemonset(
    selector: dict[str, str], expected: Reason
) -> None:
    """Also if it is the one that asks for the expected version. A pool without nodes gets none."""
    new: Object = {"metadata": {"name": "new", "uid": "new-uid"}, "spec": {"version": "590.1.2"}}
    expecting = Settings(expect=Expect(driver_version="590.1.2"))
    # One of its nodes is enough.
    found = pooled(Pool("old", ("a", "b"))).change("node", {"metadata": {"labels": {"pool": "new"}}}, "b")
    found.put("pool", obj("pool/policy", merged(new, {"spec": {"nodeSelector": selector}})))
    for settings in (Settings(), expecting):
        assert expected is found.decide(settings)[0].reason


def test_the_expected_version_is_not_demanded_of_a_pool_that_is_pinned() -> None:
    """Neither of one that names a digest, whose devices publish another version, nor where such a pool may be it."""
    pinned = {"spec": {"version": "sha256:" + "0a" * 32}}
    expecting = Settings(expect=Expect(driver_version="580.126.20"))
    found = pooled(Pool("a", ("a",)), Pool("b", ("b",), "570.1.2")).change("pool", pinned, "b")
    image = f"nvcr.io/nvidia/driver@{pinned['spec']['version']}"
    found.change("daemonset", patches.running(image), "nvidia-gpu-driver-b")
    assert ["Verified", "Verified"] == reasons(found.decide(expecting)[0].statuses)
    for version, expected in (("590.1.2", Phase.DONE), ("580.126.20", Phase.DONE)):
        assert expected is found.decide(Settings(expect=Expect(driver_version=version)))[0].phase, version
    both = pooled(Pool("a", ("a",)), Pool("b", ("b",), "570.1.2"))
    assert Reason.EXPECTATION_UNMET is both.decide(Settings(expect=Expect(driver_version="590.1.2")))[0].reason


EXPECTING = Settings(expect=Expect(driver_version="590.1.2"))


@pytest.mark.parametrize(
    ("part", "patch", "settings"),
    [
        pytest.param("lease", {}, EXPECTING, id="expectation"),
        pytest.param("deployment", {"status": {"updatedReplicas": 0}}, Settings(), id="rollout"),
        pytest.param("lease", {"spec": {"holderIdentity": "old-operator-x"}}, Settings(), id="leader"),
        pytest.param("policy", {"spec": {"driver": {"version": "590.1.2"}}}, Settings(), id="rendering"),
    ],
)
def test_no_failure_ends_a_run_before_the_release_has_begun(
    part: str,
    patch: Object,
    settings: Settings,
) -> None:
    """A plugin that is broken for its own reasons fails. The upgrade comes later, and needs the run."""
    found = cluster("a", "b").change("plugin-pod", patches.BROKEN, "plugin-b").change(part, patch)
    run = Run(found, settings)
    assert [Phase.WAIT] * 3 == run.phases(0, 300, 900)
    begun = Run(cluster("a", "b").change("plugin-pod", patches.BROKEN, "plugin-b"), memory=run.memory)
    assert Phase.FAIL is begun.phases(901, 1201)[1]


@pytest.mark.parametrize(
    ("part", "name", "patch", "why"),
    [
        pytest.param("node", "b", patches.TAINT, "none tolerates its taint mine:NoSchedule", id="tainted"),
        pytest.param("daemonset", DRIVER, avoiding("b"), "none selects it", id="not selected"),
    ],
)
def test_a_node_without_a_driver_that_wants_it_hides_no_failure(
    part: str, name: str, patch: str | Object, why: str
) -> None:
    """It is excluded: no driver will come."""
    found = cluster("a", "b").change(part, patch, name).drop("driver-pod", "driver-b").drop("plugin-pod", "plugin-b")
    decision, _memory = found.decide()
    assert ["Verified", "NoDriverWanted"] == reasons(decision.statuses)
    assert (Phase.DONE, True) == (decision.phase, why in decision.statuses[1].message)
    # A DaemonSet that its controller has not observed, or that is not rendered, may want it in a moment.
    decision, _memory = found.change("daemonset", "metadata: {generation: 9}", DRIVER).decide()
    assert (Phase.WAIT, "DriverMissing") == (decision.phase, reasons(decision.statuses)[1])


def _joined(seconds: float, *, plugin: bool) -> Cluster:
    found = cluster("a", "b").put("driver-pod", driver_pod("b", ready=None))
    found.change("node", {"metadata": {"creationTimestamp": stamp(3600 + seconds)}}, "b")
    return found if plugin else found.drop("plugin-pod", "plugin-b")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(_joined(5, plugin=False), Phase.DONE, id="joined"),
        pytest.param(_joined(0, plugin=False), Phase.WAIT, id="joined in the second of the start"),
        pytest.param(_joined(-5, plugin=False), Phase.WAIT, id="joined before"),
        pytest.param(_joined(5, plugin=True), Phase.WAIT, id="joined again, with a plugin that runs"),
        pytest.param(_joined(5, plugin=False).put("driver-pod", failing("b")), Phase.WAIT, id="its driver fails"),
    ],
)
def test_a_fleet_that_gets_a_node_each_minute_succeeds(found: Cluster, expected: Phase) -> None:
    """A node that joined after the run began, and whose first driver is being loaded, has no stale plugin."""
    decision = Run(found).look(60)
    assert expected is decision.phase
    assert (expected is Phase.DONE) is ("1 of them because they joined" in decision.message)


def test_the_controller_waits_for_a_node_that_joined() -> None:
    """It has no end to wait for."""
    following = Controller(_joined(5, plugin=False)).look(60)
    assert ["Verified", "DriverNotReady"] == reasons(following.statuses)


def test_a_proof_does_not_outlast_the_next_reconfiguration() -> None:
    """Also where its time is one of several writers: that a second one was seen is enough. The toolkit has none."""
    both = Settings(refresh_after=("toolkit", "mig"))
    for found, settings in ((cluster(), MIG), (with_toolkit(cluster()), both)):
        run = Run(with_mig(found, written=900, manager=MERGED_MANAGER), settings)
        assert ["plugin-gpu-0"] == run.restart()
        run.found.only("plugin-pod", named(plugin_pod(waited=910, started=911, ready=915), "next"))
        assert ["Verified"] == reasons(run.look(50).statuses)
        with_mig(run.found, "pending", written=1900, manager=MERGED_MANAGER)
        assert ["PrerequisiteNotReady"] == reasons(run.look(60).statuses)
        with_mig(run.found, written=1900, manager=MERGED_MANAGER)
        assert ["next"] == run.restart(70)


@BOTH
def test_a_node_that_comes_back_as_another_one_starts_anew(settings: Settings) -> None:
    """It was removed and installed again under its name while its plugin was restarted. No backoff is left over."""
    run = Run(stale("a", "b"), settings)
    assert ["plugin-a", "plugin-b"] == run.restart()
    run.found.put("plugin-pod", named(plugin_pod("a"), "next-a")).drop("node", "b").drop("driver-pod", "driver-b")
    assert (Phase.DONE, ["Verified"]) == ((gone := run.look(20)).phase, reasons(gone.statuses))
    run.found.put("node", obj("node", {"metadata": {"name": "b", "creationTimestamp": stamp(3630)}}))
    run.found.put("driver-pod", named(driver_pod("b", started=3640, ready=None), "again-b"))
    run.found.put("plugin-pod", named(plugin_pod("b", waited=None, started=3650, ready=None), "next-b"))
    assert ["Verified", "DriverNotReady"] == reasons(run.look(55).statuses)
    run.found.put("driver-pod", named(driver_pod("b", started=3640, ready=3657), "again-b"))
    assert ["b"] == deleted(run.look(59))


@pytest.mark.parametrize(
    ("waited", "started", "expected"), [(3655, 3656, "Verified"), (None, 3656, "PluginStale"), (None, 3661, "Verified")]
)
@BOTH
def test_a_reboot_while_a_plugin_is_restarted_asks_for_another_proof(
    waited: int | None, started: int, expected: str, settings: Settings
) -> None:
    """The new pod came after the restart, but its containers start again with another load of the driver."""
    run = Run(stale(), settings)
    assert ["plugin-gpu-0"] == run.restart()
    run.found.only("plugin-pod", named(plugin_pod(waited=waited, started=3604, ready=None), "next"))
    assert ["PluginNotReady"] == reasons(run.look(5).statuses)
    rebooted = {"started": 3620, "unloaded": 3618, "ended_before": 3610, "restarts": 1}
    run.found.put("driver-pod", driver_pod(ready=None, **rebooted))  # type: ignore[arg-type]
    assert ["DriverNotReady"] == reasons(run.look(25).statuses)
    run.found.put("driver-pod", driver_pod(ready=3660, **rebooted))  # type: ignore[arg-type]
    run.found.only("plugin-pod", named(plugin_pod(waited=waited, started=started), "next"))
    assert [expected] == reasons(run.look(70).statuses)


@pytest.mark.parametrize(("jump", "expected"), [(-600, []), (600, ["a"])])
@BOTH
def test_a_clock_that_jumps_restarts_nothing_twice(jump: int, expected: list[str], settings: Settings) -> None:
    """If it goes back, all grace periods become longer; if it goes forward, they end. No other pod is deleted."""
    run = Run(stale("a", "b").put("plugin-pod", plugin_pod("b")), settings)
    assert ["a"] == deleted(run.act())
    assert expected == deleted(run.look(jump)), "it is still there"
    run.found.put("plugin-pod", named(stale_plugin("a"), "plugin-a", uid="next", creationTimestamp=stamp(3602)))
    assert [] == deleted(run.look(jump + 1)), "the next one"
