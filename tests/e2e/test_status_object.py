"""The status object, as other tools read it: through runs that succeed and fail, and with a controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, NEW_CHART, OLD, QUICK, RELEASE, Lab
from tests.promises import promised

pytestmark = pytest.mark.e2e

NAME: Final = f"{RELEASE}-status"
PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"
HURRY: Final = (*QUICK, "timeout=60s")


def _data(lab: Lab) -> dict[str, str]:
    data: dict[str, str] = lab.cluster.get(PATH)["data"]
    return data


def _said(lab: Lab, *keys: str) -> tuple[str, ...]:
    data = _data(lab)
    return tuple(data.get(key, "") for key in keys)


def _await_success(lab: Lab, run: str) -> None:
    """Wait for the success of a run, as a pipeline does."""
    wanted = f"--for=jsonpath={{.data.succeededRunId}}={run}"
    lab.cluster.kubectl("wait", f"configmap/{NAME}", "-n", NAMESPACE, wanted, "--timeout=170s")
    with promised():
        assert lab.truth.stale_now() == ()


def test_runs_and_a_controller(boot: Callable[..., Lab]) -> None:
    """A gate opens when the fleet is done, and for no earlier success; a failure is said; upgrades reset nothing."""
    lab = boot(3)
    lab.fleet(nodes=3, **ALL_AT_ONCE)
    done = lab.post()
    assert done.code == 0, done.output
    first = _data(lab)
    assert (first["phase"], first["progress"], first["driverVersion"]) == ("Succeeded", "3/3", OLD), first
    assert first["succeededRunId"] == first["runId"] != "", first
    assert (first["writer"], first["operatorChartVersion"]) == (f"job/{RELEASE}", "26.3.3")

    # An upgrade: the gate opens after the last node, with the new driver.
    lab.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE)
    hook = lab.start_post(expect__driverVersion=NEW)
    lab.until(lambda: _said(lab, "phase", "succeededRunId") == ("Progressing", ""), "the run has begun")
    assert _data(lab)["runId"] != first["runId"]
    _await_success(lab, _data(lab)["runId"])
    assert _said(lab, "phase", "progress", "driverVersion") == ("Succeeded", "3/3", NEW)
    assert lab.deployed(hook).code == 0

    # A run that fails: its status shows that, and the last success is gone.
    lab.annotate("gpu-1", "driver-fault", "unready")
    lab.operator(driver=OLD, **ALL_AT_ONCE)
    failed = lab.post(args=HURRY, expect__driverVersion=OLD)
    assert failed.code != 0
    assert _said(lab, "phase", "reason", "succeededRunId", "stale") == ("TimedOut", "TimeUp", "", "0")

    # The Job delegates, and the controller finishes its run.
    followed: dict[str, Any] = {"controller__enabled": True, "job__mode": "delegate", "expect__driverVersion": OLD}
    delegated = lab.post(**followed)
    assert delegated.code == 0, delegated.output
    assert _said(lab, "succeededRunId") == ("",)
    run = _data(lab)["runId"]
    # An edit of the policy meanwhile, which changes no driver, does not keep the run from its end.
    lab.until(lambda: "delegatedSpec" not in _data(lab), "the controller has observed the spec", 90)
    policy = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
    before = lab.cluster.get(policy)["metadata"]["generation"]
    edited = lab.cluster.patch(policy, {"spec": {"dcgmExporter": {"enabled": False}}})
    assert edited["metadata"]["generation"] > before
    lab.annotate("gpu-1", "driver-fault", None)
    _await_success(lab, run)
    lab.until(lambda: _said(lab, "phase", "progress") == ("Succeeded", "3/3"), "the controller reports it", 90)
    assert _data(lab)["writer"].startswith("controller/")
