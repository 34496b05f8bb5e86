"""The pages that name versions: they name those that the tests build, run and replay."""

from __future__ import annotations

import re
from typing import Final

import pytest

from devcluster.build.binaries import EVERY
from tests.chart.rendering import ROOT
from tests.release.commands import WORKFLOWS, workflow

COMPATIBILITY: Final = (ROOT / "docs" / "compatibility.md").read_text()
TOOLS: Final = (ROOT / "docs" / "dev" / "deployment-tools.md").read_text()
VERSIONS: Final = {program.name: program.version.removeprefix("v") for program in EVERY}
PROGRAMS: Final = {
    "Kubernetes: control plane, kubectl, kubelet": "kube-apiserver",
    "KWOK": "kwok",
    "Helm 4": "helm4",
    "Helm 3": "helm3",
    "Flux: helm-controller": "helm-controller",
    "Flux: source-controller": "source-controller",
    "Flux: kustomize-controller": "kustomize-controller",
    "Argo CD": "argocd",
    "Chainsaw": "chainsaw",
    "chart-testing": "ct",
    "NVIDIA DRA driver": "gpu-kubelet-plugin",
    "NVIDIA container toolkit: nvidia-cdi-hook": "nvidia-cdi-hook",
}
"""The program of a row that has another name."""
DEPLOYING: Final = {
    "Helm": ("helm3", "helm4"),
    "helmfile": ("helmfile", "helm-diff", "helm4"),
    "Flux": ("helm-controller", "source-controller"),
    "Argo CD": ("argocd",),
}
"""The programs that the tests run for a deployment tool."""


def _rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of each row of the table whose heading begins so."""
    _, _, table = page.partition(f"\n| {heading} |")
    rows = re.match(r".*\n\|[-| ]+\n((?:\|.*\n)+)", table)
    assert rows, heading
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1].splitlines()]


@pytest.mark.parametrize("row", _rows(COMPATIBILITY, "program"), ids=lambda row: row[0])
def test_a_program_has_the_version_that_the_tests_build(row: list[str]) -> None:
    """An older version than the newest has its reason, and the newest has none."""
    title, tested, newest, why_older, _ = row
    assert tested == VERSIONS[PROGRAMS.get(title, title)]
    assert bool(why_older) == (tested != newest)


def test_the_versions_of_workflows_and_libraries() -> None:
    """Kubernetes and Python are those of the workflows, and the upgrade library is the one that is built."""
    jobs = {path.stem: workflow(path)["jobs"] for path in WORKFLOWS}
    images = jobs["image"]["cluster"]["strategy"]["matrix"]["kubernetes"]
    tried = [version for version, what, _ in _rows(COMPATIBILITY, "version") if "kind" in what]
    assert tried == re.findall(r"node:v([0-9.]+)@", " ".join(each["image"] for each in images))
    pythons = jobs["test"]["test"]["strategy"]["matrix"]["python"]
    assert f"**Python** {pythons[0]} to {pythons[-1]}. The tests were developed on {pythons[0]}." in COMPATIBILITY
    assert f"`github.com/NVIDIA/k8s-operator-libs` v{VERSIONS['upgrade']}," in COMPATIBILITY


def test_every_recording_is_described() -> None:
    """The table has one text for each recording of a version, and no other."""
    recordings = ROOT / "tests" / "fixtures" / "recordings"
    recorded = sorted(file.stem.partition("-")[0] for file in recordings.glob("v*.jsonl"))
    described = [f"v{version}" for version, texts in _rows(COMPATIBILITY, "GPU operator") for _ in texts.split(", ")]
    assert described == recorded


@pytest.mark.parametrize("row", _rows(TOOLS, "deployment tool, as run"), ids=lambda row: row[0])
def test_a_deployment_tool_has_the_versions_that_are_built(row: list[str]) -> None:
    """A row begins with the tool, and names the version of each of its programs."""
    (programs,) = [found for tool, found in DEPLOYING.items() if re.match(rf"{tool}(:| \d)", row[0])]
    assert set(re.findall(r"\d+\.\d+\.\d+", row[0])) == {VERSIONS[program] for program in programs}
