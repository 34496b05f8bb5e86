"""What Helm prints after an installation: times, commands that work as they are, and cautions."""

from __future__ import annotations

import json
import subprocess
from typing import Final

from tests.chart.rendering import CHART, IMAGE, NAMESPACE, RELEASE, ROOT, Helm, Values, config_of, container_of

MOST_LINES: Final = 45
TARGET: Final = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "namespace": "argocd", "name": "post"}
CONTROLLER: Final[Values] = {"controller.enabled": True}
ALONE: Final[Values] = {**CONTROLLER, "job.enabled": False}
OPEN: Final[Values] = {"rbac.admissionPolicy.enabled": False}
SOME: Final[Values] = {"rbac.scope": "namespace", "rbac.namespaces": [NAMESPACE, "nvidia-dra-driver-gpu"]}
PROGRAM: Final = "gpu-operator-post"
EXEC: Final = f"kubectl -n {NAMESPACE} exec deploy/{RELEASE}-controller -- {PROGRAM} status\n"
CONTENTS: Final[tuple[tuple[Values, list[str], list[str]], ...]] = (
    ({}, ["--timeout 1620s\n", "timeout: 1620\n"], ["Caution", "are not reported"]),
    ({}, ["spec.timeout: 1620s", "Argo CD has no limit"], []),
    ({"timeout": "1h30m"}, ["--timeout 5520s", "It gets 1h30m"], []),
    ({"hook.enabled": False}, ["--timeout 1620s --wait --wait-for-jobs", "wait: true, waitForJobs: true"], []),
    ({"dryRun": True, **OPEN}, ["restarts none (dryRun)"], ["Caution"]),
    ({"enabled": False}, ["is disabled"], []),
    (CONTROLLER, ["--timeout 1620s", "The breaker does not stop the Job", EXEC], []),
    (ALONE, [EXEC], ["Job", "--timeout", "job/"]),
    ({**CONTROLLER, "job.mode": "delegate"}, ["The Job waits until the controller"], []),
    (OPEN, ["rbac.admissionPolicy.enabled is false", "which pods the ServiceAccount may delete"], []),
    ({"rbac.create": False}, ["rbac.create is false"], []),
    (SOME, ["pods that may hold files of an old driver are not reported"], ["Caution"]),
    ({**SOME, "affectedWorkloads.enabled": False}, [], ["are not reported"]),
    ({"eventTargets": [TARGET]}, ["kubectl -n argocd describe application.argoproj.io post\n"], []),
)
"""Values, what the notes then contain, and what they do not. Readers skip a caution that each installation prints."""


def _notes(helm: Helm, values: Values, release: str = RELEASE) -> str:
    """Return what Helm 4 prints without a cluster; they do not need a second screen."""
    given = [f"--set-json={key}={json.dumps(value)}" for key, value in {**IMAGE, **values}.items()]
    done = helm.run("install", release, str(CHART), f"--namespace={NAMESPACE}", "--dry-run=client", *given)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:\n")[2]
    assert 0 < len(notes.splitlines()) <= MOST_LINES, values
    return notes


def test_notes_contain(helm: Helm) -> None:
    """They name the time that each deployment tool needs, and the consequences of the values."""
    for values, expected, absent in CONTENTS:
        notes = _notes(helm, values)
        assert [text for text in expected if text not in notes] == [], values
        assert [text for text in absent if text in notes] == [], values
    image = (ROOT / "Dockerfile").read_text()
    assert f"> /opt/gpu-operator-post/bin/{PROGRAM} " in image
    assert "\nENV PATH=/opt/gpu-operator-post/bin:" in image


def test_notes_warn_of_a_release_of_the_same_name(helm: Helm) -> None:
    """AICR calls a release of its own gpu-operator-post; under Flux it begins with the namespace."""
    for release, collides in ((RELEASE, True), ("gpu-operator-gpu-operator-post", True), ("dra-refresh", False)):
        assert ("NVIDIA AICR" in _notes(helm, {}, release)) == collides, release


def test_status_gets_the_settings_of_the_release(helm: Helm) -> None:
    """A shell takes the line as it is; a quote breaks nothing. `cluster/test_installation.py` runs all of them."""
    for values in ({}, ALONE):
        given = {**values, "expect.driverVersion": "it's", "plugin.names": ["a"]}
        rendered = helm.render(given)
        lines = [line.strip() for line in _notes(helm, given).splitlines()]
        (export,) = [line for line in lines if line.startswith("export ")]
        script = f'{export}; printf %s "$GPU_OPERATOR_POST_CONFIG"'
        shown = subprocess.run(["/bin/sh", "-eu", "-c", script], capture_output=True, text=True, check=True).stdout
        container = container_of((rendered.all("Job") + rendered.all("Deployment"))[0])
        assert json.loads(shown) == config_of(container), values
        (docker,) = [line for line in lines if line.startswith("docker ")]
        assert docker.endswith(f"{container['image']} status --kubeconfig /kubeconfig"), values
