"""Stages: one cluster a story; the tests of one module share it, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.deployers.stage import Stage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs deployers."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.deployers)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Stage[Any]]:
    """Prepare for the story that the module begins with its `begin`; a parameter of the module is handed to it."""
    parameters = [request.param] if hasattr(request, "param") else []
    name = "-".join([Path(request.node.name).stem, *map(str, parameters)])
    with Stage(partial(request.module.begin, tmp_path_factory, name, *parameters)) as stage:
        yield stage


@pytest.fixture
def story(stage: Stage[Any], request: pytest.FixtureRequest) -> Any:  # noqa: ANN401 - each module has its own
    """Return the story; it begins anew for the second try of a test, since the first has left half a chapter behind."""
    if getattr(request.node, "execution_count", 1) > 1:
        stage.begin_anew()
    return stage.story
