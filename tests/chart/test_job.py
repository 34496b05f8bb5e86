"""The Job: as a hook and plain, its arguments, and how it fails."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.chart.rendering import Helm, Values

HOOK_ANNOTATIONS = {
    "helm.sh/hook": "post-install,post-upgrade",
    "helm.sh/hook-weight": "10",
    "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    "helm.sh/hook-output-log-policy": "hook-succeeded,hook-failed",
}
PLAIN: Values = {"hook.enabled": False}


def test_by_default_the_job_is_a_post_install_and_post_upgrade_hook(helm: Helm) -> None:
    """The deployer waits for the Job, keeps a failed one as evidence and prints its log."""
    assert helm.render().job["metadata"]["annotations"] == HOOK_ANNOTATIONS


def test_only_the_job_is_a_hook(helm: Helm) -> None:
    """Everything else is an ordinary object, which GitOps tools see and which exists before the Job."""
    annotated = [item["kind"] for item in helm.render().objects if "annotations" in item["metadata"]]
    assert annotated == ["Job"]


def test_rollback_is_an_opt_in_event(helm: Helm) -> None:
    """A failing post-rollback hook blocks the release, so nobody gets one unasked."""
    annotations = helm.render({"hook.onRollback": True}).job["metadata"]["annotations"]
    assert annotations["helm.sh/hook"] == "post-install,post-upgrade,post-rollback"


def test_hook_settings_reach_the_annotations(helm: Helm) -> None:
    """Weight, delete policy and annotations of the user's own are rendered as texts."""
    values = {"hook.weight": -5, "hook.deletePolicy": "hook-failed", "hook.annotations": {"a/b": "c"}}
    annotations = helm.render(values).job["metadata"]["annotations"]
    changed = {"helm.sh/hook-weight": "-5", "helm.sh/hook-delete-policy": "hook-failed", "a/b": "c"}
    assert HOOK_ANNOTATIONS | changed == annotations


def test_a_plain_job_has_no_annotations_at_all(helm: Helm) -> None:
    """Nothing is left to strip; the hook's own annotations are not rendered either."""
    assert "annotations" not in helm.render(PLAIN | {"hook.annotations": {"a/b": "c"}}).job["metadata"]


@pytest.mark.parametrize("mode", [{}, PLAIN], ids=["hook", "plain"])
def test_labels_and_annotations_of_the_users_own_reach_job_and_pod(helm: Helm, mode: Values) -> None:
    """Job and pod have settings apart; the common labels are on both."""
    own: Values = {
        "jobLabels": {"job": "l"},
        "jobAnnotations": {"job": "a"},
        "podLabels": {"pod": "l"},
        "podAnnotations": {"pod": "a"},
        "commonLabels": {"common": "l"},
    }
    job = helm.render(mode | own).job
    pod = job["spec"]["template"]["metadata"]
    assert {"job": "l", "common": "l"}.items() <= job["metadata"]["labels"].items()
    assert {"job": "a"}.items() <= job["metadata"]["annotations"].items()
    assert {"pod": "l", "common": "l"}.items() <= pod["labels"].items()
    assert pod["annotations"] == {"pod": "a"}


def test_the_hook_keeps_its_name_whatever_changes(helm: Helm) -> None:
    """The policy before-hook-creation finds the last Job by its name."""
    names = {helm.render(values).job["metadata"]["name"] for values in ({}, {"trigger": "x"}, {"timeout": "2h"})}
    assert names == {"gpu-operator-post"}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"trigger": "v26.7.0"}, id="trigger"),
        pytest.param({"expect.chartVersion": "v26.7.0"}, id="expected-chart"),
        pytest.param({"expect.driverVersion": "580.126.20"}, id="expected-driver"),
        pytest.param({"timeout": "2h"}, id="timeout"),
        pytest.param({"image.tag": "next"}, id="image"),
        pytest.param({"podLabels": {"a": "b"}}, id="pod-labels"),
        pytest.param({"ttlSecondsAfterFinished": 0}, id="ttl-of-zero"),
    ],
)
def test_a_plain_job_changes_its_name_with_its_specification_or_trigger(helm: Helm, change: Values) -> None:
    """A Job is immutable: what would change it must make another Job."""
    assert _plain_name(helm, {}) != _plain_name(helm, change)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"jobAnnotations": {"a": "b"}}, id="job-annotations"),
        pytest.param({"jobLabels": {"a": "b"}}, id="job-labels"),
        pytest.param({"podNetworkPolicy.enabled": True}, id="another-object"),
        pytest.param({"hook.weight": 3}, id="hook-settings"),
        pytest.param({"driver": {"version": "1"}}, id="value-of-the-operator"),
        pytest.param({"rbac.create": False}, id="permissions"),
        pytest.param({"controller.maxUnavailable": 1}, id="setting-of-the-controller"),
    ],
)
def test_a_plain_job_keeps_its_name_when_its_specification_is_the_same(helm: Helm, change: Values) -> None:
    """No needless second run for what does not change the Job, or may be changed in place."""
    base = helm.render(PLAIN).job
    other = helm.render(PLAIN | change).job
    assert base["metadata"]["name"] == other["metadata"]["name"]
    assert base["spec"] == other["spec"]


def test_both_helms_give_a_plain_job_the_same_name(helms: dict[str, Helm]) -> None:
    """Whoever moves from one Helm to the other runs nothing for it."""
    change = {"podLabels": {"b": "1", "a": "2"}, "trigger": "t"}
    (name,) = {_plain_name(helm, change) for helm in helms.values()}
    assert re.fullmatch(r"gpu-operator-post-[0-9a-f]{10}", name)


def test_the_job_hears_its_own_name(helm: Helm) -> None:
    """The program needs it for the Job's start and for Events, in both modes."""
    for values in ({}, PLAIN):
        rendered = helm.render(values)
        assert f"--job-name={rendered.job['metadata']['name']}" in rendered.args
        assert "--job-namespace=gpu-operator" in rendered.args


def test_its_arguments(helm: Helm) -> None:
    """Which command runs, and the Job's own name; all settings are in the environment."""
    assert helm.render().args == ["run", "--job-name=gpu-operator-post", "--job-namespace=gpu-operator"]


def test_each_setting_gives_a_plain_job_a_new_name(helm: Helm) -> None:
    """A Job cannot be changed; what only the controller gets does not concern it."""
    names = [_plain_name(helm, values) for values in ({}, {"logLevel": "debug"}, {"advanced.policyGrace": "3m"})]
    assert len(set(names)) == len(names)
    assert _plain_name(helm, {"controller.maxUnavailable": 1}) == names[0]


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [("25m", 1500), ("90s", 90), ("1h30m", 5400), ("2h", 7200), ("1h1m1s", 3661), ("08m", 480), ("1h5s", 3605)],
)
def test_kubernetes_stops_the_job_when_its_timeout_is_over(helm: Helm, timeout: str, seconds: int) -> None:
    """Durations are read as Go reads them; a leading zero does not make one octal."""
    assert seconds == helm.render({"timeout": timeout}).job["spec"]["activeDeadlineSeconds"]


def test_final_exits_fail_the_job_at_once_and_evictions_do_not_count(helm: Helm) -> None:
    """Trying again helps neither usage errors, nor where a person is needed, nor when the time is up."""
    job = helm.render().job
    final, evicted = job["spec"]["podFailurePolicy"]["rules"]
    codes = {"containerName": "gpu-operator-post", "operator": "In", "values": [2, 3, 124]}
    assert final == {"action": "FailJob", "onExitCodes": codes}
    assert evicted == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    assert job["spec"]["template"]["spec"]["containers"][0]["name"] == codes["containerName"]
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_retries_and_time_to_live(helm: Helm) -> None:
    """A finished Job stays by default; a time to live of zero is a value, not a blank."""
    default = helm.render().job["spec"]
    assert default["backoffLimit"] == 3
    assert "ttlSecondsAfterFinished" not in default
    changed = helm.render({"backoffLimit": 0, "ttlSecondsAfterFinished": 0}).job["spec"]
    assert (changed["backoffLimit"], changed["ttlSecondsAfterFinished"]) == (0, 0)


def _plain_name(helm: Helm, change: Values) -> str:
    return str(helm.render(PLAIN | change).job["metadata"]["name"])


@pytest.mark.parametrize(
    ("values", "options", "printed"),
    [
        pytest.param({}, (), True, id="auto"),
        pytest.param({}, ("--api-versions=helm.toolkit.fluxcd.io/v2",), False, id="auto-beside-flux"),
        pytest.param({"hook.outputLogs": "never"}, (), False, id="never"),
        pytest.param(
            {"hook.outputLogs": "always"}, ("--api-versions=helm.toolkit.fluxcd.io/v2",), True, id="always-beside-flux"
        ),
    ],
)
def test_helm_prints_the_log_but_flux_is_not_asked_to(
    helm: Helm, values: Values, options: tuple[str, ...], printed: bool
) -> None:
    """Flux's helm-controller crashes over this annotation, and takes every release of the cluster with it."""
    assert printed is ("helm.sh/hook-output-log-policy" in helm.render(values, *options).job["metadata"]["annotations"])
