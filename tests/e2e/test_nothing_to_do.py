"""Where there is nothing to do, nothing is done, quickly, and the reason is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.lab import PLUGIN_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e


def test_nothing_changed(boot: Callable[..., Lab]) -> None:
    """A run on a fleet whose plugins are all fresh ends in seconds and writes nothing but events."""
    lab = boot(3)
    lab.fleet(nodes=3)
    done = lab.post()
    assert done.code == 0, done.output
    assert lab.last_run_seconds() < 15
    lab.assert_clean([])
    assert lab.writes() == []
    assert lab.story()["reason"] == "NothingStale"
    assert lab.events("DaemonSet", "StalePluginRestarted") == []


def _nothing(_lab: Lab) -> None:
    """Install nothing."""


def _plugin(lab: Lab) -> None:
    lab.plugin()


def _operator_without_policy(lab: Lab) -> None:
    lab.operator(clusterPolicy__create=False)


def _driver_disabled(lab: Lab) -> None:
    lab.operator(driver__enabled=False)


def _drivers_of_the_hosts(lab: Lab) -> None:
    lab.cluster.kubectl("label", "nodes", "--all", "--overwrite", "nvidia.com/gpu.deploy.driver=pre-installed")
    lab.operator()
    lab.until(lambda: lab.policy_state() == "ready", "the operator has labelled the nodes")


def _no_plugin(lab: Lab) -> None:
    lab.cluster.helm("uninstall", "dra-driver", "-n", PLUGIN_NAMESPACE)


STORY = (
    ("an empty cluster", _nothing, "NoPlugin"),
    ("no kind ClusterPolicy", _plugin, "NoPolicy"),
    ("no ClusterPolicy", _operator_without_policy, "NoPolicy"),
    ("drivers disabled", _driver_disabled, "DriverDisabled"),
    ("pre-installed drivers", _drivers_of_the_hosts, "NoEligibleNode"),
    ("no plugin", _no_plugin, "NoPlugin"),
)
"""What is done to one cluster, step by step, and the reason that the next run gives."""


def test_nothing_to_protect(boot: Callable[..., Lab], subtests: pytest.Subtests) -> None:
    """Helm succeeds within seconds, and log, termination message and event say why nothing was done."""
    lab = boot(1)
    for step, prepare, reason in STORY:
        prepare(lab)
        done = lab.post()
        with subtests.test(step):
            assert done.code == 0, done.output
            assert lab.last_run_seconds() < 15
            assert ("Skip", reason, 0) == tuple(lab.story()[key] for key in ("phase", "reason", "exitCode"))
            assert reason in lab.log()
            assert reason in done.output
            assert lab.events("Job", reason)
    assert len(lab.runs()) == len(STORY)
    assert lab.writes() == []


def test_the_namespace_of_the_plugin_need_not_exist(boot: Callable[..., Lab]) -> None:
    """On a first install of everything the DRA driver comes later: neither Helm nor the program minds."""
    lab = boot(1)
    lab.operator()
    done = lab.post(plugin__namespace=PLUGIN_NAMESPACE)
    assert done.code == 0, done.output
    namespaces = {each["metadata"]["name"] for each in lab.cluster.list("/api/v1/namespaces")}
    assert PLUGIN_NAMESPACE not in namespaces
    assert lab.story()["reason"] == "NoPlugin"
