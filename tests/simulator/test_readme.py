"""devcluster/README.md: its delays are the defaults, and the tests that it names are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Final

import yaml

from devcluster.boot.components import NODE_GRACE_SECONDS, POD_STAGES
from devcluster.boot.layout import CHECKOUT
from devcluster.controller import operator
from devcluster.controller.lease import LEASE_SECONDS
from devcluster.fleet.driver import DRAIN_SECONDS
from devcluster.fleet.settings import Settings
from tests.simulator.test_journal import STORIES

TEXT: Final = (CHECKOUT / "devcluster/README.md").read_text(encoding="utf-8")
_, BEHAVIOURS, DELAYS = TEXT.split("\n## ")


def rows(text: str) -> list[list[str]]:
    """Return the cells of a table's rows, without its head."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return lines[1:]


def defaults() -> Iterator[tuple[str, float]]:
    """Return every default delay, as the table names it."""
    for setting in fields(Settings):
        if isinstance(setting.default, float):
            yield f"`{setting.name}`", setting.default
    values = yaml.safe_load((CHECKOUT / "devcluster/charts/gpu-operator/values.yaml").read_text(encoding="utf-8"))
    for name, value in values["simulate"].items():
        if name.endswith("Seconds"):
            yield f"gpu-operator: `simulate.{name}`", value
    for stage in yaml.safe_load_all(POD_STAGES.read_text(encoding="utf-8")):
        yield (
            f"`{POD_STAGES.name}`: `{stage['metadata']['name']}`",
            stage["spec"]["delay"]["durationMilliseconds"] / 1000,
        )
    yield "`DRAIN_SECONDS`", DRAIN_SECONDS
    yield "`LOOK_AGAIN_SECONDS`", operator.LOOK_AGAIN_SECONDS
    yield "`STATUS_SECONDS`", operator.STATUS_SECONDS
    yield "`REPLACE_SECONDS`", operator.REPLACE_SECONDS
    yield "`LEASE_SECONDS`", LEASE_SECONDS
    yield "`NODE_GRACE_SECONDS`", NODE_GRACE_SECONDS


def test_each_default_delay_is_there_with_its_source() -> None:
    """The table has each one, with its value, and no others."""
    table = rows(DELAYS)
    assert {name: float(value) for name, value, *_ in table} == dict(defaults())
    assert [name for name, _, real, source in table if not real or not source] == []


def test_the_tests_of_the_behaviours_exist() -> None:
    """Each row names one: a story of the journal, a file, or the real plugin. Else it says that there is none."""
    told = {story.__name__ for story in STORIES}
    for behaviour, source, test, *_ in rows(BEHAVIOURS):
        assert source, behaviour
        files, stories = re.findall(r"`(tests/[^`]+)`", test), re.findall(r"`(\w+)`", test)
        assert files or stories or test in {"real plugin", "none by itself"}, behaviour
        assert [file for file in files if not (CHECKOUT / file).is_file()] == [], behaviour
        assert set(stories) <= told, behaviour
