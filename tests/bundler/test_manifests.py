"""Plain manifests, for bundlers that wrap objects and remove hook annotations."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.bundler.program import DRA, IMAGE, KEY, LOCAL_CHARTS, POST, bundle, changed, contents, refuse, write
from tests.bundler.reading import load, read, render
from tests.chart.rendering import Helm

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


def test_refuses(tmp_path: Path, helm: Helm) -> None:
    """It needs Helm and values that the chart accepts, refuses templates, and writes nothing without a DRA driver."""
    target = tmp_path / "bundle"
    refuse("manifests", target, "no-such-helm", CHART, "--helm=no-such-helm")
    for values, complaint, code in (
        ({"unknownValue": True}, "unknownValue", 1),
        ({"podAnnotations": {"x": "{{ .Release.Name }}"}}, f"values of {POST}: Job {POST}", 2),
        ({"podAnnotations": {"x": "a{{b"}}, "contains {{", 2),
    ):
        given = f"--values={POST}={write(tmp_path / 'post.yaml', {**IMAGE, **values})}"
        refuse("manifests", target, complaint, CHART, f"--helm={helm.binary}", given, code=code)
    off = changed(tmp_path / "off.yaml", DRA, overrides={"enabled": False})
    refuse("manifests", target, "no plugins to keep fresh", CHART, recipe=off)
    assert {each.name for each in tmp_path.iterdir()} == {"post.yaml", "off.yaml"}
