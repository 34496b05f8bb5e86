"""Job and controller: as a hook and plain, image, security, and how the Job fails. The golden files show the rest."""

from __future__ import annotations

import re
from typing import Final

import yaml

from hook.cli import EXIT_USAGE
from hook.kube.client import JOIN_SECONDS
from hook.kube.election import RELEASE_SECONDS
from hook.kube.events import STOP_SECONDS
from hook.run.job import EXIT_DEADLINE, EXIT_FAILED
from hook.run.statusobject import TIMEOUT_SECONDS
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


def test_hook_annotations(helm: Helm) -> None:
    """They follow the values; Flux would crash over the log."""
    settings = {"hook.weight": -5, "hook.deletePolicy": "hook-failed", "hook.annotations": {"a/b": "c"}}
    changed = {"helm.sh/hook-weight": "-5", "helm.sh/hook-delete-policy": "hook-failed", "a/b": "c"}
    rollback = {"helm.sh/hook": "post-install,post-upgrade,post-rollback"}
    silent = {key: value for key, value in HOOK_ANNOTATIONS.items() if not key.endswith("output-log-policy")}
    cases: tuple[tuple[Values, tuple[str, ...], dict[str, str] | None], ...] = (
        ({}, (), HOOK_ANNOTATIONS),
        (settings, (), HOOK_ANNOTATIONS | changed),
        ({"hook.onRollback": True}, (), HOOK_ANNOTATIONS | rollback),
        ({}, (FLUX,), silent),
        ({"hook.outputLogs": "never"}, (), silent),
        ({"hook.outputLogs": "always"}, (FLUX,), HOOK_ANNOTATIONS),
        ({**PLAIN, "hook.annotations": {"a/b": "c"}}, (), None),
    )
    for values, options, expected in cases:
        assert helm.render(values, *options).job["metadata"].get("annotations") == expected, (values, options)


def test_the_name_of_the_job(helm: Helm) -> None:
    """A hook keeps its name, by which it is deleted. A plain Job, which is immutable, has one for each content."""
    for values in ({}, {"trigger": "x"}, {"timeout": "2h"}):
        assert helm.render(values).job["metadata"]["name"] == "gpu-operator-post", values
    plain = helm.render(PLAIN).job
    assert re.fullmatch(r"gpu-operator-post-[0-9a-f]{10}", plain["metadata"]["name"])
    names = [plain["metadata"]["name"], *(helm.render(PLAIN | each).job["metadata"]["name"] for each in NEW_NAME)]
    assert [name for name in names if names.count(name) > 1] == []
    for values in SAME_NAME:
        job = helm.render(PLAIN | values).job
        assert (job["metadata"]["name"], job["spec"]) == (plain["metadata"]["name"], plain["spec"]), values


def test_kubernetes_stops_the_job_when_its_timeout_is_over(helm: Helm) -> None:
    """The chart reads durations as Go does; a leading zero does not make one octal."""
    seconds = {"25m": 1500, "90s": 90, "1h30m": 5400, "2h": 7200, "1h1m1s": 3661, "08m": 480, "1h5s": 3605}
    found = {timeout: helm.render({"timeout": timeout}).job["spec"]["activeDeadlineSeconds"] for timeout in seconds}
    assert found == seconds


def test_what_may_wait_after_a_signal_fits_into_the_grace_period(helm: Helm) -> None:
    """Pending calls, two writes of the status object, two queues of Events and the Lease, each until its limit."""
    limits = JOIN_SECONDS, 2 * TIMEOUT_SECONDS, 2 * STOP_SECONDS, RELEASE_SECONDS
    assert sum(limits) < helm.render().job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]


def test_final_exits_fail_the_job_at_once_and_evictions_do_not_count(helm: Helm) -> None:
    """A retry changes neither a usage error, nor a need for manual action, nor a deadline."""
    rendered = helm.render()
    final, evicted = rendered.job["spec"]["podFailurePolicy"]["rules"]
    codes = {"containerName": rendered.container["name"], "operator": "In", "values": [2, 3, 124]}
    assert final == {"action": "FailJob", "onExitCodes": codes}
    assert [EXIT_USAGE, EXIT_FAILED, EXIT_DEADLINE] == codes["values"]
    assert evicted == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    assert rendered.pod["restartPolicy"] == "Never"


def test_image_reference(helm: Helm) -> None:
    """A digest overrides the tag, and the registry for all charts overrides our own."""
    for values, image in IMAGES:
        assert helm.render(values).container["image"] == image, values
    assert helm.render({"image.pullPolicy": "Always"}).container["imagePullPolicy"] == "Always"


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


def test_job_and_controller_do_not_change_each_other(helm: Helm) -> None:
    """A plain Job keeps its name. An upgrade of the operator changes settings of a run: no controller restarts then."""
    for mode in ({}, PLAIN):
        assert helm.render(mode).job == helm.render({**mode, **BOTH}).job, mode
    before = helm.render(BOTH).controller["spec"]
    for change in OF_A_RUN:
        assert helm.render({**BOTH, **change}).controller["spec"] == before, change
