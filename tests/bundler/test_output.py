"""A bundle is written whole or not at all, with the same bytes every time, and never over files of others."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from bundler import output
from bundler.output import OutputError
from tests.bundler.program import (
    LOCAL_CHARTS,
    OLD_RECIPE,
    OPERATOR,
    OURS,
    POST,
    RECIPE,
    ROOT,
    TOOLS,
    Ended,
    bundle,
    changed,
    contents,
    refuse,
    run,
    write,
)
from tests.bundler.reading import load

if TYPE_CHECKING:
    from pathlib import Path

ARGUMENTS = ("bundle", "--recipe", RECIPE, "--deployer=helm", OURS, "--output")


def _process(target: Path, seed: str, *more: str, **environment: str) -> Ended:
    """Run the program as a process, from another directory, perhaps with more environment variables."""
    done = subprocess.run(
        [sys.executable, "-m", "bundler", *map(str, ARGUMENTS), target.name, *more],
        cwd=target.parent,
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def test_same_bytes(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A bundle depends neither on the time, the process, the directory nor the order of hashes."""
    for tool in TOOLS:
        place = tmp_path / tool
        place.mkdir()
        with subtests.test(tool):
            (place / "elsewhere").mkdir()
            flag = f"--deployer={tool}"
            assert 0 == _process(place / "one", "1", flag).code
            assert 0 == _process(place / "elsewhere" / "other-name", "2", flag).code
            assert contents(place / "one") == contents(place / "elsewhere" / "other-name")


def test_environment_changes_nothing(tmp_path: Path) -> None:
    """Variables that mean the run in a pod, or that happen to be set in CI, neither change a bundle nor force it."""
    names = ("TIMEOUT=3m", "KEY=x/y", "FORCE=1", "HOOK=false", "POST_VERSION=9.9.9", "BUNDLE_FORCE=1")
    given = dict(f"GPU_OPERATOR_POST_{name}".split("=") for name in names)
    assert 0 == _process(tmp_path / "plain", "1").code
    assert 0 == _process(tmp_path / "with", "1", **given).code
    assert contents(tmp_path / "plain") == contents(tmp_path / "with")
    assert 2 == _process(tmp_path / "with", "1", **given).code


def test_force_leaves_nothing_behind(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """An existing bundle is refused and stays; with force all of it is replaced."""
    for tool in TOOLS:
        place = tmp_path / tool
        place.mkdir()
        with subtests.test(tool):
            target = bundle("flux" if tool == "helm" else "helm", place / "bundle")
            refuse(tool, target, "not empty")
            refuse(tool, target, "--force")
            bundle(tool, target, "--force")
            assert contents(bundle(tool, place / "fresh")) == contents(target)
            assert {"bundle", "fresh"} == {each.name for each in place.iterdir()}


def test_directories_that_are_free(tmp_path: Path) -> None:
    """An empty directory, and one that is not there with its parents, are filled; modes are the user's usual ones."""
    (tmp_path / "empty").mkdir()
    bundle("helm", tmp_path / "empty")
    deep = bundle("helm", tmp_path / "a" / "b" / "c")
    (tmp_path / "usual").mkdir()
    assert (tmp_path / "usual").stat().st_mode == deep.stat().st_mode
    assert os.access(deep / "install.sh", os.X_OK)
    assert not os.access(deep / "README.md", os.X_OK)


def test_directory_stays_itself(tmp_path: Path) -> None:
    """A mount point cannot be renamed, and what is around it may be read-only: the directory is filled as it is."""
    target = tmp_path / "around" / "out"
    target.mkdir(parents=True)
    before = target.stat().st_ino
    target.parent.chmod(0o555)
    try:
        bundle("helm", target)
        bundle("flux", target, "--force")
    finally:
        target.parent.chmod(0o755)
    assert before == target.stat().st_ino
    assert contents(bundle("flux", tmp_path / "fresh")) == contents(target)


def test_force_is_for_bundles(tmp_path: Path) -> None:
    """Force replaces an earlier bundle and nothing else: no other directory, and no bundle with a repository in it."""
    for name, nested, complaint in (
        ("other", "", "an earlier bundle only"),
        ("root", ".git", "a Git repository"),
        ("below", "project/.git", "a Git repository"),
    ):
        target = tmp_path / name
        if nested:
            (bundle("helm", target) / nested).mkdir(parents=True)
        else:
            target.mkdir()
            (target / "README.md").write_text("# My thesis\n")
        refuse("helm", target, complaint, "--force")
        assert not nested or (target / nested).is_dir(), name


def test_a_disk_that_fails(tmp_path: Path) -> None:
    """The old bundle stays, nothing of the new one is left, and the exit code is not that of a wrong input."""
    target = bundle("helm", tmp_path / "bundle")
    before = contents(target)
    # A path cannot be a file and a directory.
    with pytest.raises(OutputError, match="--output"):
        output.write({"first": "x", "second": "x", "second/third": "x"}, target, force=True)
    assert before == contents(target)
    file = tmp_path / "file"
    file.write_text("x")
    for refused in (file, file / "bundle"):
        done = run(*ARGUMENTS, refused, "--force")
        assert (done.code, done.err.startswith("Error: --output")) == (1, True), refused
        assert file.read_text() == "x"
    assert {entry.name for entry in tmp_path.iterdir()} == {"file", "bundle"}


def test_nothing_is_written_on_error(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """What is there stays as it was when the recipe, the values or the charts are wrong, also by force."""
    for tool in TOOLS:
        place = tmp_path / tool
        place.mkdir()
        with subtests.test(tool):
            target = bundle(tool, place / "bundle")
            broken = changed(place / "broken.yaml", OPERATOR, version=26.7)
            values = write(place / "values.yaml", {"timeout": 25})
            trigger = write(place / "trigger.yaml", {"trigger": 7})
            for more in (
                ("--recipe", broken),
                ("--values", f"{POST}={values}"),
                ("--values", f"{POST}={trigger}"),
                ("--values", f"{POST}={place / 'none'}"),
                ("--chart", f"{POST}={place}"),
                ("--timeout", "25"),
                ("--git-url=https://a.example/b.git", "--git-path=../outside"),
            ):
                refuse(tool, target, "Error: ", "--force", *more)
            assert {"bundle", "broken.yaml", "trigger.yaml", "values.yaml"} == {each.name for each in place.iterdir()}


def test_usage(tmp_path: Path) -> None:
    """A flag that cannot work is reported."""
    for arguments, complaint in (
        (["--deployer=fleet"], "--deployer"),
        (["--timeout=1d"], "timeout: '1d' is not a duration"),
        (["--values=driver=x.yaml"], "is not COMPONENT="),
        (["--values=gpu-operator"], "is not COMPONENT="),
        (["--chart=gpu-operator=ftp://x"], "neither a repository"),
        (["--git-url=https://a.b/c", "--git-path=/abs"], "--git-path /abs"),
    ):
        refuse("helm", tmp_path / "bundle", complaint, *arguments)
    assert not (tmp_path / "bundle").exists()


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


def test_values_file_that_leads_out(tmp_path: Path) -> None:
    """A recipe cannot make the program read what lies outside of the data directory."""
    (tmp_path / "data").mkdir()
    write(tmp_path / "secret.yaml", {"a": "b"})
    file = changed(tmp_path / "r.yaml", OPERATOR, valuesFile="../secret.yaml")
    complaint = "componentRefs[0].valuesFile: '../secret.yaml' leads out of"
    refuse("helm", tmp_path / "bundle", complaint, "--data", tmp_path / "data", recipe=file)


def test_flags_without_effect(tmp_path: Path) -> None:
    """Flags for a component that is switched off get a note."""
    off = changed(tmp_path / "off.yaml", "nvidia-dra-driver-gpu", overrides={"enabled": False})
    chart = f"--chart={POST}={LOCAL_CHARTS[POST]}"
    done = run("bundle", "--recipe", off, "--deployer=helm", "--output", tmp_path / "bundle", chart)
    assert "note: the flags for gpu-operator-post have no effect" in done.out
