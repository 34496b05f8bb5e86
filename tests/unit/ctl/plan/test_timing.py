"""How long things took the last time, how long they will take, and what cannot be known."""

from __future__ import annotations

from typing import Final

from ctl.plan.result import Obstacle, Reloads, Spread, Step
from ctl.plan.timing import remaining_seconds, spread, step
from hook.decide.fleet import index
from hook.settings import Duration, Expect, OnManualUpgrade, Settings
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, stale, stale_plugin
from tests.fixtures.limits import down
from tests.fixtures.modes import network
from tests.fixtures.objects import Object, conditions, driver_pod, finished, merged, plugin_pod, stamp, waiting
from tests.fixtures.planning import OLD, fleet, limited, obstacles, only, rotated, unloaded_in

HOUR: Final = 3600
"""``LATER``, at which the remaining time is estimated, in seconds of the fixtures."""
SECOND: Final[Object] = {"metadata": {"name": "other", "uid": "other"}}
"""Another driver pod on the same node."""
SIX: Final = tuple("abcdef")
TWO_AT_ONCE: Final = {"maxParallelUpgrades": 2, "maxUnavailable": "100%"}


def took(*seconds: float) -> Cluster:
    """Return a fleet of which each node's driver took so long, all begun together."""
    found = fleet(len(seconds))
    return found.put("driver-pod", *(driver_pod(f"gpu-{n}", ready=each) for n, each in enumerate(seconds)))


# Reloads.


def test_percentiles_are_values_that_were_measured() -> None:
    """By nearest rank, of however few."""
    for values, expected in (
        ([], None),
        ([7], Spread(7, 7, 1)),
        ([9, 1], Spread(1, 9, 2)),
        (range(1, 11), Spread(5, 9, 10)),
        (range(1, 101), Spread(50, 90, 100)),
    ):
        assert expected == spread(values), values


def test_reloads_are_measured_on_every_driver_pod() -> None:
    """From the driver container's start to Ready; from the beginning of the unloading where pods show it."""
    reloads = only(took(40, 50, 60, 70, 400)).reloads
    assert (Spread(60, 400, 5), None, 5) == (reloads.loading, reloads.whole, reloads.pods)
    reloads = only(unloaded_in(took(40, 50, 60), 30)).reloads
    assert (Spread(50, 60, 3), Spread(80, 90, 3)) == (reloads.loading, reloads.whole)
    assert Spread(70, 70, 2) == only(network("a", "b")).reloads.loading


def test_a_pod_that_cannot_be_believed_is_no_sample() -> None:
    """It counts as a pod without a measurement; the other one has one. Without any the plan reports that."""
    for name, pod in (
        ("not ready", driver_pod("gpu-0", ready=None)),
        ("ready hours later", driver_pod("gpu-0", ready=2 * HOUR)),
        ("no container", {**driver_pod("gpu-0"), "status": {"conditions": conditions(70)}}),
    ):
        reloads = only(took(40, 50).put("driver-pod", pod)).reloads
        assert (Spread(50, 50, 1), 2) == (reloads.loading, reloads.pods), name
        pool = only(took(40).put("driver-pod", pod))
        assert (None, Step(120, 120)) == (pool.reloads.loading, pool.step), name
        assert Obstacle.RELOADS_UNKNOWN in obstacles(pool), name


def test_the_unloading_begins_with_the_first_init_container() -> None:
    """The others come after it. Those that ran for an earlier run of the driver container do not count."""
    spans = {"k8s-driver-manager": (-50, -30), "mesh": (-30, -2)}
    statuses = [merged(finished(name, end), {"state": {"terminated": {"startedAt": stamp(start)}}})
                for name, (start, end) in spans.items()]  # fmt: skip
    for pod, loading, whole in (
        (driver_pod("gpu-0"), 70, Spread(120, 120, 1)),
        (driver_pod("gpu-0", started=500, ready=540, restarts=1, ended_before=490), 40, None),
        (driver_pod("gpu-0", started=9000, ready=9040), 40, None),
    ):
        found = fleet(1).put("driver-pod", merged(pod, {"status": {"initContainerStatuses": statuses}}))
        assert (Spread(loading, loading, 1), whole) == (only(found).reloads.loading, only(found).reloads.whole), whole


# Steps.


def test_steps_are_measured_in_the_last_rotation() -> None:
    """From one turn's beginning to the next one's. A turn begins after all reloads before it, or in that second."""
    for name, begins, expected in (
        ("one at a time", (0, 120, 240, 365), Spread(120, 125, 3)),
        ("two at once", (0, 3, 130, 131, 270, 275), Spread(130, 140, 2)),
        ("begins as the last one is ready", (0, 70, 140, 210), Spread(70, 70, 3)),
        ("a reboot hours later", (0, 120, 240, 5 * HOUR), Spread(120, 120, 2)),
    ):
        pool = only(rotated(fleet(len(begins)), *begins))
        assert (expected, False) == (pool.step.measured, Obstacle.STEP_IS_ASSUMED in obstacles(pool)), name
    spans = ((0, 300), (10, 80), (100, 170), (400, 470), (520, 590))  # one that ends sooner does not end the turn
    found = fleet(len(spans)).change("revision", {"metadata": {"creationTimestamp": stamp(-HOUR)}})
    pods = (driver_pod(f"gpu-{n}", started=began, ready=ready) for n, (began, ready) in enumerate(spans))
    assert Spread(120, 400, 2) == only(found.put("driver-pod", *pods)).step.measured


def test_without_a_rotation_steps_are_assumed() -> None:
    """And the plan reports that."""
    for name, found in (
        ("all at once", rotated(fleet(3), 0, 0, 0)),
        ("a reboot hours later", rotated(fleet(3), 0, 120, 5 * HOUR)),
        ("before the revision", rotated(fleet(3), -2 * HOUR, -2 * HOUR + 120, -2 * HOUR + 240)),
        ("installed one by one", rotated(fleet(3), 0, 120, 240).change("revision", {"revision": 1})),
        ("no revision", rotated(fleet(3), 0, 120, 240).drop("revision")),
        ("not upgraded yet", rotated(fleet(3), 0, 120, 240).change("driver-pod", OLD)),
    ):
        pool = only(found)
        assert (None, Step(120, 120)) == (pool.step.measured, pool.step), name
        assert Obstacle.STEP_IS_ASSUMED in obstacles(pool), name


def test_an_assumed_step_ends_when_the_controller_looks() -> None:
    """It looks every 120 s: nothing notifies it that a driver is ready. A step is a whole reload where pods show it."""
    for reloads, pauses, expected in (
        (Reloads(loading=Spread(20, 119, 5)), None, Step(120, 120)),
        (Reloads(loading=Spread(120, 121, 5)), None, Step(120, 240)),
        (Reloads(loading=Spread(100, 100, 3), whole=Spread(130, 130, 3)), None, Step(240, 240)),
        (Reloads(loading=Spread(130, 130, 3)), Spread(125, 200, 3), Step(130, 200, Spread(125, 200, 3))),
    ):
        assert expected == step(reloads, pauses), reloads


# Remaining time.


def remaining(found: Cluster, settings: Settings | None = None) -> int | None:
    """Estimate the remaining time of a cluster as it stands."""
    asked = settings or Settings(stack=found.stack.name)
    decision, _memory = found.decide(asked)
    return remaining_seconds(index(found.seen(), asked), decision, LATER)


def outdated(*nodes: str, at_once: str = "") -> Cluster:
    """Return six nodes of which some wait for their driver."""
    found = cluster(*SIX).put("driver-pod", *(merged(driver_pod(node), OLD) for node in nodes))
    return found.change("policy", f"spec: {{driver: {{upgradePolicy: {{{at_once}}}}}}}") if at_once else found


def test_the_remaining_time_follows_reloads_and_parallelism() -> None:
    """As the plan has it, with a moment for the last plugin; unknown where manual action is required."""
    failed = {"state": "upgrade-failed"}
    for name, found, expected in (
        ("nothing to do", cluster(*SIX), 0),
        ("one after another", outdated("a", "b", "c"), 400),
        ("two of three at once", outdated("a", "b", "c", at_once="maxParallelUpgrades: 2, maxUnavailable: 100%"), 280),
        ("none at once", outdated("a", "b", at_once="maxUnavailable: 0"), None),
        ("one failed, others did not",
         limited(outdated("a", "b").change("node", labelled("a", **failed), "a"), TWO_AT_ONCE), None),
        ("an excluded node failed",
         limited(outdated("a").change("node", labelled("b", skip="true", **failed), "b"), TWO_AT_ONCE), 160),
        ("a stale node waits for no driver", outdated("a").put("plugin-pod", stale_plugin("b")), 160),
    ):  # fmt: skip
        assert expected == remaining(found), name
    # Plugins wait for their turn: as many at once as may be down. One that does not become ready leaves it unknown.
    for nodes, settings, expected in (
        (6, Settings(), 40),
        (5, Settings(max_parallel_restarts=2), 120),
        (6, down("50%"), 80),
        (6, down(5, max_parallel_restarts=1), 240),
    ):
        assert expected == remaining(stale(*SIX[:nodes]), settings), (nodes, settings)
    manual = outdated("a", at_once="autoUpgrade: false")
    assert None is remaining(manual, Settings(on_manual_upgrade=OnManualUpgrade.WAIT))
    late = cluster("a", "b").change("driver-pod", OLD, "driver-a").put("plugin-pod", plugin_pod("b", ready=None))
    assert None is remaining(late, Settings(plugin_timeout=Duration()))


def test_what_cannot_be_estimated_has_no_estimate() -> None:
    """A time next to a node that waits for someone, or for something that was never measured, would be a guess."""
    crash = waiting("nvidia-driver-ctr", "CrashLoopBackOff")
    crashing = merged(driver_pod("a", ready=None), {"status": {"containerStatuses": [crash]}})
    plugin = plugin_pod("a", ready=None)
    container, *others = plugin["status"]["containerStatuses"]
    states = {"restartCount": 5}, {"state": {"waiting": {"reason": "ImagePullBackOff"}}}
    looping, unpulled = (
        merged(plugin, {"status": {"containerStatuses": [{**container, **state}, *others]}}) for state in states
    )
    unrecorded = {"status": {"conditions": conditions(None)}}
    for name, found, settings in (
        ("no policy, and a driver to come", outdated("a").drop("policy"), None),
        ("no policy, and a stale plugin", stale("a").drop("policy"), None),
        ("no policy, and all verified", cluster(*SIX).drop("policy"), None),
        ("the release is not applied", outdated("a"), Settings(expect=Expect(driver_version="999.1"))),
        ("a driver that crashes", outdated("b", "c").put("driver-pod", crashing), None),
        ("nothing else waits", cluster(*SIX).put("driver-pod", crashing), None),
        ("labels are missing", outdated("b").change("node", labelled("a", present=None), "a"), None),
        ("two drivers", outdated("b").put("driver-pod", merged(driver_pod("a"), SECOND)), None),
        ("an unknown upgrade state", outdated("b").change("node", labelled("a", state="thinking"), "a"), None),
        ("a failed upgrade", outdated("b").change("node", labelled("a", state="upgrade-failed"), "a"), None),
        ("failed, and stale", stale("a").change("node", labelled("a", state="upgrade-failed"), "a"), None),
        ("a plugin that crashes", cluster(*SIX).put("plugin-pod", looping), None),
        ("a plugin without an image", cluster(*SIX).put("plugin-pod", unpulled), None),
        ("no reload was measured", outdated(*SIX).change("driver-pod", unrecorded), None),
    ):
        assert None is remaining(found, settings), name
    # A plugin that only starts has an estimate.
    assert 40 == remaining(cluster(*SIX).put("plugin-pod", plugin))
    assert 0 == remaining(Cluster()), "no node"


def test_the_label_of_a_verified_node_takes_its_time() -> None:
    """The upgrade controller finishes a node up to two minutes after its driver is Ready, and then takes the next."""

    def trailing(seconds: float, *others: str, plugin: Object | None = None, ready: float | None = None) -> Cluster:
        """Return nodes of which the first one began to reload so many seconds ago."""
        began = HOUR - seconds
        found = outdated(*others).put("driver-pod", driver_pod("a", started=began, ready=ready or began + 15))
        found.put("plugin-pod", plugin or plugin_pod("a", waited=HOUR, started=HOUR, ready=HOUR))
        return found.change("node", labelled("a", state="pod-restart-required"), "a")

    for name, found, expected in (
        ("all are verified", trailing(30), 90),
        ("a moment before the controller looks", trailing(118), 2),
        ("after it looked", trailing(130), 110),
        ("the last plugin is stale", trailing(30, plugin=stale_plugin("a")), 90),
        ("a stale plugin takes longer", trailing(100, plugin=stale_plugin("a")), 40),
        ("others follow", trailing(30, "b", "c"), 90 + 2 * 120 + 40),
        ("nothing moves the label", limited(trailing(30), {"autoUpgrade": False}), None),
        ("its times are no measurement", trailing(2 * HOUR, ready=HOUR - 1), 120),
    ):
        assert expected == remaining(found), name
