"""Whatever a recipe holds: an exit code and a sentence, never a traceback, and never half a bundle."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bundler.program import DRA, OPERATOR, POST, RECIPE, TOOLS, recipe, run

EXAMPLES: Final = 50
"""Each tries three commands. Thousands were tried while this was written."""
GOOD: Final = recipe(RECIPE)
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NOISE: Final = st.sampled_from(
    ["v1.0.0", "1", "", " ", "a b", "../..", "oci://x", "https://x y", "gpu-operator", "\n", "{{ fail }}", "$(id)", "'"]
)
KEYS: Final = st.sampled_from(
    ["kind", "apiVersion", "componentRefs", "name", "version", "namespace", "chart", "type", "source", "overrides",
     "valuesFile", "driver", "enabled", "install", "nameOverride", "controller", "kubeletPlugin", "podAnnotations"]
)  # fmt: skip


def _places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List all places in a document."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [path, *(place for key, item in items for place in _places(item, (*path, key)))]


@st.composite
def damaged(draw: st.DrawFn) -> object:
    """Take a good recipe and put something else in up to three places, or take it away, or add to it."""
    document: Any = copy.deepcopy(GOOD)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(_places(document)))
        if not place:
            continue
        around = document
        for key in place[:-1]:
            around = around[key]
        what = draw(st.sampled_from(["replace", "remove", "add"]))
        if what == "remove":
            del around[place[-1]]
        elif what == "add" and isinstance(around, dict):
            around[draw(KEYS)] = draw(JSON | NOISE)
        else:
            around[place[-1]] = draw(JSON | NOISE)
    return document


@settings(max_examples=EXAMPLES)
@given(damaged(), st.sampled_from(TOOLS))
def test_damaged_recipe(document: object, tool: str) -> None:
    """A good recipe with something wrong in it."""
    with tempfile.TemporaryDirectory() as workspace:
        file, target = Path(workspace) / "recipe.yaml", Path(workspace) / "bundle"
        file.write_text(json.dumps(document))
        for words in (("trigger", "derive"), ("trigger", "check", "--values", file),
                      ("bundle", "--deployer", tool, "--output", target)):  # fmt: skip
            done = run(*words, "--recipe", file)
            assert done.code in (0, 1, 2)
            assert (done.code == 0) == (done.err == "")
            assert "Traceback" not in done.err
        assert target.exists() == (done.code == 0)
        assert {"recipe.yaml", "bundle"} >= {each.name for each in Path(workspace).iterdir()}


@settings(max_examples=EXAMPLES)
@given(JSON, st.sampled_from([OPERATOR, POST, DRA]), st.sampled_from(TOOLS))
def test_any_values(values: object, component: str, tool: str) -> None:
    """Values of any shape, for each component."""
    with tempfile.TemporaryDirectory() as workspace:
        file = Path(workspace) / "values.yaml"
        file.write_text(json.dumps({"driver": values, "expect": values, "controller": values, "x": values}))
        target = Path(workspace) / "bundle"
        done = run("bundle", "--recipe", RECIPE, "--deployer", tool, "--output", target, f"--values={component}={file}")
        assert done.code in (0, 2)
        assert target.exists() == (done.code == 0)
        assert run("trigger", "check", "--recipe", RECIPE, "--values", file).code in (1, 2)
