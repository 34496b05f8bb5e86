"""What Helm prints after an installation: times, commands that work as they are, and cautions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from hook.cli import main
from tests.chart.rendering import CHART, IMAGE, NAMESPACE, RELEASE, ROOT
from tests.client.fixtured import showing
from tests.fixtures.cluster import cluster
from tests.process.program import write_kubeconfig

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chart.rendering import Helm, Values

MOST_LINES: Final = 45
TARGET: Final = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Application",
    "namespace": "argocd",
    "name": "post",
}
CONTROLLER: Final[Values] = {"controller.enabled": True}
VARIANTS: Final[dict[str, Values]] = {
    "default": {},
    "plain": {"hook.enabled": False},
    "dry-run": {"dryRun": True},
    "controller": CONTROLLER,
    "controller-alone": {**CONTROLLER, "job.enabled": False},
    "delegate": {**CONTROLLER, "job.mode": "delegate"},
    "namespace": {"rbac.scope": "namespace", "rbac.namespaces": [NAMESPACE, "nvidia-dra-driver-gpu"]},
    "everything": {
        **CONTROLLER,
        "hook.enabled": False,
        "rbac.admissionPolicy.enabled": False,
        "eventTargets": [TARGET, TARGET | {"name": "parent"}],
    },
}
EACH: Final = pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)
STANDS_FOR_DOCKER: Final = """#!/bin/sh
printf '%s\\n' "$@" > "$WRITTEN"
while [ "$1" != status ]; do shift; done
exec "$PYTHON" -m hook "$1" "$2" "$HOME/.kube/config"
"""
"""Runs the program outside of a container, with the kubeconfig that the container would see."""


@pytest.fixture(scope="module")
def annotated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the chart with its notes as a manifest: without a cluster, Helm 3 does not render notes."""
    folder = tmp_path_factory.mktemp("notes") / CHART.name
    shutil.copytree(CHART, folder)
    text = (folder / "templates" / "NOTES.txt").read_text()
    (folder / "templates" / "_notes.tpl").write_text(f'{{{{- define "notes" -}}}}{text}{{{{- end -}}}}')
    (folder / "templates" / "notes.yaml").write_text('kind: Notes\ntext: {{ include "notes" . | toJson }}\n')
    return folder


def _notes(helm: Helm, annotated: Path, values: Values, release: str = RELEASE) -> str:
    rendered = helm.render({**IMAGE, **values}, chart=annotated, release=release)
    return str(rendered.one("Notes")["text"])


def _commands(notes: str, heading: str) -> list[str]:
    """Return the lines that are indented below a heading, up to an empty line."""
    _, _, below = notes.partition(heading)
    return [line.strip() for line in below.partition("\n\n")[0].splitlines() if line.startswith("  ")]


@EACH
def test_notes_are_those_that_helm_prints(helms: dict[str, Helm], annotated: Path, values: Values) -> None:
    """Helm 4 renders them without a cluster; they do not need a second screen."""
    given = [f"--set-json={key}={json.dumps(value)}" for key, value in {**IMAGE, **values}.items()]
    done = helms["helm4"].run("install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--dry-run=client", *given)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.partition("NOTES:\n")[2].strip()
    assert printed == _notes(helms["helm4"], annotated, values).strip()
    assert len(printed.splitlines()) <= MOST_LINES
    assert len((CHART / "templates" / "NOTES.txt").read_text().splitlines()) <= MOST_LINES


@EACH
def test_both_helms_print_the_same(helms: dict[str, Helm], annotated: Path, values: Values) -> None:
    """Template functions differ between versions."""
    assert _notes(helms["helm3"], annotated, values) == _notes(helms["helm4"], annotated, values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(
            {}, ["--timeout 1620s\n", "timeout: 1620\n", "spec.timeout: 1620s", "Argo CD has no limit"], id="hook"
        ),
        pytest.param({"timeout": "1h30m"}, ["--timeout 5520s", "It gets 1h30m"], id="timeout"),
        pytest.param(
            {"hook.enabled": False},
            ["--timeout 1620s --wait --wait-for-jobs", "wait: true, waitForJobs: true"],
            id="plain",
        ),
        pytest.param({"dryRun": True}, ["restarts none (dryRun)"], id="dry-run"),
        pytest.param({"enabled": False}, ["is disabled"], id="disabled"),
        pytest.param(CONTROLLER, ["--timeout 1620s", "The breaker does not stop the Job"], id="both"),
        pytest.param({**CONTROLLER, "job.mode": "delegate"}, ["The Job waits until the controller"], id="delegate"),
        pytest.param(
            {"strategy": "rollout-restart", "rbac.admissionPolicy.enabled": False},
            ["rbac.admissionPolicy.enabled is false", "amount to root on all nodes"],
            id="unconfined-rollout",
        ),
        pytest.param(
            {"rbac.admissionPolicy.enabled": False},
            ["rbac.admissionPolicy.enabled is false", "which pods the ServiceAccount may delete"],
            id="unconfined-deletion",
        ),
        pytest.param({"rbac.create": False}, ["rbac.create is false"], id="permissions-of-others"),
        pytest.param(
            {"eventTargets": [TARGET]},
            ["kubectl -n argocd describe application.argoproj.io post\n"],
            id="objects-of-the-deployment-tool",
        ),
    ],
)
def test_notes_name(helms: dict[str, Helm], annotated: Path, values: Values, expected: list[str]) -> None:
    """The time that each deployment tool needs, and what the values have as a consequence."""
    notes = _notes(helms["helm4"], annotated, values)
    assert [text for text in expected if text not in notes] == []


@pytest.mark.parametrize(
    "values",
    [{}, {"strategy": "rollout-restart"}, {"dryRun": True, "rbac.admissionPolicy.enabled": False}],
    ids=["delete-stale-pods", "rollout-restart", "dry-run"],
)
def test_notes_caution_only_with_reason(helms: dict[str, Helm], annotated: Path, values: Values) -> None:
    """Readers skip a caution that every installation shows."""
    assert "Caution" not in _notes(helms["helm4"], annotated, values)


def test_notes_of_a_controller_alone_mention_no_job(helms: dict[str, Helm], annotated: Path) -> None:
    """Neither its time, nor how a deployment tool waits for it."""
    notes = _notes(helms["helm4"], annotated, VARIANTS["controller-alone"])
    assert [word for word in ("Job", "--timeout", "job/") if word in notes] == []


@pytest.mark.parametrize(
    ("release", "collides"),
    [(RELEASE, True), ("gpu-operator-gpu-operator-post", True), ("dra-refresh", False)],
)
def test_notes_warn_of_a_release_of_the_same_name(
    helms: dict[str, Helm], annotated: Path, release: str, collides: bool
) -> None:
    """AICR calls a release of its own gpu-operator-post; under Flux with the namespace in front."""
    assert ("NVIDIA AICR" in _notes(helms["helm4"], annotated, {}, release)) == collides


@EACH
def test_failures_are_found_by_label(helm: Helm, annotated: Path, values: Values) -> None:
    """A plain Job's name has a hash, and each pod has these labels: those of the Job and of the controller."""
    rendered = helm.render(values)
    logs, events, describe, *_ = _commands(_notes(helm, annotated, values), "After a failure")
    labels = f"app.kubernetes.io/name=gpu-operator-post,app.kubernetes.io/instance={RELEASE}"
    assert logs == f"kubectl -n {NAMESPACE} logs -l {labels} --prefix --tail=200"
    assert events == f"kubectl -n {NAMESPACE} get events --field-selector reportingComponent=gpu-operator-post"
    assert describe == f"kubectl -n {NAMESPACE} describe pods -l {labels}"
    for workload in rendered.all("Job") + rendered.all("Deployment"):
        found = workload["spec"]["template"]["metadata"]["labels"]
        assert dict(label.split("=") for label in labels.split(",")).items() <= found.items()


@EACH
def test_status_runs_with_the_settings_of_the_release(
    tmp_path: Path, helms: dict[str, Helm], annotated: Path, values: Values
) -> None:
    """A shell takes the lines as they are, and the program its arguments; a quote in a value breaks nothing."""
    given = {**values, "expect.driverVersion": "it's"}
    rendered = helms["helm4"].render(given)
    export, docker, *_ = _commands(_notes(helms["helm4"], annotated, given), "Show the state of each node")
    (tmp_path / "docker").write_text(STANDS_FOR_DOCKER)
    (tmp_path / "docker").chmod(0o755)
    (tmp_path / ".kube").mkdir()
    written = tmp_path / "written"
    environment = {
        "PATH": f"{tmp_path}:{os.defpath}",
        "HOME": str(tmp_path),
        "PYTHON": sys.executable,
        "WRITTEN": str(written),
    }
    with showing(cluster()) as server:
        write_kubeconfig(tmp_path / ".kube" / "config", server.api.host)
        script = f'{export}\n{docker}\nprintf %s "$GPU_OPERATOR_POST_CONFIG" > "$HOME/config"'
        done = subprocess.run(
            ["/bin/sh", "-eu", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    # What a run expects is no setting of the controller.
    assert ("it's" in done.stdout) is (values.get("job.enabled", True) is True)
    (container,) = (rendered.all("Job") + rendered.all("Deployment"))[0]["spec"]["template"]["spec"]["containers"]
    (setting,) = (item["value"] for item in container["env"] if item["name"] == "GPU_OPERATOR_POST_CONFIG")
    assert (tmp_path / "config").read_text() == setting
    arguments = written.read_text().splitlines()
    assert arguments[arguments.index("-v") + 1] == f"{tmp_path}/.kube/config:/kubeconfig:ro"
    assert arguments[-4:] == [container["image"], "status", "--kubeconfig", "/kubeconfig"]


@pytest.mark.parametrize("name", ["controller", "controller-alone", "delegate"])
def test_status_runs_in_the_controller(helm: Helm, annotated: Path, name: str) -> None:
    """By the image's own entry point, whose container has the settings in its environment already."""
    (start,) = (line for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("ENTRYPOINT "))
    entry = " ".join(json.loads(start.removeprefix("ENTRYPOINT ")))
    values = VARIANTS[name]
    deployment = helm.render(values).one("Deployment")["metadata"]["name"]
    *_, command = _commands(_notes(helm, annotated, values), "Show the state of each node")
    assert command == f"kubectl -n {NAMESPACE} exec deploy/{deployment} -- {entry} status"
    assert CliRunner().invoke(main, ["status", "--help"]).exit_code == 0
