"""The examples of a property are the same in each process, whatever it imported before."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chart.rendering import ROOT
from tests.fixtures.objects import obj
from tests.properties.budget import examples
from tests.properties.families import FAMILIES
from tests.properties.mutations import mutated
from tests.properties.story import History

BEFORE: Final = ("", "import devcluster.demo.simulated, bundler.cli, tools.reasons, tests.e2e.lab; ")
"""What a process imports before it draws."""
DRAW: Final = "from tests.properties.test_budget import drawn; print(drawn())"


def drawn() -> list[str]:
    """Draw examples of two properties: one that gets fewer than a quick run, and one with values of any size."""
    found: list[str] = []

    @examples(2)
    @given(FAMILIES["anything"])
    def few(history: History) -> None:
        found.append(ascii((history._replace(steps=()), [(each.what, each.which) for each in history.steps])))

    @examples(100)
    @given(mutated(obj("node")), st.integers(), st.text())
    def many(spoiled: object, number: int, text: str) -> None:
        found.append(ascii((spoiled, number, text))[:5000])

    few()
    many()
    return found


@pytest.mark.parametrize("asked", ["", "3"])
def test_examples_depend_on_nothing_but_the_test(asked: str) -> None:
    """Neither on the modules that a worker of pytest imported before, nor on how a process orders a set."""
    said = []
    for number, imports in enumerate(BEFORE):
        environment = {**os.environ, "MODEL_EXAMPLES": asked, "PYTHONHASHSEED": str(number)}
        command = (sys.executable, "-c", imports + DRAW)
        done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        said.append(done.stdout)
    assert said[0] == said[1]
    assert said[0].count("controller=") == (3 if asked else 2)
