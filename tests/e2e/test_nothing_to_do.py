"""Runs that have nothing to do, or must not do anything."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.e2e.acts import is_ready
from tests.e2e.identity import charted, kubeconfig
from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, Boot, Lab

STALE = ["gpu-0", "gpu-1"]


def _drivers_of_the_hosts(lab: Lab) -> None:
    lab.cluster.kubectl("label", "nodes", "--all", "--overwrite", "nvidia.com/gpu.deploy.driver=pre-installed")
    lab.operator()
    lab.until(lambda: lab.policy_state() == "ready", "the operator has labelled the nodes")


STORY: tuple[tuple[str, Callable[[Lab], object], str], ...] = (
    ("an empty cluster", lambda _: None, "NoPlugin"),
    ("no kind ClusterPolicy", Lab.plugin, "NoPolicy"),
    ("no ClusterPolicy", lambda lab: lab.operator(clusterPolicy__create=False), "NoPolicy"),
    ("drivers disabled", lambda lab: lab.operator(driver__enabled=False), "DriverDisabled"),
    ("pre-installed drivers", _drivers_of_the_hosts, "NoEligibleNode"),
    ("no plugin", Lab.remove_plugin, "NoPlugin"),
)
"""What is done to one cluster, step by step, and the reason that the next run gives."""


def test_nothing_to_protect(boot: Boot, subtests: pytest.Subtests) -> None:
    """Helm succeeds, and log, termination message and event say why nothing was done."""
    # No namespace of plugins is named: at first it does not exist, because the DRA driver may be installed later.
    lab = boot(1)
    for step, prepare, reason in STORY:
        prepare(lab)
        done = lab.post()
        with subtests.test(step):
            assert done.code == 0, done.output
            assert ("Skip", reason, 0) == tuple(lab.story()[key] for key in ("phase", "reason", "exitCode"))
            assert reason in lab.log()
            assert reason in done.output
            assert lab.events("Job", reason)
    assert len(lab.runs()) == len(STORY)
    assert lab.writes() == []


def _deploy_before_ready(lab: Lab, since: float) -> None:
    """Deploy ours; every plugin starts on a loaded driver before any driver pod turns Ready, which all do then."""

    def nodes_of(event: str) -> set[str]:
        return {each.node for each in lab.truth.since(since) if each.event == event}

    hook = lab.start_post()
    lab.until(lambda: nodes_of("plugin-started") == set(STALE), "every plugin has started")
    assert nodes_of("driver-ready") == set()
    for node in STALE:
        lab.annotate(node, "driver-fault", None)
    lab.succeeded(hook)


def test_an_outage_without_a_reload(boot: Boot) -> None:
    """On fresh plugins a run writes nothing but events, also after a node was lost for a while."""
    # That moves only Ready times: the node's plugin stays fresh.
    lab = boot(2)
    lab.fleet(nodes=2, **ALL_AT_ONCE)
    lab.deploy()
    lab.assert_clean([])
    assert lab.writes() == []
    assert lab.story()["reason"] == "NothingStale"
    assert lab.events("DaemonSet", "StalePluginRestarted") == []

    lab.operator(driver=NEW, **ALL_AT_ONCE)
    lab.deploy()
    lab.assert_clean(STALE)
    lab.outage("gpu-0", True)
    lab.until(lambda: not is_ready(lab, "gpu-0"), "the node is lost")
    lab.outage("gpu-0", False)
    lab.until(lambda: is_ready(lab, "gpu-0") and lab.serving() == 2, "the node is back, with its pods Ready")
    lab.deploy()
    assert lab.story()["reason"] == "NothingStale"
    lab.assert_clean(STALE)


def test_plugins_that_start_before_their_driver_is_ready(boot: Boot) -> None:
    """On installation and on reboot plugins start when the driver is loaded, not when its pod is Ready: all fresh."""
    # The Job runs during the installation and again after the reboot, and restarts nothing. Where a driver container
    # restarts in place, the plugin does not notice, and is restarted.
    lab = boot(2)
    for node in STALE:
        lab.annotate(node, "driver-fault", "unready")
    lab.operator()
    lab.plugin()
    _deploy_before_ready(lab, lab.began)
    lab.assert_clean([])

    before, running = time.time(), lab.ready_pods(NAMESPACE)
    for node in STALE:
        lab.annotate(node, "driver-fault", "unready")
        lab.annotate(node, "reboot", "first")
    # Until their kubelets speak again, the API shows the pods of before, which are Ready.
    lab.until(lambda: lab.ready_pods(NAMESPACE) <= running - len(STALE), "both have rebooted, and no driver is Ready")
    _deploy_before_ready(lab, before)
    assert lab.serving() == 2
    lab.assert_clean([])

    lab.annotate("gpu-0", "restart-driver-container", "first")
    lab.until(lambda: lab.truth.stale_now() == ("gpu-0",), "the driver was loaded again under the plugin")
    lab.deploy()
    lab.assert_clean(["gpu-0"])


def test_a_dry_run_and_status_change_nothing(boot: Boot) -> None:
    """Both report what is stale; not even an event is written, as permissions that cannot write show."""
    lab = boot(2)
    lab.stale_fleet(nodes=2)
    lab.deploy(dryRun=True)
    assert all(node in lab.log() for node in STALE)
    assert lab.story()["counts"] == {"Stale": 2}
    ours = f"system:serviceaccount:{NAMESPACE}:gpu-operator-post"
    assert [each for each in lab.cluster.audit() if each["user"]["username"] == ours] == []

    reader = kubeconfig(lab.cluster, "reader", charted(lab.cluster, "ClusterRole", dryRun=True))
    lines = lab.run("run", "--dry-run", "--log-format=json", kubeconfig=reader)
    assert lines.code == 0, lines.said
    assert all(json.loads(line)["message"] for line in lines.out.splitlines())

    shown = lab.run("status", kubeconfig=reader)
    assert shown.code == 0, shown.said
    rows = [line.split()[:3] for line in shown.out.splitlines() if line.startswith("gpu-")]
    assert [[node, "Stale", "PluginStale"] for node in STALE] == rows

    listed = json.loads(lab.run("status", "-o", "json", kubeconfig=reader).out)
    assert [(node, "Stale") for node in STALE] == [(node["node"], node["state"]) for node in listed["nodes"]]
    lab.assert_untouched()
