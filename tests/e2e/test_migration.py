"""The main job: a driver migration, node by node, with the plugins refreshed as each node settles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.lab import NAMESPACE, NEW, NEW_CHART, OLD_CHART, PLUGIN_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e

SIX = [f"gpu-{number}" for number in range(6)]


@pytest.mark.parametrize(
    ("helm", "behaviour", "chart", "ready_early"),
    [
        pytest.param(4, "26.3", NEW_CHART, True, id="chart-bump-26.3-helm-4"),
        pytest.param(3, "26.7", NEW_CHART, False, id="chart-bump-26.7-helm-3"),
        pytest.param(4, "26.3", OLD_CHART, False, id="driver-only-26.3-helm-4"),
    ],
)
def test_serial_migration_refreshes_each_plugin_once(
    boot: Callable[..., Lab], helm: int, behaviour: str, chart: str, *, ready_early: bool
) -> None:
    """Six nodes one at a time: zero stale at the end, none restarted early or needlessly.

    Where the ClusterPolicy says ready after the first node, the hook goes on waiting.
    """
    lab = boot(6, helm)
    lab.fleet(nodes=6, simulate__behaviour=behaviour)
    lab.operator(chart=chart, driver=NEW, simulate__behaviour=behaviour)
    hook = lab.start_post()
    lab.until(lambda: lab.policy_state() == "notReady", "the policy's old news end")
    lab.until(lambda: lab.policy_state() == "ready", "the policy says ready", 120)
    unfinished = [node for node, version in lab.truth.loaded_now().items() if version != NEW]
    assert bool(unfinished) is ready_early
    assert not ready_early or hook.poll() is None
    done = lab.deployed(hook)
    assert done.code == 0, done.output
    lab.assert_clean(SIX)
    assert ["delete pods"] * 6 == lab.writes()
    assert {NEW} == set(lab.truth.loaded_now().values())
    _assert_told(lab, done.output)


def _assert_told(lab: Lab, output: str) -> None:
    """Every channel that some deployer shows: Helm's output, the termination message, events on both objects."""
    assert all(line in output for line in lab.log().splitlines())
    story = lab.story()
    assert ("Done", "Refreshed", 0, 6) == (story["phase"], story["reason"], story["exitCode"], story["restarted"])
    assert len(lab.events("Job", "Refreshed")) == 1
    for kind in ("Job", "DaemonSet"):
        told = lab.events(kind, "StalePluginRestarted")
        assert len(told) == 6
        assert all(any(node in message for message in told) for node in SIX)


def test_permissions_in_two_namespaces_are_enough(boot: Callable[..., Lab]) -> None:
    """With RBAC scope namespace nothing is read elsewhere, and the migration is served all the same."""
    lab = boot(2)
    lab.fleet(nodes=2)
    lab.operator(chart=NEW_CHART, driver=NEW)
    done = lab.post(rbac__scope="namespace", rbac__namespaces=[NAMESPACE, PLUGIN_NAMESPACE])
    assert done.code == 0, done.output
    lab.assert_clean(SIX[:2])
    assert len(lab.events("DaemonSet", "StalePluginRestarted")) == 2


@pytest.mark.slow
def test_default_settings(boot: Callable[..., Lab]) -> None:
    """With the chart's real values: done only after the operator was quiet for 15 s; the next run takes seconds."""
    lab = boot(1)
    lab.fleet(nodes=1)
    lab.operator(chart=NEW_CHART, driver=NEW)
    done = lab.post(args=(), timeout="25m")
    assert done.code == 0, done.output
    lab.assert_clean(["gpu-0"])
    # The program compares whole seconds, as most times of the API have.
    assert lab.seconds_since_last_render() > 14
    again = lab.post(args=(), timeout="25m")
    assert again.code == 0, again.output
    assert lab.last_run_seconds() < 10
    lab.assert_clean(["gpu-0"])
