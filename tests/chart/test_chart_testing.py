"""chart-testing, as chart repositories use it: ``ct lint`` and ``ct install``, with every ci/*-values.yaml."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from devcluster import binaries
from devcluster.cluster import Cluster
from tests.chart.rendering import CHART, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIANTS: Final = sorted(path.name for path in (CHART / "ci").glob("*-values.yaml"))
SECONDS: Final = 540
"""For all variants on a busy machine: a namespace, a release and its removal take some seconds each."""


@pytest.fixture(params=["helm3", "helm4"])
def tools(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Give a folder with all that ct calls, under the names by which it calls it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "helm").symlink_to(binaries.ensure([request.param])[request.param])
    (folder / "kubectl").symlink_to(binaries.ensure(["kubectl"])["kubectl"])
    for module in ("yamllint", "yamale"):
        (folder / module).symlink_to(Path(sys.executable).parent / module)
    return folder


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """Boot a cluster without any GPU: the program finds nothing to protect, and says so."""
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.up(nodes=0)
        yield cluster.kubeconfig


def _ct(tools: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ct where ct.yaml is, with the tools of ours alone."""
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


def test_lint(tools: Path) -> None:
    """Chart.yaml against the schema, YAML style, and helm lint for every variant."""
    done = _ct(tools, "lint", "--config=ct.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [name for name in VARIANTS if name not in done.stdout] == []


def test_lint_notices(tools: Path, tmp_path: Path) -> None:
    """A Chart.yaml that Helm takes and our schema does not fails: ct reads our schema and not none.

    Nothing is said of what ct prints of its children: it may lose the last lines of it.
    """
    chart = _copy(tmp_path)
    text = (chart / "Chart.yaml").read_text()
    kept = [line for line in text.splitlines(keepends=True) if not line.startswith("kubeVersion:")]
    (chart / "Chart.yaml").write_text("".join(kept))
    assert _ct(tools, "lint", "--config=ct.yaml", f"--charts={chart}").returncode != 0
    (chart / "Chart.yaml").write_text(text)
    assert _ct(tools, "lint", "--config=ct.yaml", f"--charts={chart}").returncode == 0


@pytest.mark.e2e
@pytest.mark.parametrize("tools", ["helm4"], indirect=True)
def test_install(tools: Path, kubeconfig: Path) -> None:
    """Each variant is installed into a namespace of its own, runs, and is removed. Helm 3 has scenarios of its own."""
    done = _ct(tools, "install", "--config=ct.yaml", KUBECONFIG=str(kubeconfig))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All charts installed successfully" in done.stdout
    assert [name for name in VARIANTS if name not in done.stdout] == []


@pytest.mark.e2e
@pytest.mark.parametrize("tools", ["helm4"], indirect=True)
def test_install_notices(tools: Path, kubeconfig: Path, tmp_path: Path) -> None:
    """A variant whose Job fails is a failure: what runs is the program, and its exit code counts."""
    chart = _copy(tmp_path)
    shutil.rmtree(chart / "ci")
    (chart / "ci").mkdir()
    (chart / "ci" / "fail-values.yaml").write_text(
        "image: {repository: registry.example/gpu-operator-post}\ndrivers: [network]\nrefreshAfter: [toolkit]\n"
    )
    done = _ct(tools, "install", "--config=ct.yaml", f"--charts={chart}", KUBECONFIG=str(kubeconfig))
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert [word for word in ("refreshAfter", "PodFailurePolicy", "post-install") if word in said] != []


def _copy(folder: Path) -> Path:
    """Copy the chart under its own name, which ct wants the folder to have."""
    chart = folder / CHART.name
    shutil.copytree(CHART, chart)
    return chart
