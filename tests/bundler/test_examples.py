"""The examples are what the program writes, and what their page says about them is true.

``python -m tests.bundler.test_examples`` runs the commands of their page, and so writes them.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from tests.bundler.program import ROOT, Ended, run

EXAMPLES: Final = ROOT / "examples"
RECIPE: Final = EXAMPLES / "recipe.yaml"
WRITTEN_BY_HAND: Final = {"aicr", "gates", "values"}
DOCS: Final = ROOT / "docs" / "bundler.md"


def _write(target: Path) -> None:
    """Run the commands of the page, with folders below a target."""
    for line in (EXAMPLES / "README.md").read_text().splitlines():
        if line.startswith("gpu-operator-post-bundler bundle "):
            arguments = shlex.split(line)[1:]
            where = arguments.index("--output") + 1
            arguments[where] = str(target / arguments[where])
            arguments[arguments.index("recipe.yaml")] = str(RECIPE)
            assert run(*arguments, "--force", ours="").code == 0, line


def _contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the files of the examples by path: their bytes, and whether they can be run."""
    return {
        file.relative_to(folder).as_posix(): (file.read_bytes(), file.stat().st_mode & 0o100)
        for below in folder.iterdir()
        if below.is_dir() and below.name not in WRITTEN_BY_HAND
        for file in below.rglob("*")
        if file.is_file()
    }


def test_examples_are_the_programs(tmp_path: Path) -> None:
    """Each file has the bytes that the command of the page writes, and the right to be run; there is no other."""
    _write(tmp_path)
    assert _contents(tmp_path) == _contents(EXAMPLES)


def _shown(page: str, command: str) -> str:
    """Return what a page shows as the output of a command."""
    _, _, rest = page.partition(f"```console\n$ {command}\n")
    return rest.partition("```")[0]


def test_documented_output(tmp_path: Path) -> None:
    """What docs/bundler.md shows as output is what the program prints for the example's recipe."""
    page = DOCS.read_text()
    derived: Ended = run("trigger", "derive", "--recipe", RECIPE)
    assert derived.out == _shown(page, "gpu-operator-post-bundler trigger derive --recipe recipe.yaml")
    values = tmp_path / "values.yaml"
    values.write_text("v26.3.2".join(derived.out.rsplit("v26.3.3", 1)))
    checked = run("trigger", "check", "--recipe", RECIPE, "--values", values)
    said = _shown(page, "gpu-operator-post-bundler trigger check --recipe recipe.yaml --values values.yaml")
    assert said == checked.err


if __name__ == "__main__":
    _write(EXAMPLES)
