"""What deployers do besides one `helm upgrade`: roll back, strip hooks, start us before the operator."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, NEW_CHART, OLD, RELEASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e

BOTH = ["gpu-0", "gpu-1"]
WAIT_FOR_JOBS = ("--wait", "--wait-for-jobs")


@pytest.mark.parametrize("helm", [3, 4])
def test_rollback(boot: Callable[..., Lab], helm: int) -> None:
    """`helm rollback` of the operator and of our release, with hook.onRollback, refreshes the plugins again."""
    lab = boot(2, helm)
    lab.fleet(nodes=2, **ALL_AT_ONCE)
    assert lab.post(hook__onRollback=True, trigger="old").code == 0
    lab.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE)
    assert lab.post(hook__onRollback=True, trigger="new").code == 0
    lab.assert_clean(BOTH)
    for release in ("gpu-operator", RELEASE):
        lab.cluster.helm("rollback", release, "1", "-n", NAMESPACE, "--timeout", "4m", version=helm)
    assert {OLD} == set(lab.truth.loaded_now().values())
    assert len(lab.runs()) == 3
    lab.assert_clean(sorted([*BOTH, *BOTH]))


@pytest.mark.parametrize("helm", [3, 4])
def test_plain_job(boot: Callable[..., Lab], helm: int) -> None:
    """Without hooks each changed trigger is another Job, which Helm waits for; an unchanged one runs nothing.

    A Job is immutable, so that a changed one under an old name would be refused.
    """
    lab = boot(2, helm)
    lab.stale_fleet(nodes=2)
    first = lab.post(helm=WAIT_FOR_JOBS, hook__enabled=False, trigger="one")
    assert first.code == 0, first.output
    lab.assert_clean(BOTH)
    second = lab.post(helm=WAIT_FOR_JOBS, hook__enabled=False, trigger="two")
    assert second.code == 0, second.output
    again = lab.post(helm=WAIT_FOR_JOBS, hook__enabled=False, trigger="two")
    assert again.code == 0, again.output
    assert len(lab.runs()) == 2
    assert lab.story()["reason"] == "NothingStale"
    # Helm 3 compares failures with the backoffLimit only, so it hears of this one by its own timeout.
    hurry = (*WAIT_FOR_JOBS, "--timeout", "20s")
    failed = lab.post(helm=hurry, hook__enabled=False, trigger="two", expect__driverVersion="9", stallTimeout="3s")
    assert failed.code != 0
    assert lab.story()["exitCode"] == 124
    lab.assert_clean(BOTH)


def test_started_before_the_operators_upgrade(boot: Callable[..., Lab]) -> None:
    """With expect set, what is still the old release is not taken for the new one (Argo CD, Flux)."""
    lab = boot(2)
    lab.fleet(nodes=2, **ALL_AT_ONCE)
    hook = lab.start_post(expect__chartVersion=NEW_CHART, expect__driverVersion=NEW)
    lab.until(lambda: "gpu-1" in lab.log(), "the run has judged the nodes")
    time.sleep(8)  # Longer than everything that could hold back done, had nothing been expected.
    assert hook.poll() is None
    assert lab.restarts() == []
    lab.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE)
    done = lab.deployed(hook)
    assert done.code == 0, done.output
    lab.assert_clean(BOTH)
    assert {NEW} == set(lab.truth.loaded_now().values())


def test_started_before_the_operators_installation(boot: Callable[..., Lab]) -> None:
    """With expect set, a cluster that does not even know ClusterPolicies is waited for."""
    lab = boot(1)
    lab.plugin()
    hook = lab.start_post(expect__driverVersion=NEW)
    lab.until(lambda: bool(lab.runs()), "the run has begun")
    time.sleep(5)  # A run that took the absence for an answer would be over.
    assert hook.poll() is None
    lab.operator(chart=NEW_CHART, driver=NEW)
    done = lab.deployed(hook)
    assert done.code == 0, done.output
    assert lab.story()["phase"] == "Done"
    assert {NEW} == set(lab.truth.loaded_now().values())
    lab.assert_clean([])
