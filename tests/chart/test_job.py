"""Job and controller: as a hook and plain, image, security, and how the Job fails. The golden files show the rest."""

from __future__ import annotations

import re
from typing import Final

import pytest
import yaml

from hook.cli import EXIT_USAGE
from hook.kube.election import RELEASE_SECONDS
from hook.kube.events import STOP_SECONDS
from hook.kube.taints import WRITE_SECONDS
from hook.run.job import EXIT_DEADLINE, EXIT_FAILED
from hook.run.restarts import JOIN_SECONDS
from hook.run.statusobject import TIMEOUT_SECONDS
from hook.run.taints import REMOVE_SECONDS
from tests.chart.rendering import CHART, HOOK_ANNOTATIONS, Helm, Values

PLAIN: Final[Values] = {"hook.enabled": False}
FLUX: Final = "--api-versions=helm.toolkit.fluxcd.io/v2"
APP_VERSION: Final = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
NAME: Final = "team/gpu-operator-post"
DIGEST: Final = "sha256:" + "0123456789abcdef" * 4
NEW_NAME: Final[tuple[Values, ...]] = (
    {"trigger": "v26.7.0"},
    {"expect.chartVersion": "v26.7.0"},
    {"timeout": "2h"},
    {"advanced.policyGrace": "3m"},
    {"image.tag": "next"},
    {"podLabels": {"a": "b"}},
    {"ttlSecondsAfterFinished": 0},
)
BOTH: Final[Values] = {"controller.enabled": True}
OF_A_RUN: Final = (*NEW_NAME[:3], {"job.enabled": False}, {"jobLabels": {"a": "b"}})
SAME_NAME: Final[tuple[Values, ...]] = (
    {"jobAnnotations": {"a": "b"}},
    {"podNetworkPolicy.enabled": True},
    {"driver": {"version": "1"}},
    {"rbac.create": False},
    {"controller.maxUnavailable": 1},
)
IMAGES: Final[tuple[tuple[Values, str], ...]] = (
    ({}, f"registry.example/{NAME}:{APP_VERSION}"),
    ({"image.digest": DIGEST, "image.tag": "1"}, f"registry.example/{NAME}@{DIGEST}"),
    ({"image.registry": "reg/mirror/"}, f"reg/mirror/{NAME}:{APP_VERSION}"),
    ({"image.registry": ""}, f"{NAME}:{APP_VERSION}"),
    ({"global.imageRegistry": "g"}, f"g/{NAME}:{APP_VERSION}"),
    ({"global.imageRegistry": "g", "image.registry": "r", "image.repository": "a/b", "image.tag": "c"}, "g/a/b:c"),
)


SILENT: Final = {key: value for key, value in HOOK_ANNOTATIONS.items() if not key.endswith("output-log-policy")}
HOOKS: Final[dict[str, tuple[Values, tuple[str, ...], dict[str, str] | None]]] = {
    "default": ({}, (), HOOK_ANNOTATIONS),
    "weight": ({"hook.weight": -5}, (), HOOK_ANNOTATIONS | {"helm.sh/hook-weight": "-5"}),
    "policy": (
        {"hook.deletePolicy": "hook-failed"},
        (),
        HOOK_ANNOTATIONS | {"helm.sh/hook-delete-policy": "hook-failed"},
    ),
    "more": ({"hook.annotations": {"a/b": "c"}}, (), HOOK_ANNOTATIONS | {"a/b": "c"}),
    "rollback": (
        {"hook.onRollback": True},
        (),
        HOOK_ANNOTATIONS | {"helm.sh/hook": "post-install,post-upgrade,post-rollback"},
    ),
    "Flux, which would crash over the log": ({}, (FLUX,), SILENT),
    "no log": ({"hook.outputLogs": "never"}, (), SILENT),
    "always the log": ({"hook.outputLogs": "always"}, (FLUX,), HOOK_ANNOTATIONS),
    "plain": ({**PLAIN, "hook.annotations": {"a/b": "c"}}, (), None),
}
"""Values, options of Helm, and the annotations of the Job."""


@pytest.mark.parametrize(("values", "options", "expected"), HOOKS.values(), ids=HOOKS.keys())
def test_hook_annotations(
    helm: Helm, values: Values, options: tuple[str, ...], expected: dict[str, str] | None
) -> None:
    """They follow the values."""
    assert helm.render(values, *options).job["metadata"].get("annotations") == expected


def test_a_plain_job_has_a_name_for_each_content(helm: Helm) -> None:
    """It cannot be changed."""
    names = [helm.render(PLAIN | values).job["metadata"]["name"] for values in ({}, *NEW_NAME)]
    assert all(re.fullmatch(r"gpu-operator-post-[0-9a-f]{10}", name) for name in names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("values", SAME_NAME, ids=str)
def test_a_plain_job_keeps_its_name_if_its_content_is_the_same(helm: Helm, values: Values) -> None:
    """Values of other objects do not run it again."""
    before, after = (helm.render(each).job for each in (PLAIN, PLAIN | values))
    assert (before["metadata"]["name"], before["spec"]) == (after["metadata"]["name"], after["spec"])


TIMES: Final = {"25m": 1500, "90s": 90, "1h30m": 5400, "2h": 7200, "1h1m1s": 3661, "08m": 480, "1h5s": 3605}


@pytest.mark.parametrize("timeout", TIMES)
def test_kubernetes_stops_the_job_when_its_timeout_is_over(helm: Helm, timeout: str) -> None:
    """The chart reads durations as Go does; a leading zero does not make one octal."""
    assert helm.render({"timeout": timeout}).job["spec"]["activeDeadlineSeconds"] == TIMES[timeout]


def test_what_may_wait_after_a_signal_fits_into_the_grace_period(helm: Helm) -> None:
    """Pending calls, the status object, Events, the Lease or the last deletions of rules, each until its limit."""
    grace = helm.render().job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert JOIN_SECONDS + 2 * TIMEOUT_SECONDS + 2 * STOP_SECONDS + RELEASE_SECONDS < grace
    assert JOIN_SECONDS + REMOVE_SECONDS + WRITE_SECONDS + TIMEOUT_SECONDS + STOP_SECONDS < grace


def test_final_exits_fail_the_job_at_once_and_evictions_do_not_count(helm: Helm) -> None:
    """A retry changes neither a usage error, nor a need for manual action, nor a deadline."""
    rendered = helm.render()
    final, evicted = rendered.job["spec"]["podFailurePolicy"]["rules"]
    codes = {"containerName": rendered.container["name"], "operator": "In", "values": [2, 3, 124]}
    assert final == {"action": "FailJob", "onExitCodes": codes}
    assert [EXIT_USAGE, EXIT_FAILED, EXIT_DEADLINE] == codes["values"]
    assert evicted == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    assert rendered.pod["restartPolicy"] == "Never"


@pytest.mark.parametrize(("values", "image"), IMAGES)
def test_image_reference(helm: Helm, values: Values, image: str) -> None:
    """A digest overrides the tag, and the registry for all charts overrides our own."""
    assert helm.render(values).container["image"] == image


def test_the_pod_passes_the_restricted_pod_security_standard(helm: Helm) -> None:
    """Each control is stated, with a read-only root file system; no user is, because OpenShift assigns one."""
    rendered = helm.render()
    assert rendered.pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert rendered.container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & rendered.pod.keys()


@pytest.mark.parametrize("mode", [{}, PLAIN], ids=["hook", "plain"])
def test_the_controller_does_not_change_the_job(helm: Helm, mode: Values) -> None:
    """A plain Job keeps its name."""
    assert helm.render(mode).job == helm.render({**mode, **BOTH}).job


@pytest.mark.parametrize("change", OF_A_RUN, ids=str)
def test_a_run_does_not_change_the_controller(helm: Helm, change: Values) -> None:
    """An upgrade of the operator changes settings of a run: no controller restarts then."""
    assert helm.render({**BOTH, **change}).controller["spec"] == helm.render(BOTH).controller["spec"]
