"""The compatibility page and the table of deployment tools: they name the versions that the tests build."""

from __future__ import annotations

import re
from typing import Final

from devcluster.build import programs
from devcluster.build.binaries import DEPLOYER_NAMES
from tests.chart.rendering import ROOT
from tools.compatibility import RECORDINGS, SCENARIOS, TESTED, version_of

NOT_DEPLOYING = {"crane"}
"""It serves charts to the deployment tools of the tests."""
ROWS: Final = re.compile(r"^\| deployment tool, as run \|.*\n\|[-| ]+\n((?:\|.*\n)+)", re.MULTILINE)
HELM, FLUX, ARGO_CD = ("helm4",), ("helm-controller", "source-controller"), ("argocd",)
HELMFILE = ("helmfile", "helm-diff", "helm4")
NAMED: Final = (
    *(("Helm", ("helm3", *HELM)), ("helmfile", HELMFILE), ("Flux", FLUX), ("Argo CD", ARGO_CD)),
    *(("plain manifests, as AICR wraps them: Helm", HELM), ("the same: helmfile", HELMFILE)),
    *(("the same: Flux", FLUX), ("the same: Argo CD", ARGO_CD)),
    *(("bundle for Helm", ("helm3",)), ("bundle for helmfile", ("helmfile", "helm-diff", "helm3"))),
    *(("bundle for Flux", FLUX), ("bundle for Argo CD", ARGO_CD), ("bundle with a parent chart", ARGO_CD)),
)
"""By how each row begins, in their order: the programs that the tests run for it, whose versions it names."""


def test_every_deployment_tool_has_a_line() -> None:
    """And an older version than the newest has its reason, a newest one has none."""
    named = {row.program for row in TESTED}
    assert set(DEPLOYER_NAMES) - NOT_DEPLOYING <= named
    for row in TESTED:
        assert bool(row.why_older) == (version_of(row.program) != row.newest), row.program
    assert [name for name in ("kubectl", "kubelet", "kube-scheduler") if version_of(name) != programs.KUBERNETES] == []


def test_every_recording_is_described() -> None:
    """By what happened in it; and no description is left over."""
    names = {file.stem.partition("-")[2] for file in RECORDINGS.glob("v*.jsonl")}
    assert names == set(SCENARIOS)


def test_the_tables_name_the_versions_that_are_built() -> None:
    """Each row names exactly those, and each of its cells a test or a dash. `test_documents.py` checks the links."""
    name = "docs/dev/deployment-tools.md"
    (table,) = ROWS.findall((ROOT / name).read_text())
    for (start, built), row in zip(NAMED, table.splitlines(), strict=True):
        first, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        assert first.startswith(start), row
        versions = {version_of(program).removeprefix("v") for program in built}
        assert versions == set(re.findall(r"\d+\.\d+\.\d+", first)), row
        assert len(cells) == 5, row
        assert all(cell.startswith("[`test_") or cell == "\N{EN DASH}" for cell in cells), row
