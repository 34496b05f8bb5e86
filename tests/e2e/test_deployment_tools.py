"""What deployment tools do besides `helm upgrade`: roll back, remove hooks, start our Job before the operator."""

from __future__ import annotations

from subprocess import Popen

from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, NEW_CHART, OLD, RELEASE, Boot, Lab

BOTH = ["gpu-0", "gpu-1"]
WAIT_FOR_JOBS = ("--wait", "--wait-for-jobs")


def test_rollback(boot: Boot) -> None:
    """`helm rollback` of the operator and of our release, with hook.onRollback, refreshes the plugins again."""
    lab = boot(2)
    lab.fleet(nodes=2, **ALL_AT_ONCE)
    lab.deploy(hook__onRollback=True, trigger="old")
    lab.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE)
    lab.deploy(hook__onRollback=True, trigger="new")
    lab.assert_clean(BOTH)
    for release in ("gpu-operator", RELEASE):
        lab.cluster.helm("rollback", release, "1", "-n", NAMESPACE, "--timeout", "4m")
    assert {OLD} == set(lab.truth.loaded_now().values())
    assert len(lab.runs()) == 3
    lab.assert_clean(sorted([*BOTH, *BOTH]))


def test_plain_job(boot: Boot) -> None:
    """Without hooks each changed trigger is another Job, which Helm waits for; an unchanged one runs nothing."""
    # A Job is immutable, so that a changed one under an old name would be refused.
    lab = boot(2, 3)
    lab.stale_fleet(nodes=2)
    lab.deploy(helm=WAIT_FOR_JOBS, hook__enabled=False, trigger="one")
    lab.assert_clean(BOTH)
    lab.deploy(helm=WAIT_FOR_JOBS, hook__enabled=False, trigger="two")
    lab.deploy(helm=WAIT_FOR_JOBS, hook__enabled=False, trigger="two")
    assert len(lab.runs()) == 2
    assert lab.story()["reason"] == "NothingStale"
    # Helm 3 compares failures with the backoffLimit only, so it hears of this one by its own timeout.
    quick = (*WAIT_FOR_JOBS, "--timeout", "45s")
    failed = lab.post(helm=quick, hook__enabled=False, trigger="two", expect__driverVersion="9", timeout="30s")
    assert failed.code != 0
    assert lab.story()["exitCode"] == 124
    lab.assert_clean(BOTH)


def test_started_before_the_operator(boot: Boot) -> None:
    """With expect set, a cluster without ClusterPolicies is waited for, and the old release is not taken for new."""
    # Argo CD and Flux may start the Job first.
    lab = boot(2)
    lab.plugin()
    hook = lab.start_post(expect__driverVersion=OLD)
    lab.until(lambda: "PolicyExpected" in lab.log() or hook.poll() is not None, "the run waits for an operator")
    assert hook.poll() is None
    lab.operator(**ALL_AT_ONCE)
    _succeeds(lab, hook)
    assert {OLD} == set(lab.truth.loaded_now().values())
    lab.assert_clean([])

    hook = lab.start_post(expect__chartVersion=NEW_CHART, expect__driverVersion=NEW)
    lab.until(lambda: "ExpectationUnmet" in lab.log() or hook.poll() is not None, "the run waits for the release")
    assert hook.poll() is None
    assert lab.restarts() == []
    lab.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE)
    _succeeds(lab, hook)
    lab.assert_clean(BOTH)
    assert {NEW} == set(lab.truth.loaded_now().values())


def _succeeds(lab: Lab, hook: Popen[str]) -> None:
    lab.succeeded(hook)
    assert lab.story()["phase"] == "Done"
