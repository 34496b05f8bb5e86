"""The examples are what the program writes, and what their page says about them is true."""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.bundler.program import Ended, run
from tools import examples

DOCS = Path(__file__).parents[2] / "docs" / "bundler.md"


def _shown(page: str, command: str) -> str:
    """Return what a page shows as the output of a command."""
    _, _, rest = page.partition(f"```console\n$ {command}\n")
    return rest.partition("```")[0]


def test_examples_are_the_programs(tmp_path: Path) -> None:
    """Each file has the bytes that the command of the page writes, and the right to be run; there is no other."""
    page = (examples.EXAMPLES / "README.md").read_text()
    commands = [line for line in page.splitlines() if line.startswith("gpu-operator-post-bundler bundle ")]
    for command in commands:
        arguments = shlex.split(command)[1:]
        where = arguments.index("--output") + 1
        folder = arguments[where]
        arguments[where] = str(tmp_path / folder)
        arguments[arguments.index("recipe.yaml")] = str(examples.RECIPE)
        assert run(*arguments, ours="").code == 0, command
    assert examples.contents(tmp_path) == examples.contents(examples.EXAMPLES)
    folders = {each.name for each in examples.EXAMPLES.iterdir() if each.is_dir()} - {"aicr", "gates", "values"}
    assert {each.name for each in tmp_path.iterdir()} == folders == set(examples.ARGUMENTS)


def test_documented_output(tmp_path: Path) -> None:
    """What docs/bundler.md shows as output is what the program prints for the example's recipe."""
    page = DOCS.read_text()
    derived: Ended = run("trigger", "derive", "--recipe", examples.RECIPE)
    assert derived.out == _shown(page, "gpu-operator-post-bundler trigger derive --recipe recipe.yaml")
    values = tmp_path / "values.yaml"
    values.write_text("v26.3.2".join(derived.out.rsplit("v26.3.3", 1)))
    checked = run("trigger", "check", "--recipe", examples.RECIPE, "--values", values)
    said = _shown(page, "gpu-operator-post-bundler trigger check --recipe recipe.yaml --values values.yaml")
    assert said == checked.err
