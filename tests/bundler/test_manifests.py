"""Plain manifests, for bundlers that wrap objects and remove hook annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from tests.bundler.program import (
    DRA,
    IMAGE,
    KEY,
    LOCAL_CHARTS,
    OPERATOR,
    POST,
    RECIPE,
    bundle,
    changed,
    contents,
    run,
    write,
)
from tests.bundler.reading import load, read, render

if TYPE_CHECKING:
    from pathlib import Path

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
    assert {(each["kind"], each["metadata"]["name"]): each for each in expected} == objects
    assert all(each["metadata"].get("namespace", "gpu-operator") == "gpu-operator" for each in objects.values())
    dra = load(folder / f"{DRA}.values.yaml")
    assert {pod: {"podAnnotations": {KEY: "v26.3.3"}} for pod in ("controller", "kubeletPlugin")} == dra


def test_a_controller_alone(tmp_path: Path, helm: Helm) -> None:
    """Without a Job there is only the Deployment and what it needs."""
    post = write(tmp_path / "post.yaml", {**IMAGE, "controller": {"enabled": True}, "job": {"enabled": False}})
    arguments = (CHART, f"--helm={helm.binary}", f"--values={POST}={post}")
    text = (bundle("manifests", tmp_path / "bundle", *arguments) / f"{POST}.yaml").read_text()
    kinds = {each["kind"] for each in yaml.safe_load_all(text)}
    assert {"Deployment", "ServiceAccount", "ClusterRole", "Role"} <= kinds
    assert not {"Job", "ConfigMap"} & kinds


def test_job_takes_another_name(tmp_path: Path, helm: Helm) -> None:
    """Each version and driver of the operator gives it one; a version restarts the DRA driver too."""
    arguments = (CHART, f"--helm={helm.binary}", f"--values={POST}={write(tmp_path / 'image.yaml', IMAGE)}")
    driver = write(tmp_path / "driver.yaml", {"driver": {"version": "580.126.20"}})
    bumped = changed(tmp_path / "bumped.yaml", OPERATOR, version="v26.7.0")
    folders = [
        bundle("manifests", tmp_path / "before", *arguments),
        bundle("manifests", tmp_path / "driver", *arguments, f"--values={OPERATOR}={driver}"),
        bundle("manifests", tmp_path / "bumped", *arguments, recipe=bumped),
    ]
    names = [
        each["metadata"]["name"]
        for folder in folders
        for each in yaml.safe_load_all((folder / f"{POST}.yaml").read_text())
        if each["kind"] == "Job"
    ]
    assert 3 == len(set(names))
    annotated = [load(folder / f"{DRA}.values.yaml")["kubeletPlugin"]["podAnnotations"] for folder in folders]
    assert [{KEY: version} for version in ("v26.3.3", "v26.3.3", "v26.7.0")] == annotated


def test_needs_helm(tmp_path: Path, helm: Helm) -> None:
    """Without Helm, and with values that the chart refuses, it says so and writes nothing."""
    arguments = ("bundle", "--recipe", RECIPE, "--deployer=manifests", "--output", tmp_path / "bundle", CHART)
    done = run(*arguments, "--helm=no-such-helm")
    assert 2 == done.code
    assert "no-such-helm" in done.err
    post = write(tmp_path / "post.yaml", {**IMAGE, "unknownValue": True})
    done = run(*arguments, f"--helm={helm.binary}", f"--values={POST}={post}")
    assert 1 == done.code
    assert "unknownValue" in done.err
    assert {"post.yaml"} == {each.name for each in tmp_path.iterdir()}


def test_refuses_templates(tmp_path: Path, helm: Helm) -> None:
    """Plain manifests may be rendered once more, so what looks like a template is refused with its place."""
    arguments = ("bundle", "--recipe", RECIPE, "--deployer=manifests", "--output", tmp_path / "bundle", CHART)
    for given in ({"x": "{{ .Release.Name }}"}, {"x": "a{{b"}):
        post = write(tmp_path / "post.yaml", {**IMAGE, "podAnnotations": given})
        done = run(*arguments, f"--helm={helm.binary}", f"--values={POST}={post}")
        assert (2, "") == (done.code, done.out)
        assert f"values of {POST}: Job {POST}" in done.err
        assert "contains {{" in done.err
        assert {"post.yaml"} == {each.name for each in tmp_path.iterdir()}


def test_nothing_to_render(tmp_path: Path) -> None:
    """A recipe without a DRA driver has nothing to keep fresh."""
    off = changed(tmp_path / "off.yaml", DRA, overrides={"enabled": False})
    done = run("bundle", "--recipe", off, "--deployer=manifests", "--output", tmp_path / "bundle", CHART)
    assert 2 == done.code
    assert "no plugins to keep fresh" in done.err
