"""The tables of deployment tools name the versions that the tests build, and tests that exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from devcluster.layout import CHECKOUT
from devcluster.programs import DEPLOYERS, PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEAD = "| deployment tool, as run |"
PAGES = [CHECKOUT / "README.md", CHECKOUT / "docs" / "deployers.md"]
HELMS, FLUX, ARGO_CD = ("helm3", "helm4"), ("helm-controller", "source-controller"), ("argocd",)
HELMFILE = ("helmfile", "helm-diff", "helm4")
NAMED = {
    "Helm": HELMS,
    "helmfile": HELMFILE,
    "Flux": FLUX,
    "Argo CD": ARGO_CD,
    "plain manifests, as AICR wraps them: Helm": HELMS,
    "the same: helmfile": HELMFILE,
    "the same: Flux": FLUX,
    "the same: Argo CD": ARGO_CD,
    "bundle for Helm": ("helm3",),
    "bundle for helmfile": ("helmfile", "helm-diff", "helm3"),
    "bundle for Flux": FLUX,
    "bundle for Argo CD": ARGO_CD,
    "bundle with a parent chart": ARGO_CD,
}
"""By how each row begins, in their order: the programs that the tests run for it, whose versions it names."""


def _rows(page: Path) -> Iterator[str]:
    """Yield the rows of the page's table."""
    lines = iter(page.read_text().splitlines())
    assert any(line.startswith(HEAD) for line in lines), f"{page} has no such table"
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        yield line


def test_versions_are_those_that_are_built() -> None:
    """Each row names exactly the versions that devcluster builds for it."""
    versions = {program.name: program.version.removeprefix("v") for program in (*PROGRAMS, *DEPLOYERS)}
    for page in PAGES:
        for (start, programs), row in zip(NAMED.items(), _rows(page), strict=True):
            cell = row.split("|")[1].strip()
            assert cell.startswith(start), page
            assert {versions[name] for name in programs} == set(re.findall(r"\d+\.\d+\.\d+", cell)), page


def test_cells_link_to_tests() -> None:
    """Each cell of both tables has a test (`tests/release` checks the link) or a dash."""
    for page in PAGES:
        for row in _rows(page):
            cells = [cell.strip() for cell in row.strip("|").split("|")[1:]]
            assert len(cells) == 5, row
            assert all(cell.startswith("[`test_") or cell == "\N{EN DASH}" for cell in cells), row
