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
from tests.chart.rendering import CHART, IMAGE, NAMESPACE, RELEASE, ROOT, container_of
from tests.client.fixtured import showing
from tests.fixtures.cluster import cluster
from tests.process.program import write_kubeconfig

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chart.rendering import Helm, Values

MOST_LINES: Final = 45
TARGET: Final = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "namespace": "argocd", "name": "post"}
CONTROLLER: Final[Values] = {"controller.enabled": True}
OPEN: Final[Values] = {"rbac.admissionPolicy.enabled": False}
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
        **OPEN,
        "hook.enabled": False,
        "eventTargets": [TARGET, TARGET | {"name": "parent"}],
    },
}
CONTENTS: Final[tuple[tuple[Values, list[str]], ...]] = (
    ({}, ["--timeout 1620s\n", "timeout: 1620\n", "spec.timeout: 1620s", "Argo CD has no limit"]),
    ({"timeout": "1h30m"}, ["--timeout 5520s", "It gets 1h30m"]),
    ({"hook.enabled": False}, ["--timeout 1620s --wait --wait-for-jobs", "wait: true, waitForJobs: true"]),
    ({"dryRun": True}, ["restarts none (dryRun)"]),
    ({"enabled": False}, ["is disabled"]),
    (CONTROLLER, ["--timeout 1620s", "The breaker does not stop the Job"]),
    ({**CONTROLLER, "job.mode": "delegate"}, ["The Job waits until the controller"]),
    ({**OPEN, "strategy": "rollout-restart"}, ["rbac.admissionPolicy.enabled is false", "amount to root on all nodes"]),
    (OPEN, ["rbac.admissionPolicy.enabled is false", "which pods the ServiceAccount may delete"]),
    ({"rbac.create": False}, ["rbac.create is false"]),
    ({"eventTargets": [TARGET]}, ["kubectl -n argocd describe application.argoproj.io post\n"]),
)
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
    return str(helm.render({**IMAGE, **values}, chart=annotated, release=release).one("Notes")["text"])


def _commands(notes: str, heading: str) -> list[str]:
    """Return the lines that are indented below a heading, up to an empty line."""
    _, _, below = notes.partition(heading)
    return [line.strip() for line in below.partition("\n\n")[0].splitlines() if line.startswith("  ")]


def test_notes_are_those_that_helm_prints(helms: dict[str, Helm], annotated: Path) -> None:
    """Helm 4 renders them without a cluster, and Helm 3 the same; they do not need a second screen."""
    source = (CHART / "templates" / "NOTES.txt").read_text()
    assert len(source.splitlines()) <= MOST_LINES
    for name, values in VARIANTS.items():
        given = [f"--set-json={key}={json.dumps(value)}" for key, value in {**IMAGE, **values}.items()]
        done = helms["helm4"].run(
            "install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--dry-run=client", *given
        )
        assert done.returncode == 0, done.stderr
        printed = done.stdout.partition("NOTES:\n")[2].strip()
        assert len(printed.splitlines()) <= MOST_LINES, name
        assert printed == _notes(helms["helm4"], annotated, values).strip(), name
    for name in ("default", "namespace", "everything"):
        assert _notes(helms["helm3"], annotated, VARIANTS[name]) == _notes(helms["helm4"], annotated, VARIANTS[name]), (
            name
        )


def test_notes_contain(helm: Helm, annotated: Path) -> None:
    """They name the time that each deployment tool needs, and the consequences of the values."""
    for values, expected in CONTENTS:
        notes = _notes(helm, annotated, values)
        assert [text for text in expected if text not in notes] == [], values


def test_notes_do_not_contain(helm: Helm, annotated: Path) -> None:
    """Readers skip a caution that every installation prints; a controller alone has no Job, nor its time."""
    for values in ({}, {"strategy": "rollout-restart"}, {"dryRun": True, "rbac.admissionPolicy.enabled": False}):
        assert "Caution" not in _notes(helm, annotated, values), values
    notes = _notes(helm, annotated, VARIANTS["controller-alone"])
    assert [word for word in ("Job", "--timeout", "job/") if word in notes] == []


def test_notes_warn_of_a_release_of_the_same_name(helm: Helm, annotated: Path) -> None:
    """AICR calls a release of its own gpu-operator-post; under Flux it begins with the namespace."""
    for release, collides in ((RELEASE, True), ("gpu-operator-gpu-operator-post", True), ("dra-refresh", False)):
        assert ("NVIDIA AICR" in _notes(helm, annotated, {}, release)) == collides, release


def test_failures_are_found_by_label(helm: Helm, annotated: Path) -> None:
    """A plain Job's name has a hash, and each pod has these labels: those of the Job and of the controller."""
    labels = f"app.kubernetes.io/name=gpu-operator-post,app.kubernetes.io/instance={RELEASE}"
    for name, values in VARIANTS.items():
        assert _commands(_notes(helm, annotated, values), "After a failure")[:3] == [
            f"kubectl -n {NAMESPACE} logs -l {labels} --prefix --tail=200",
            f"kubectl -n {NAMESPACE} get events --field-selector reportingComponent=gpu-operator-post",
            f"kubectl -n {NAMESPACE} describe pods -l {labels}",
        ], name
        rendered = helm.render(values)
        for workload in rendered.all("Job") + rendered.all("Deployment"):
            found = workload["spec"]["template"]["metadata"]["labels"]
            assert dict(label.split("=") for label in labels.split(",")).items() <= found.items(), name


def test_status_runs_with_the_settings_of_the_release(tmp_path: Path, helm: Helm, annotated: Path) -> None:
    """A shell takes the lines as they are, and the program its arguments; a quote in a value breaks nothing."""
    (tmp_path / "docker").write_text(STANDS_FOR_DOCKER)
    (tmp_path / "docker").chmod(0o755)
    (tmp_path / ".kube").mkdir()
    written = tmp_path / "written"
    environment = {"HOME": str(tmp_path), "PYTHON": sys.executable, "WRITTEN": str(written)}
    environment["PATH"] = f"{tmp_path}:{os.defpath}"
    with showing(cluster()) as server:
        write_kubeconfig(tmp_path / ".kube" / "config", server.api.host)
        for name in ("default", "controller-alone", "everything"):
            values = VARIANTS[name]
            given = {**values, "expect.driverVersion": "it's"}
            rendered = helm.render(given)
            export, docker, *_ = _commands(_notes(helm, annotated, given), "Show the state of each node")
            script = f'{export}\n{docker}\nprintf %s "$GPU_OPERATOR_POST_CONFIG" > "$HOME/config"'
            done = subprocess.run(
                ["/bin/sh", "-eu", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            # What a run expects is no setting of the controller.
            assert ("it's" in done.stdout) is (values.get("job.enabled", True) is True), name
            container = container_of((rendered.all("Job") + rendered.all("Deployment"))[0])
            (setting,) = (item["value"] for item in container["env"] if item["name"] == "GPU_OPERATOR_POST_CONFIG")
            assert (tmp_path / "config").read_text() == setting, name
            arguments = written.read_text().splitlines()
            assert arguments[arguments.index("-v") + 1] == f"{tmp_path}/.kube/config:/kubeconfig:ro"
            assert arguments[-4:] == [container["image"], "status", "--kubeconfig", "/kubeconfig"], name


def test_status_runs_in_the_controller(helm: Helm, annotated: Path) -> None:
    """By the image's own entry point, whose container has the settings in its environment already."""
    (start,) = (line for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("ENTRYPOINT "))
    entry = " ".join(json.loads(start.removeprefix("ENTRYPOINT ")))
    for name in ("controller", "controller-alone", "delegate"):
        deployment = helm.render(VARIANTS[name]).controller["metadata"]["name"]
        *_, command = _commands(_notes(helm, annotated, VARIANTS[name]), "Show the state of each node")
        assert command == f"kubectl -n {NAMESPACE} exec deploy/{deployment} -- {entry} status", name
    assert CliRunner().invoke(main, ["status", "--help"]).exit_code == 0
