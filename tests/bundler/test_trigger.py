"""`trigger derive` and `trigger check`: what is derived from a recipe, and what is said when values diverge from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.bundler.program import DRA, KEY, OLD_RECIPE, OPERATOR, RECIPE, Ended, changed, recipe, run, write

if TYPE_CHECKING:
    from pathlib import Path

OLDER_KEY = "aicr.nvidia.com/gpu-operator-chart-version"
NOTHING = Ended(0, "", "")


def _annotated(version: str, key: str = KEY, **more: str) -> dict[str, Any]:
    annotations = {**more, key: version}
    return {"controller": {"podAnnotations": annotations}, "kubeletPlugin": {"podAnnotations": annotations}}


@pytest.mark.parametrize(
    ("file", "version"), [pytest.param(OLD_RECIPE, "v25.10.1", id="v1alpha1"), pytest.param(RECIPE, "v26.3.3", id="v1")]
)
def test_derive(file: Path, version: str) -> None:
    """The operator's version goes onto both workloads' pods, verbatim, from both kinds of recipe."""
    done = run("trigger", "derive", "--recipe", file)
    assert (0, "") == (done.code, done.err)
    assert _annotated(version) == yaml.safe_load(done.out)


def test_derive_verbatim(tmp_path: Path) -> None:
    """A version that looks like a number is text all the way."""
    file = changed(tmp_path / "r.yaml", OPERATOR, version="26.70")
    assert _annotated("26.70") == yaml.safe_load(run("trigger", "derive", "--recipe", file).out)


def test_derive_with_another_key() -> None:
    """The key is the user's to choose, such as the one of older AICR bundles."""
    done = run("trigger", "derive", "--recipe", RECIPE, "--key", OLDER_KEY)
    assert _annotated("v26.3.3", OLDER_KEY) == yaml.safe_load(done.out)


def test_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the caller's shell gives the annotation another key, or makes a bundle of another recipe."""
    plain = run("trigger", "derive", "--recipe", RECIPE)
    for name in ("KEY", "DERIVE_KEY", "TRIGGER_DERIVE_KEY"):
        monkeypatch.setenv(f"GPU_OPERATOR_POST_{name}", "x/y")
    monkeypatch.setenv("GPU_OPERATOR_POST_RECIPE", str(RECIPE))
    assert plain == run("trigger", "derive", "--recipe", RECIPE)
    assert 2 == run("trigger", "derive").code


def test_derive_over_values(tmp_path: Path) -> None:
    """With values the pods' other annotations are kept, a stale one is overwritten, and all else is left out."""
    first = write(tmp_path / "a.yaml", {**_annotated("v1", mine="a"), "resources": {"gpus": {"enabled": True}}})
    second = write(tmp_path / "b.yaml", {"kubeletPlugin": {"podAnnotations": {"mine": "b"}, "nodeSelector": {}}})
    done = run("trigger", "derive", "--recipe", RECIPE, "--values", first, "--values", second)
    expected = _annotated("v26.3.3", mine="a")
    expected["kubeletPlugin"] = {"podAnnotations": {"mine": "b", KEY: "v26.3.3"}}
    assert expected == yaml.safe_load(done.out)


@pytest.mark.parametrize("name", [OPERATOR, DRA])
@pytest.mark.parametrize("gate", ["enabled", "install"])
def test_nothing_to_derive(tmp_path: Path, name: str, gate: str) -> None:
    """Where one of the two is switched off nothing is printed and nothing said, and no values can diverge."""
    off = changed(tmp_path / "off.yaml", name, overrides={gate: False}, version=None if name == OPERATOR else "1.0.0")
    values = write(tmp_path / "v.yaml", _annotated("v1"))
    assert NOTHING == run("trigger", "derive", "--recipe", off)
    assert NOTHING == run("trigger", "derive", "--recipe", off, "--values", values)
    assert NOTHING == run("trigger", "check", "--recipe", off, "--values", values)


@pytest.mark.parametrize("name", [OPERATOR, DRA])
def test_component_that_is_not_there(tmp_path: Path, name: str) -> None:
    """A recipe without one of the two triggers nothing."""
    document = recipe()
    document["componentRefs"] = [ref for ref in document["componentRefs"] if ref["name"] != name]
    assert NOTHING == run("trigger", "derive", "--recipe", write(tmp_path / "r.yaml", document))


def test_enabled_explicitly(tmp_path: Path) -> None:
    """A gate that says yes is no reason to skip, and never becomes a value of the chart."""
    on = changed(tmp_path / "on.yaml", DRA, overrides={"enabled": True})
    assert _annotated("v26.3.3") == yaml.safe_load(run("trigger", "derive", "--recipe", on).out)


def test_check_agrees(tmp_path: Path) -> None:
    """What derive printed is what check wants, also as the last of several files."""
    stale = write(tmp_path / "stale.yaml", _annotated("v1"))
    derived = tmp_path / "derived.yaml"
    derived.write_text(run("trigger", "derive", "--recipe", RECIPE).out)
    assert NOTHING == run("trigger", "check", "--recipe", RECIPE, "--values", derived)
    assert NOTHING == run("trigger", "check", "--recipe", RECIPE, "--values", stale, "--values", derived)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param(_annotated("v26.3.2"), ["is v26.3.2", "gpu-operator is v26.3.3"], id="stale"),
        pytest.param({}, ["is missing", "gpu-operator is v26.3.3"], id="missing"),
        pytest.param({"controller": None}, ["is missing"], id="null"),
        pytest.param(_annotated("v26.3.3", OLDER_KEY), ["is missing"], id="older-key-only"),
        pytest.param(_annotated("v26.3.3", **{OLDER_KEY: "v25.1.0"}), [OLDER_KEY, "is v25.1.0"], id="older-key-stale"),
    ],
)
def test_check_diverges(tmp_path: Path, values: object, said: list[str]) -> None:
    """Both values are named, and both places; the exit code is not that of a bad input."""
    done = run("trigger", "check", "--recipe", RECIPE, "--values", write(tmp_path / "v.yaml", values))
    assert (1, "") == (done.code, done.out)
    for text in [*said, "v.yaml: controller.podAnnotations", "v.yaml: kubeletPlugin.podAnnotations"]:
        assert text in done.err


def test_check_one_of_two(tmp_path: Path) -> None:
    """One workload that was forgotten is named alone."""
    values = {"controller": _annotated("v26.3.3")["controller"]}
    done = run("trigger", "check", "--recipe", RECIPE, "--values", write(tmp_path / "v.yaml", values))
    assert 1 == done.code
    assert "kubeletPlugin" in done.err
    assert "controller" not in done.err


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({"controller": "x"}, "v.yaml: controller: Expected `object`, got `str`", id="pods"),
        pytest.param(
            {"controller": {"podAnnotations": ["x"]}},
            "v.yaml: controller.podAnnotations: Expected `object`, got `array`",
            id="annotations",
        ),
        pytest.param(
            {"controller": {"podAnnotations": {KEY: 26.7}}},
            f"v.yaml: controller.podAnnotations['{KEY}']: Expected `str`, got `float`: quote it",
            id="number",
        ),
    ],
)
def test_values_of_another_shape(tmp_path: Path, values: object, said: str) -> None:
    """Values that no chart could take are named with their place."""
    done = run("trigger", "check", "--recipe", RECIPE, "--values", write(tmp_path / "v.yaml", values))
    assert 2 == done.code
    assert said in done.err


def test_check_needs_values() -> None:
    """Without values there is nothing to compare."""
    done = run("trigger", "check", "--recipe", RECIPE)
    assert 2 == done.code
    assert "--values" in done.err
