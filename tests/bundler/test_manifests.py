"""Plain manifests, for bundlers that wrap objects and remove hook annotations."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.bundler.program import DRA, IMAGE, KEY, LOCAL_CHARTS, POST, bundle, changed, contents, refuse, write
from tests.bundler.reading import load, read, render
from tests.chart.rendering import Helm, Values

CHART = f"--chart={POST}={LOCAL_CHARTS[POST]}"


def test_manifests(tmp_path: Path, helm: Helm, helms: dict[str, Helm]) -> None:
    """The objects are those of the plain Job that other tools install, without any hook, whichever Helm renders."""
    arguments = (CHART, f"--values={POST}={write(tmp_path / 'image.yaml', IMAGE)}")
    made = {
        name: bundle("manifests", tmp_path / name, *arguments, f"--helm={each.binary}") for name, each in helms.items()
    }
    assert contents(made["helm3"]) == contents(made["helm4"])
    folder = made["helm4"]
    text = (folder / f"{POST}.yaml").read_text()
    assert "helm.sh/hook" not in text
    assert "{{" not in text
    objects = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}
    chart = bundle("helm", tmp_path / "chart", CHART, "--no-hook")
    expected = render(read("helm", chart, helm)[POST], chart, helm).objects
    rendered = {(each["kind"], each["metadata"]["name"]): each for each in expected}
    assert rendered == objects
    assert all(each["metadata"].get("namespace", "gpu-operator") == "gpu-operator" for each in objects.values())
    dra = load(folder / f"{DRA}.values.yaml")
    assert {pod: {"podAnnotations": {KEY: "v26.3.3"}} for pod in ("controller", "kubeletPlugin")} == dra


@pytest.mark.parametrize(
    ("values", "complaint", "code"),
    [
        ({"unknownValue": True}, "unknownValue", 1),
        ({"podAnnotations": {"x": "{{ .Release.Name }}"}}, f"values of {POST}: Job {POST}", 2),
        ({"podAnnotations": {"x": "a{{b"}}, "contains {{", 2),
    ],
)
def test_values_that_the_chart_refuses_and_templates(
    tmp_path: Path, helm: Helm, values: Values, complaint: str, code: int
) -> None:
    """Nothing is written."""
    given = f"--values={POST}={write(tmp_path / 'post.yaml', {**IMAGE, **values})}"
    refuse("manifests", tmp_path / "bundle", complaint, CHART, f"--helm={helm.binary}", given, code=code)
    assert {each.name for each in tmp_path.iterdir()} == {"post.yaml"}


def test_it_needs_helm_and_a_dra_driver(tmp_path: Path) -> None:
    """Nothing is written without them."""
    refuse("manifests", tmp_path / "bundle", "no-such-helm", CHART, "--helm=no-such-helm")
    off = changed(tmp_path / "off.yaml", DRA, overrides={"enabled": False})
    refuse("manifests", tmp_path / "bundle", "no plugins to keep fresh", CHART, recipe=off)
    assert {each.name for each in tmp_path.iterdir()} == {"off.yaml"}
