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


def _await_success(lab: Lab, driver: str) -> None:
    """Wait until the fleet is done with a driver, as a pipeline does."""
    for wanted in (f"{{.data.driverVersion}}={driver}", "{.data.phase}=Succeeded"):
        words = ("wait", f"configmap/{NAME}", "-n", NAMESPACE, f"--for=jsonpath={wanted}", "--timeout=170s")
        lab.cluster.kubectl(*words)
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
    assert first["trigger"], first
    assert first["operatorChartVersion"] == "26.3.3"

    # An upgrade: the gate opens after the last node, with the new driver.
    lab.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE)
    hook = lab.start_post(expect__driverVersion=NEW)
    lab.until(lambda: _said(lab, "phase", "driverVersion") == ("Progressing", NEW), "the run has begun")
    assert _data(lab)["trigger"] != first["trigger"]
    _await_success(lab, NEW)
    assert _said(lab, "phase", "progress", "driverVersion") == ("Succeeded", "3/3", NEW)
    assert lab.deployed(hook).code == 0

    # A run that fails: its status shows that.
    lab.annotate("gpu-1", "driver-fault", "unready")
    lab.operator(driver=OLD, **ALL_AT_ONCE)
    failed = lab.post(args=HURRY, expect__driverVersion=OLD)
    assert failed.code != 0
    assert _said(lab, "phase", "reason", "driverVersion", "stale") == ("TimedOut", "TimeUp", OLD, "0")

    # The controller alone continues where the Job was stopped.
    only: dict[str, Any] = {"controller__enabled": True, "job__enabled": False}
    assert lab.post(**only).code == 0
    lab.until(lambda: _said(lab, "phase", "trigger") == ("Progressing", ""), "the controller reports it", 90)
    lab.annotate("gpu-1", "driver-fault", None)
    _await_success(lab, OLD)
    assert _said(lab, "progress") == ("3/3",)
