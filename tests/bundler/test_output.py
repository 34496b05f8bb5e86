"""A bundle is written whole or not at all, with the same bytes every time, and never over files of others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bundler.program import (
    OLD_RECIPE,
    OPERATOR,
    OURS,
    POST,
    RECIPE,
    ROOT,
    TOOLS,
    bundle,
    changed,
    contents,
    refuse,
    run,
    write,
)
from tests.bundler.reading import load

ARGUMENTS = ("bundle", "--recipe", RECIPE, "--deployer=helm", OURS, "--output")


def _process(target: Path, seed: str, *more: str, **environment: str) -> int:
    """Run the program as a process, from another directory, perhaps with more environment variables."""
    return subprocess.run(
        [sys.executable, "-m", "bundler", *map(str, ARGUMENTS), target.name, *more],
        cwd=target.parent,
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
        check=False,
        timeout=120,
    ).returncode


@pytest.mark.parametrize("tool", TOOLS)
def test_same_bytes(tmp_path: Path, tool: str) -> None:
    """A bundle depends neither on time, process, directory, order of hashes nor environment, which forces nothing."""
    names = ("TIMEOUT=3m", "KEY=x/y", "FORCE=1", "HOOK=false", "POST_VERSION=9.9.9", "BUNDLE_FORCE=1")
    given = dict(f"GPU_OPERATOR_POST_{name}".split("=") for name in names)
    first, second = tmp_path / "one", tmp_path / "elsewhere" / "other-name"
    second.parent.mkdir()
    assert _process(first, "1", f"--deployer={tool}") == 0
    assert _process(second, "2", f"--deployer={tool}", **given) == 0
    assert contents(first) == contents(second)
    assert _process(second, "1", **given) == 2


def test_force_leaves_nothing_behind(tmp_path: Path) -> None:
    """An existing bundle is refused and stays; with force all of it is replaced."""
    target = bundle("helm", tmp_path / "bundle")
    refuse("flux", target, "not empty; --force")
    bundle("flux", target, "--force")
    assert contents(bundle("flux", tmp_path / "fresh")) == contents(target)
    assert {"bundle", "fresh"} == {each.name for each in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("name", "nested", "complaint"),
    [
        ("other", "", "an earlier bundle only"),
        ("root", ".git", "a Git repository"),
        ("below", "project/.git", "a Git repository"),
    ],
)
def test_force_is_for_bundles(name: str, nested: str, complaint: str, tmp_path: Path) -> None:
    """Force replaces an earlier bundle and nothing else: no other directory, and no bundle with a repository in it."""
    target = tmp_path / name
    if nested:
        (bundle("helm", target) / nested).mkdir(parents=True)
    else:
        target.mkdir()
        (target / "README.md").write_text("# My thesis\n")
    refuse("helm", target, complaint, "--force")
    assert not nested or (target / nested).is_dir()


@pytest.mark.parametrize(
    ("complaint", "more"),
    [
        ("version", ["--recipe", "broken.yaml"]),
        ("valuesFile: '../values.yaml' leads out of", ["--data", "data", "--recipe", "outside.yaml"]),
        ("timeout", ["--values", f"{POST}=values.yaml"]),
        ("trigger", ["--values", f"{POST}=trigger.yaml"]),
        ("stack: a bundle has the release of the stack gpu alone", ["--values", f"{POST}=network.yaml"]),
        ("cannot read", ["--values", f"{POST}=none"]),
        ("Error: ", ["--chart", f"{POST}=."]),
        ("timeout: '1d' is not a duration", ["--timeout=1d"]),
        ("is not COMPONENT=", ["--values=driver=x.yaml"]),
        ("is not COMPONENT=", ["--values=gpu-operator"]),
        ("neither a repository", ["--chart=gpu-operator=ftp://x"]),
        ("--git-path", ["--git-url=https://a.example/b.git", "--git-path=../outside"]),
        ("--git-path /abs", ["--git-url=https://a.b/c", "--git-path=/abs"]),
    ],
)
def test_nothing_is_written_on_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: str, more: list[str]
) -> None:
    """What is there stays as it was when the recipe, the values, the charts or a flag are wrong, also by force."""
    monkeypatch.chdir(tmp_path)
    changed(tmp_path / "broken.yaml", OPERATOR, version=26.7)
    changed(tmp_path / "outside.yaml", OPERATOR, valuesFile="../values.yaml")
    write(tmp_path / "values.yaml", {"timeout": 25})
    write(tmp_path / "trigger.yaml", {"trigger": 7})
    write(tmp_path / "network.yaml", {"stack": "network"})
    (tmp_path / "data").mkdir()
    target = bundle("argocd", tmp_path / "below" / "bundle")
    refuse("argocd", target, complaint, "--force", *more)
    assert ["bundle"] == [each.name for each in target.parent.iterdir()]


def test_copied_chart(tmp_path: Path) -> None:
    """A chart's directory is copied file by file; a link, which could lead anywhere, is refused."""
    source = tmp_path / "source"
    (source / "templates").mkdir(parents=True)
    (source / ".git").mkdir()
    (source / ".git" / "config").write_text("x")
    (source / "Chart.yaml").write_text("name: x\n")
    (source / "templates" / "a.yaml").write_bytes(b"\x00\xff")
    folder = bundle("helm", tmp_path / "bundle", f"--chart={POST}={source}")
    expected = {"Chart.yaml": b"name: x\n", "templates/a.yaml": b"\x00\xff"}
    assert expected == contents(folder / "002-gpu-operator-post" / "chart")
    (source / "link").symlink_to("/etc/hostname")
    refuse("helm", tmp_path / "other", "the file is a link", f"--chart={POST}={source}")


def test_values_files_of_the_recipe(tmp_path: Path) -> None:
    """AICR's own values come from its data directory, below the overrides; without it the bundle says what it lacks."""
    data = tmp_path / "data"
    folder = data / "components" / OPERATOR
    given = {"cdi": {"enabled": False, "default": True}, "driver": {"version": "1.2"}}
    write(folder / "values-aks-training.yaml", given)
    write(data / "components" / "nvidia-dra-driver-gpu" / "values.yaml", {"nameOverride": "our-dra"})
    made = bundle("helm", tmp_path / "with", "--data", data, recipe=OLD_RECIPE)
    values = load(made / "001-gpu-operator" / "values.yaml")
    assert {"enabled": True, "default": True} == values["cdi"]
    post = load(made / "002-gpu-operator-post" / "values.yaml")
    assert {"chartVersion": "v25.10.1", "driverVersion": "1.2"} == post["expect"]
    assert {"names": ["our-dra-kubelet-plugin"]} == post["plugin"]
    assert "valuesFile" not in (made / "README.md").read_text()
    done = run("bundle", "--recipe", OLD_RECIPE, "--deployer=helm", "--output", tmp_path / "without")
    assert (0, "") == (done.code, done.err)
    assert "note: the recipe's valuesFile of gpu-operator" in done.out
    assert "values-aks-training.yaml" in (tmp_path / "without" / "README.md").read_text()
