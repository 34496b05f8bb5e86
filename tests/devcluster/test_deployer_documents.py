"""The table of deployers: every cell names a test that is there, every row the version that is built."""

from __future__ import annotations

import re

import pytest

from devcluster import programs
from devcluster.layout import CHECKOUT

CELL = re.compile(r"\[`(test_\w+)`\]\(([\w./]+)\)")
ROWS = {
    "Helm ": ("helm3", "helm4"),
    "helmfile": ("helmfile", "helm-diff"),
    "Flux": ("helm-controller", "source-controller"),
    "Argo CD": ("argocd",),
}
DOCUMENTS = ("README.md", "docs/deployers.md")


def rows(document: str) -> dict[str, str]:
    """Find the rows of the table by the deployer's name."""
    lines = (CHECKOUT / document).read_text().splitlines()
    return {name: line for name in ROWS for line in lines if line.startswith(f"| {name}") and CELL.search(line)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_cell_names_a_test(document: str) -> None:
    """Five cells a deployer, each with a test of that name in that file."""
    folder = (CHECKOUT / document).parent
    for name, row in rows(document).items():
        cells = CELL.findall(row)
        assert len(cells) == 5, name
        for test, file in cells:
            assert f"def {test}(" in (folder / file).read_text(), f"{name}: {test}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_row_names_the_version_that_is_built(document: str) -> None:
    """What is announced is what the tests ran."""
    versions = {each.name: each.version.removeprefix("v") for each in (*programs.PROGRAMS, *programs.DEPLOYERS)}
    found = rows(document)
    assert set(ROWS) == set(found)
    for name, row in found.items():
        assert all(versions[program] in row for program in ROWS[name]), row
