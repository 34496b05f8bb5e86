"""The examples are what the program writes, and what their page says about them is true."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tests.bundle.program import contents, run
from tools import examples

if TYPE_CHECKING:
    from pathlib import Path


def test_examples_are_the_programs(tmp_path: Path) -> None:
    """Regenerated, each file has the same bytes and the same right to be run, and there is no other."""
    examples.write(tmp_path)
    assert examples.contents(tmp_path) == examples.contents(examples.EXAMPLES)
    folders = {each.name for each in examples.EXAMPLES.iterdir() if each.is_dir()}
    assert set(examples.ARGUMENTS) == folders


def test_page_tells_the_commands(tmp_path: Path) -> None:
    """The commands on the examples' page are those that wrote them."""
    page = (examples.EXAMPLES / "README.md").read_text()
    commands = [line for line in page.splitlines() if line.startswith("gpu-operator-post bundle ")]
    assert len(examples.ARGUMENTS) == len(commands)
    for command in commands:
        arguments = shlex.split(command)[1:]
        where = arguments.index("--output") + 1
        folder = arguments[where]
        arguments[where] = str(tmp_path / folder)
        arguments[arguments.index("recipe.yaml")] = str(examples.RECIPE)
        assert 0 == run(*arguments).code, command
        assert contents(tmp_path / folder) == contents(examples.EXAMPLES / folder)
