"""`trigger derive` and `trigger check`: what follows from a recipe, and the report when values diverge from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.bundler.program import DRA, KEY, OLD_RECIPE, OPERATOR, RECIPE, Ended, changed, recipe, run, write

OLDER_KEY = "aicr.nvidia.com/gpu-operator-chart-version"
NOTHING = Ended(0, "", "")


def _annotated(version: str, key: str = KEY, **more: str) -> dict[str, Any]:
    annotations = {**more, key: version}
    return {"controller": {"podAnnotations": annotations}, "kubeletPlugin": {"podAnnotations": annotations}}


@pytest.mark.parametrize(
    ("file", "more", "expected"),
    [
        (OLD_RECIPE, (), _annotated("v25.10.1")),
        (RECIPE, (), _annotated("v26.3.3")),
        (RECIPE, ("--key", OLDER_KEY), _annotated("v26.3.3", OLDER_KEY)),
    ],
)
def test_derive(file: Path, more: tuple[str, ...], expected: dict[str, Any]) -> None:
    """The operator's version goes onto both workloads' pods, verbatim, under the key that the user chooses."""
    done = run("trigger", "derive", "--recipe", file, *more)
    assert (done.code, done.err) == (0, "")
    assert yaml.safe_load(done.out) == expected


def test_a_version_that_looks_like_a_number_stays_a_text(tmp_path: Path) -> None:
    """Its last zero counts."""
    number = changed(tmp_path / "number.yaml", OPERATOR, version="26.70")
    assert yaml.safe_load(run("trigger", "derive", "--recipe", number).out) == _annotated("26.70")


def test_derive_over_values(tmp_path: Path) -> None:
    """With values the pods' other annotations are kept, a stale one is overwritten, and all else is left out."""
    first = write(tmp_path / "a.yaml", {**_annotated("v1", mine="a"), "resources": {"gpus": {"enabled": True}}})
    second = write(tmp_path / "b.yaml", {"kubeletPlugin": {"podAnnotations": {"mine": "b"}, "nodeSelector": {}}})
    done = run("trigger", "derive", "--recipe", RECIPE, "--values", first, "--values", second)
    expected = _annotated("v26.3.3", mine="a")
    expected["kubeletPlugin"] = {"podAnnotations": {"mine": "b", KEY: "v26.3.3"}}
    assert expected == yaml.safe_load(done.out)


@pytest.mark.parametrize(("name", "version"), [(OPERATOR, None), (DRA, "1.0.0")])
def test_nothing_to_derive(name: str, version: str | None, tmp_path: Path) -> None:
    """Without one of the two, or with one switched off, nothing is printed, and no values can diverge."""
    values = write(tmp_path / "v.yaml", _annotated("v1"))
    for gate in ("enabled", "install"):
        off = changed(tmp_path / "off.yaml", name, overrides={gate: False}, version=version)
        assert run("trigger", "derive", "--recipe", off) == NOTHING, (name, gate)
        assert run("trigger", "derive", "--recipe", off, "--values", values) == NOTHING, (name, gate)
        assert run("trigger", "check", "--recipe", off, "--values", values) == NOTHING, (name, gate)
    document = recipe()
    document["componentRefs"] = [ref for ref in document["componentRefs"] if ref["name"] != name]
    assert run("trigger", "derive", "--recipe", write(tmp_path / "r.yaml", document)) == NOTHING


def test_check_agrees(tmp_path: Path) -> None:
    """What derive printed is what check wants, also as the last of several files."""
    stale = write(tmp_path / "stale.yaml", _annotated("v1"))
    derived = tmp_path / "derived.yaml"
    derived.write_text(run("trigger", "derive", "--recipe", RECIPE).out)
    assert NOTHING == run("trigger", "check", "--recipe", RECIPE, "--values", derived)
    assert NOTHING == run("trigger", "check", "--recipe", RECIPE, "--values", stale, "--values", derived)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (_annotated("v26.3.2"), ["is v26.3.2", "gpu-operator is v26.3.3"]),
        ({}, ["is missing", "gpu-operator is v26.3.3"]),
        ({"controller": None}, ["is missing"]),
        (_annotated("v26.3.3", OLDER_KEY), ["is missing"]),
        (_annotated("v26.3.3", **{OLDER_KEY: "v25.1.0"}), [OLDER_KEY, "is v25.1.0"]),
    ],
)
def test_check_diverges(values: dict[str, Any], expected: list[str], tmp_path: Path) -> None:
    """The message has both values and both places; the exit code is not that of a bad input."""
    done = run("trigger", "check", "--recipe", RECIPE, "--values", write(tmp_path / "v.yaml", values))
    assert (done.code, done.out) == (1, "")
    places = [f"v.yaml: {pod}.podAnnotations" for pod in ("controller", "kubeletPlugin")]
    assert [text for text in [*expected, *places] if text not in done.err] == []
