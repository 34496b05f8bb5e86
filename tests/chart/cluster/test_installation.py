"""Installation with real tools: chart-testing with every ci/*-values.yaml, and the commands of Helm's notes.

chart-testing is what chart repositories use: ``ct lint`` runs yamllint and ``helm lint --strict`` too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from devcluster import binaries
from tests.chart.rendering import CHART, ROOT
from tests.e2e.lab import IMAGE, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devcluster.cluster import Cluster

VARIANTS: Final = sorted(path.name for path in (CHART / "ci").glob("*-values.yaml"))
RELEASE: Final = "notes-gpu-operator-post"
SECONDS: Final = 540
"""For all variants on a busy machine: a namespace, a release and its removal take some seconds each."""


def _tools(folder: Path, helm: str = "helm4") -> Path:
    """Return a folder with all that ct calls, under the names by which it calls it."""
    folder /= helm
    folder.mkdir()
    (folder / "helm").symlink_to(binaries.ensure([helm])[helm])
    (folder / "kubectl").symlink_to(binaries.ensure(["kubectl"])["kubectl"])
    for module in ("yamllint", "yamale"):
        (folder / module).symlink_to(Path(sys.executable).parent / module)
    return folder


@pytest.fixture(scope="module")
def booted(cluster: Cluster) -> Cluster:
    """Boot a cluster without any GPU: the program finds nothing to do."""
    cluster.up(nodes=0)
    return cluster


def _ct(tools: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ct where ct.yaml is, with our tools only."""
    homes = {f"HELM_{kind}_HOME": str(tools / kind) for kind in ("CACHE", "CONFIG", "DATA")}
    return subprocess.run(
        [binaries.ensure(["ct"])["ct"], *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", **homes, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_lint(tmp_path: Path) -> None:
    """Both Helms find nothing in any variant."""
    for helm in ("helm3", "helm4"):
        done = _ct(_tools(tmp_path, helm), "lint", "--config=ct.yaml")
        assert done.returncode == 0, done.stdout + done.stderr
        assert [name for name in VARIANTS if name not in done.stdout] == []


@pytest.mark.e2e
def test_install(booted: Cluster, tmp_path: Path) -> None:
    """Each variant is installed into a namespace of its own, runs, and is removed. Helm 3 has its own scenarios."""
    done = _ct(_tools(tmp_path), "install", "--config=ct.yaml", KUBECONFIG=str(booted.kubeconfig))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All charts installed successfully" in done.stdout
    assert [name for name in VARIANTS if name not in done.stdout] == []


@pytest.fixture(scope="module")
def notes(booted: Cluster) -> Iterator[str]:
    """Install the chart as a plain Job, which stays, and return what Helm prints."""
    given = ("-n", NAMESPACE, "--create-namespace", f"--set=image.repository={IMAGE}", "--set=drivers={network}")
    plain = ("--set=hook.enabled=false", "--wait", "--wait-for-jobs", "--timeout=5m")
    done = booted.helm("install", RELEASE, str(CHART), *given, *plain)
    yield done.stdout.partition("NOTES:")[2]
    booted.helm("uninstall", RELEASE, "-n", NAMESPACE)


@pytest.mark.e2e
def test_the_commands_of_the_notes_work(booted: Cluster, notes: str) -> None:
    """The status runs in a pod with account and settings of the release; log, Events and exit code can be read."""
    expected = {("run", "wait"): "rdma-shared-dp-ds", ("logs -l",): "exit code 0", ("get",): "job/"}
    for begins, output in {**expected, ("describe",): "Exit Code:"}.items():
        assert output in _run(booted, notes, *begins), begins


def _run(cluster: Cluster, notes: str, *begins: str) -> str:
    """Run the commands that begin so, after the line that exports the settings."""
    lines = [line.strip() for line in notes.splitlines()]
    beginnings = ("export ", *(f"kubectl -n {NAMESPACE} {words} " for words in begins))
    script = "\n".join(line for line in lines if line.startswith(beginnings))
    assert script.count("\n") == len(begins)
    kubectl = binaries.ensure(["kubectl"])["kubectl"]
    homes = {"HOME": str(cluster.state), "KUBECONFIG": str(cluster.kubeconfig)}
    environment = {"PATH": f"{kubectl.parent}:{os.defpath}", **homes}
    done = subprocess.run(
        ["/bin/sh", "-eu", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
