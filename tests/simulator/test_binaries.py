"""Programs are found, or built once, but never by a test."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from devcluster.build import binaries, gotoolchain, programs
from devcluster.build.gobuild import BuildError
from tests.release.commands import defined_verbs


def named(name: str) -> programs.Program:
    """Return a program by its name."""
    return next(program for program in (*programs.PROGRAMS, *programs.DEPLOYERS) if program.name == name)


def script(file: Path, lines: str) -> Path:
    """Write a program of a few lines for the shell."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{lines}\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("name", "answer", "expected"),
    [
        ("kube-apiserver", "Kubernetes v1.37.0", True),
        ("kube-apiserver", "Kubernetes v1.36.3", False),
        ("kubectl", "Client Version: v1.37.2", True),
        ("etcd", "etcd Version: 3.6.13", True),
        ("etcd", "etcd Version: 3.5.21", False),
        ("kwok", "kwok version v0.8.0 go1.26.8 (linux/amd64)", True),
        ("helm4", "v4.3.0+g0000000", True),
        ("helm4", "v4.2.0+g0000000", False),
        ("helm4", "v3.22.1", False),
        ("helm3", "v3.22.1+g0000000", True),
        ("helm3", "v3.19.2+g0000000", False),
    ],
)
def test_which_versions_fit(tmp_path: Path, name: str, answer: str, expected: bool) -> None:
    """A program of the machine is used if its version is one that the project works with."""
    installed = script(tmp_path / named(name).file_name, f"echo '{answer}'")
    assert binaries.fits(named(name), installed) is expected


def test_a_test_builds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is missing is an error, which names the targets of make that build it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with pytest.raises(BuildError, match=re.escape("helm3, argocd (make binaries deployers)")):
        binaries.ensure(["helm3", "argocd"], tmp_path)
    assert not list(tmp_path.iterdir())
    assert binaries.TARGETS.keys() == set(binaries.ALL_NAMES)
    assert set(binaries.TARGETS.values()) <= defined_verbs()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("kubectl", "kubernetes/go.sum"),
        ("helmfile", "helm/v2beta2/go.mod"),
        ("helmfile", "helm/v2beta2/v2beta2.go"),
    ],
)
def test_changed_pins_make_another_cache_entry(
    name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so does what replaces a module; the old program stays for older checkouts."""
    tools = binaries.TOOLS
    monkeypatch.setattr(binaries, "TOOLS", tools)
    before = binaries.fingerprint(named(name))
    folder = tmp_path / file.replace("/", "-")
    shutil.copytree(tools / file.partition("/")[0], folder / file.partition("/")[0])
    monkeypatch.setattr(binaries, "TOOLS", folder)
    assert binaries.fingerprint(named(name)) == before
    with (folder / file).open("a") as source:
        source.write("// more\n")
    assert binaries.fingerprint(named(name)) != before


def test_every_version_is_exact() -> None:
    """Each program's version is in its module's go.mod, but for our own. The oldest Go builds all of them."""
    for program in binaries.EVERY:
        go_mod = (binaries.TOOLS / program.module / "go.mod").read_text() if program.name != "pause" else ""
        assert program.name == "pause" or f" {program.version} " in go_mod.replace("\n", " \n"), program.name
    lines = [re.findall(r"^go (\S+)$", file.read_text(), re.MULTILINE) for file in binaries.TOOLS.rglob("go.mod")]
    newest = max(tuple(map(int, line.split("."))) for (line,) in lines)
    assert newest == gotoolchain.OLDEST
    assert tuple(map(int, gotoolchain.pinned_version().split("."))) >= gotoolchain.OLDEST
