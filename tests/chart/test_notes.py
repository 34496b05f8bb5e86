"""What Helm prints after an installation: times, two commands that work as they are, and a caution."""

from __future__ import annotations

import json
from typing import Final

import pytest

from tests.chart.rendering import CHART, IMAGE, NAMESPACE, RELEASE, ROOT, Helm, Values

MOST_LINES: Final = 25
EVENTS: Final = "  kubectl get events -A --field-selector reportingComponent=gpu-operator-post\n"
STATUS: Final = "  kubectl gpu-operator-post status\n"
CONTROLLER: Final[Values] = {"controller.enabled": True}
ALONE: Final[Values] = {**CONTROLLER, "job.enabled": False}
OPEN: Final[Values] = {"rbac.admissionPolicy.enabled": False}
PROGRAM: Final = "gpu-operator-post"
EXEC: Final = f"kubectl -n {NAMESPACE} exec deploy/{RELEASE}-controller -- {PROGRAM} status\n"
CONTENTS: Final[tuple[tuple[Values, list[str], list[str]], ...]] = (
    ({}, ["--timeout 1620s\n", "timeout: 1620\n"], ["Caution"]),
    ({}, ["spec.timeout: 1620s", "Argo CD has no limit", EVENTS, STATUS], ["kubectl run", "exec"]),
    ({"stack": "network"}, [f"{STATUS.rstrip()} --stack network\n"], []),
    ({"timeout": "1h30m"}, ["--timeout 5520s", "It gets 1h30m"], []),
    ({"hook.enabled": False}, ["--timeout 1620s --wait --wait-for-jobs", "wait: true, waitForJobs: true"], []),
    ({"dryRun": True, **OPEN}, ["restarts none (dryRun)", STATUS], ["Caution", EVENTS]),
    ({"enabled": False}, ["is disabled"], []),
    (CONTROLLER, ["--timeout 1620s", EXEC], []),
    (ALONE, [EXEC, EVENTS], ["Job", "--timeout", "job/", STATUS]),
    (OPEN, ["rbac.admissionPolicy.enabled is false", "which pods the ServiceAccount may delete"], []),
    ({"rbac.create": False}, ["rbac.create is false"], []),
)
"""Values, what the notes then contain, and what they do not. Readers skip a caution that each installation prints."""


def _notes(helm: Helm, values: Values) -> str:
    """Return what Helm 4 prints without a cluster; it fits on one screen."""
    given = [f"--set-json={key}={json.dumps(value)}" for key, value in {**IMAGE, **values}.items()]
    done = helm.run("install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--dry-run=client", *given)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:\n")[2]
    assert 0 < len(notes.splitlines()) <= MOST_LINES, values
    return notes


@pytest.mark.parametrize(("values", "expected", "absent"), CONTENTS)
def test_notes_contain(helm: Helm, values: Values, expected: list[str], absent: list[str]) -> None:
    """They name the time that each deployment tool needs, and the consequences of the values."""
    notes = _notes(helm, values)
    assert [text for text in expected if text not in notes] == []
    assert [text for text in absent if text in notes] == []


def test_the_image_has_the_program_that_the_notes_name() -> None:
    """It is on the PATH of the container."""
    image = (ROOT / "Dockerfile").read_text()
    assert f"> /opt/gpu-operator-post/bin/{PROGRAM} " in image
    assert "\nENV PATH=/opt/gpu-operator-post/bin:" in image
