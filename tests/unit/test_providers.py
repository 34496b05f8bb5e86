"""The container toolkit as a second thing that a consumer must have started after (opt-in)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.config import Settings
from hook.decide.reasons import Reason
from hook.decide.result import DeletePod, Phase
from hook.decide.state import Memory
from tests.fixtures.cluster import LATER, Cluster, cluster
from tests.fixtures.modes import with_exporter, with_toolkit
from tests.fixtures.objects import R, merged, obj, plugin_pod, stamp

TOOLKIT = "nvidia-container-toolkit-daemonset"
ASKED = Settings(refresh_after=("toolkit",))
DEPLOY = "nvidia.com/gpu.deploy.container-toolkit"
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"
STARTED = R + 6
"""When the base plugin's first container started."""


def toolkit(ready: float | None = R + 2) -> Cluster:
    """Give a cluster with a toolkit that is ready since a moment."""
    return with_toolkit(cluster(), ready)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(toolkit(), Reason.VERIFIED, id="ready-before-the-plugin-started"),
        pytest.param(toolkit(STARTED), Reason.PLUGIN_STALE, id="in-the-same-second"),
        pytest.param(toolkit(900), Reason.PLUGIN_STALE, id="replaced-under-the-plugin"),
        pytest.param(toolkit(None), Reason.PREREQUISITE_NOT_READY, id="not-ready"),
        pytest.param(toolkit().drop("provider-pod"), Reason.PREREQUISITE_NOT_READY, id="no-pod"),
        pytest.param(toolkit().change("provider-pod", {"metadata": {"deletionTimestamp": stamp(900)}}),
                     Reason.PREREQUISITE_NOT_READY, id="terminating"),
        pytest.param(toolkit().put("provider-pod", obj("toolkit/pod", "metadata: {name: b, uid: b}")),
                     Reason.PREREQUISITE_NOT_READY, id="two-pods"),
        pytest.param(toolkit().change("provider-pod", OLD_HASH), Reason.PREREQUISITE_NOT_READY,
                     id="about-to-be-replaced"),
        pytest.param(toolkit().change("provider-pod", OLD_HASH)
                     .change("daemonset", "spec: {updateStrategy: {type: OnDelete}}", TOOLKIT), Reason.VERIFIED,
                     id="outdated-and-nobody-replaces-it"),
        pytest.param(toolkit().change("provider-pod", "metadata: {ownerReferences: []}"), Reason.PREREQUISITE_NOT_READY,
                     id="not-the-daemonsets-own"),
        pytest.param(toolkit(900).change("node", {"metadata": {"labels": {DEPLOY: "false"}}}).drop("provider-pod"),
                     Reason.VERIFIED, id="none-wanted-on-this-node"),
        pytest.param(toolkit().drop("driver-pod"), Reason.DRIVER_MISSING, id="the-driver-comes-first"),
    ],
)  # fmt: skip
def test_a_plugin_must_have_started_after_the_toolkit_was_ready(found: Cluster, expected: Reason) -> None:
    """Both the driver and the toolkit of its node; either may be the later one."""
    assert expected is found.judge(ASKED).reason


def test_nobody_waits_for_a_toolkit_that_nobody_asked_for() -> None:
    """Opt-in: without it no pod of the toolkit is even read."""
    found = toolkit(None).drop("provider-pod")
    assert Reason.VERIFIED is found.judge().reason


def test_a_replacement_under_an_unchanged_driver_is_a_new_run() -> None:
    """A plugin that was restarted for the driver may be restarted once more for the toolkit."""
    driver_stale = toolkit().put("plugin-pod", plugin_pod(waited=-9, started=-8, ready=-4))
    decision, memory = driver_stale.decide(ASKED)
    (action,) = decision.actions
    assert isinstance(action, DeletePod)
    memory = memory.asked(action.node, action.pod, LATER)
    fresh = merged(plugin_pod(started=900, ready=910), {"metadata": {"uid": "second"}})
    replaced = toolkit().only("provider-pod", merged(
        with_toolkit(cluster(), 1000).of("provider-pod")[0], {"metadata": {"uid": "toolkit-2"}})).put(
        "plugin-pod", fresh)  # fmt: skip
    again, _memory = replaced.decide(ASKED, memory, LATER + timedelta(seconds=60))
    assert (Reason.PLUGIN_STALE, 1) == (again.statuses[0].reason, len(again.actions))


def test_every_consumer_is_held_to_it() -> None:
    """Also one that people named: it holds the same devices."""
    found = with_exporter(toolkit(STARTED + 1), started=STARTED)
    judged = found.decide(Settings(refresh_after=("toolkit",), driver_clients=()))[0].statuses
    assert [Reason.PLUGIN_STALE] == [one.reason for one in judged]


def test_a_container_that_does_not_run_yet_is_starting_not_stale() -> None:
    """It will start after the toolkit."""
    pod = merged(plugin_pod(ready=None), {"status": {"containerStatuses": []}})
    assert Reason.PLUGIN_STARTING is toolkit().put("plugin-pod", pod).judge(ASKED).reason


def test_a_missing_toolkit_daemonset_is_named() -> None:
    """The operator's toolkit may be switched off; whoever asks for it must learn that there is none."""
    found = toolkit().drop("daemonset", TOOLKIT).drop("provider-pod")
    judged = found.judge(ASKED)
    assert Reason.PREREQUISITE_NOT_READY is judged.reason
    assert "there is no container toolkit DaemonSet" in judged.message


def test_a_toolkit_that_is_replaced_in_the_middle_holds_done_back() -> None:
    """Until it is ready again, and the plugin was restarted after it."""
    found = with_toolkit(cluster("a", "b")).drop("provider-pod", "toolkit-b")
    decision, _memory = found.decide(ASKED)
    assert (Phase.WAIT, [Reason.VERIFIED, Reason.PREREQUISITE_NOT_READY]) == (
        decision.phase,
        [one.reason for one in decision.statuses],
    )


def test_a_toolkit_that_does_not_come_needs_a_person() -> None:
    """Where the policy has it off, no DaemonSet ever appears."""
    found = toolkit().drop("daemonset", TOOLKIT).drop("provider-pod")
    first, memory = found.decide(ASKED, Memory(started=LATER))
    last, _memory = found.decide(ASKED, memory, LATER + Settings().advanced.failed_grace)
    assert (Phase.WAIT, Phase.FAIL, Reason.PREREQUISITE_NOT_READY) == (first.phase, last.phase, last.reason)


def test_a_toolkit_that_is_on_its_way_is_given_time() -> None:
    """Its DaemonSet is there."""
    found = toolkit().drop("provider-pod")
    memory = found.decide(ASKED, Memory(started=LATER))[1]
    assert Phase.WAIT is found.decide(ASKED, memory, LATER + Settings().advanced.failed_grace)[0].phase
