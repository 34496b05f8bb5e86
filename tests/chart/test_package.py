"""The chart as a package: lint, supported versions, notes, and the values that CI installs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.chart.rendering import CHART, IMAGE, NAMESPACE, RELEASE, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chart.rendering import Helm, Values

CHANGE_KINDS = frozenset({"added", "changed", "deprecated", "removed", "fixed", "security"})
"""What Artifact Hub knows; it shows no other."""
VARIANTS = sorted((CHART / "ci").glob("*-values.yaml"))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda path: path.name)
def test_lint_is_strict_and_clean(helm: Helm, variant: Path) -> None:
    """Warnings are errors, for every variant that CI installs."""
    done = helm.run("lint", "--strict", str(CHART), f"--values={variant}", "--kube-version=1.32.0")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda path: path.name)
def test_variants_render(helm: Helm, variant: Path) -> None:
    """Each has a Job or a follower, and says in a comment what it stands for."""
    rendered = helm.render({}, f"--values={variant}")
    assert rendered.all("Job") + rendered.all("Deployment")
    assert variant.read_text().startswith("# ")


@pytest.mark.parametrize("version", ["1.32.0", "1.33.4-gke.1245000", "1.34.1-eks-0a1b2c3", "1.36.3", "1.37.0"])
def test_supported_kubernetes_versions(helm: Helm, version: str) -> None:
    """From the first version with DRA, under the names that managed services give theirs."""
    assert helm.template({}, f"--kube-version={version}").returncode == 0


@pytest.mark.parametrize("version", ["1.31.9", "1.30.0"])
def test_kubernetes_without_dra_is_refused(helm: Helm, version: str) -> None:
    """With Helm's sentence that names both versions."""
    assert f"incompatible with Kubernetes v{version}" in helm.refuse({}, f"--kube-version={version}")


def test_chart_metadata_is_complete() -> None:
    """What Artifact Hub shows: no placeholder, licence and changes."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"]
    assert chart["annotations"]["artifacthub.io/license"] == "Apache-2.0"
    changes = yaml.safe_load(chart["annotations"]["artifacthub.io/changes"])
    assert changes
    for change in changes:
        assert change["kind"] in CHANGE_KINDS
        assert change["description"]
    links = yaml.safe_load(chart["annotations"]["artifacthub.io/links"])
    assert all(link["name"] and link["url"].startswith("https://") for link in links)
    assert "example" not in str(chart).lower()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({}, ["--timeout 1620s\n", "timeout: 1620\n", "spec.timeout: 1620s", "Argo CD"], id="hook"),
        pytest.param({"timeout": "1h30m"}, ["--timeout 5520s", "the Job gets 1h30m"], id="timeout"),
        pytest.param(
            {"hook.enabled": False},
            ["--timeout 1620s --wait --wait-for-jobs", "wait: true, waitForJobs: true", "nobody sees it fail"],
            id="plain",
        ),
        pytest.param({"dryRun": True}, ["this time it only reports"], id="dry-run"),
        pytest.param({"enabled": False}, ["is disabled"], id="disabled"),
        pytest.param(
            {"controller.enabled": True},
            [
                "get deployment gpu-operator-post-controller",
                "--timeout 1620s",
                "logs job/gpu-operator-post",
                "The Job does not stop with it",
            ],
            id="both",
        ),
        pytest.param(
            {"controller.enabled": True, "job.mode": "delegate"}, ["the follower has acknowledged it"], id="handed-over"
        ),
        pytest.param(
            {"strategy": "rollout-restart", "rbac.admissionPolicy.enabled": False},
            ["amounts to root on their nodes"],
            id="unguarded",
        ),
        pytest.param(
            {"rbac.admissionPolicy.enabled": False},
            ["the guard was left out (rbac.admissionPolicy.enabled: false)", "may delete any pod of the cluster"],
            id="unguarded-deletion",
        ),
        pytest.param({"rbac.create": False}, ["the guard was left out with the roles"], id="permissions-of-others"),
    ],
)
def test_notes_say_what_to_give_each_deployer(helms: dict[str, Helm], values: Values, expected: list[str]) -> None:
    """Its timeout, for the Job's timeout and two minutes; and how a plain Job is waited for at all."""
    notes = _notes(helms["helm4"], values)
    for text in expected:
        assert text in notes


@pytest.mark.parametrize(
    "values",
    [{}, {"strategy": "rollout-restart"}, {"dryRun": True, "rbac.admissionPolicy.enabled": False}],
    ids=["delete-stale-pods", "rollout", "dry-run"],
)
def test_notes_warn_of_nothing_by_default(helms: dict[str, Helm], values: Values) -> None:
    """A caution that everybody sees is one that nobody reads."""
    assert "Caution" not in _notes(helms["helm4"], values)


def test_notes_of_a_follower_alone_speak_of_no_job(helms: dict[str, Helm]) -> None:
    """Neither of its time, nor of its exit codes, nor of a log that is not there."""
    notes = _notes(helms["helm4"], {"controller.enabled": True, "job.enabled": False})
    assert "reports to no deployer" in notes
    assert not [word for word in ("The Job ", "--timeout", "job/", "exit ") if word in notes]


@pytest.mark.parametrize("values", [{}, {"hook.enabled": False}], ids=["hook", "plain"])
def test_notes_say_how_to_read_a_failure(helms: dict[str, Helm], values: Values) -> None:
    """The commands name this release's Job, and every exit code is explained."""
    helm = helms["helm4"]
    job = helm.render(values).job["metadata"]["name"]
    notes = _notes(helm, values)
    for text in (f"-n {NAMESPACE} logs job/{job}", f"involvedObject.name={job}", "exit 2", "exit 3", "exit 124"):
        assert text in notes


def test_notes_name_the_deployers_objects(helms: dict[str, Helm]) -> None:
    """On which the cause of a failure stands as well."""
    ours = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "namespace": "argocd", "name": "post"}
    notes = _notes(helms["helm4"], {"eventTargets": [ours]})
    assert "kubectl -n argocd describe application.argoproj.io post\n" in notes
    assert "describe" not in _notes(helms["helm4"], {"eventTargets": [ours], "dryRun": True})


def test_yaml_is_clean() -> None:
    """Yamllint with the configuration that chart-testing uses, on what is YAML before rendering."""
    files = map(str, [CHART / "Chart.yaml", CHART / "values.yaml", *VARIANTS])
    command = [sys.executable, "-m", "yamllint", "--strict", "-c", str(ROOT / "tools" / "ct" / "lintconf.yaml"), *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def _notes(helm: Helm, values: Values) -> str:
    """Only a client-side install of Helm 4 renders the notes without a cluster."""
    given = [f"--set-json={key}={json.dumps(value)}" for key, value in {**IMAGE, **values}.items()]
    done = helm.run("install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--dry-run=client", *given)
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("NOTES:")[2]
