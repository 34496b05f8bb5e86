"""chart-testing with every ci/*-values.yaml, and the commands of Helm's notes. `tests/certify` installs each variant.

chart-testing is what chart repositories use: ``ct lint`` runs yamllint and ``helm lint --strict`` too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devcluster.boot.cluster import Cluster
from devcluster.build import binaries
from tests.chart.rendering import CHART, ROOT
from tests.e2e.lab import IMAGE, NAMESPACE

VARIANTS: Final = sorted(path.name for path in (CHART / "ci").glob("*-values.yaml"))
RELEASE: Final = "notes-gpu-operator-post"


def test_lint(tmp_path: Path) -> None:
    """Both Helms find nothing in any variant."""
    for helm in ("helm3", "helm4"):
        tools = tmp_path / helm
        tools.mkdir()
        (tools / "helm").symlink_to(binaries.ensure([helm])[helm])
        for module in ("yamllint", "yamale"):
            (tools / module).symlink_to(Path(sys.executable).parent / module)
        homes = {f"HELM_{kind}_HOME": str(tools / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [binaries.ensure(["ct"])["ct"], "lint", "--config=ct.yaml"],
            cwd=ROOT, env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", **homes},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert [name for name in VARIANTS if name not in done.stdout] == []


@pytest.fixture(scope="module")
def notes(cluster: Cluster) -> Iterator[str]:
    """Install the chart as a plain Job, which stays, and return what Helm prints."""
    given = ("-n", NAMESPACE, "--create-namespace", f"--set=image.repository={IMAGE}")
    plain = ("--set=hook.enabled=false", "--wait", "--wait-for-jobs", "--timeout=5m")
    done = cluster.helm("install", RELEASE, str(CHART), *given, *plain)
    yield done.stdout.partition("NOTES:")[2]
    cluster.helm("uninstall", RELEASE, "-n", NAMESPACE)


@pytest.mark.e2e
def test_the_commands_of_the_notes_work(cluster: Cluster, notes: str) -> None:
    """Events are found wherever they are, and `status` needs no settings, no pod and no permissions of the release."""
    lines = [line.strip() for line in notes.splitlines()]
    events, status = (line for line in lines if line.startswith("kubectl "))
    assert "job/" in _run(cluster, events)
    assert "Skip (NoPlugin)" in _run(cluster, status)


def _run(cluster: Cluster, command: str) -> str:
    """Run a command as a user does whose kubeconfig leads to the cluster, and who has installed the program."""
    program = cluster.state / "bin" / "kubectl-gpu_operator_post"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m ctl "$@"\n')
    program.chmod(0o755)
    kubectl = binaries.ensure(["kubectl"])["kubectl"]
    homes = {"HOME": str(cluster.state), "KUBECONFIG": str(cluster.kubeconfig)}
    environment = {"PATH": f"{program.parent}:{kubectl.parent}:{os.defpath}", **homes}
    done = subprocess.run(
        ["/bin/sh", "-eu", "-c", command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
