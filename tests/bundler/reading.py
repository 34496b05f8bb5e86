"""Read bundles as deployment tools do: which releases, in which order, with which chart and values."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.bundler.program import IMAGE, POST
from tests.chart.rendering import KUBE_VERSION, Helm, Manifests, documents

WAVE: Final = "argocd.argoproj.io/sync-wave"
Object = dict[str, Any]

RECORDER: Final = """\
#!/bin/sh
pwd
printf '%s\\n' "$@" ""
"""
"""In place of Helm: says in which folder it was run, and with which arguments."""


@dataclass(frozen=True, slots=True)
class Found:
    """One release, as a tool will install it."""

    name: str
    namespace: str
    chart: str
    """A path below the bundle, or where the tool fetches it from, as the tool writes it."""
    version: str
    values: Object
    timeout: str = ""
    """The tool's limit, as it writes it."""
    waits: bool = False
    """Whether it must wait for Jobs."""
    after: tuple[str, ...] = ()
    """What it comes after, as the tool writes it."""
    complete_by: str = ""
    """What completes an Application, for the health script."""


def read(tool: str, folder: Path, helm: Helm, *sets: str) -> dict[str, Found]:
    """Read a bundle; ``sets`` are flags of the parent chart's installation."""
    readers: dict[str, Callable[[], Iterable[Found]]] = {
        "helm": lambda: _helm(folder),
        "helmfile": lambda: _helmfile(folder),
        "flux": lambda: _flux(folder),
        "argocd": lambda: map(_application, map(load, sorted(folder.glob("*/application.yaml")))),
        "argocd-helm": lambda: _argocd_helm(folder, helm, sets),
    }
    return {found.name: found for found in readers[tool]()}


def render(found: Found, folder: Path, helm: Helm) -> Manifests:
    """Render a release whose chart is in the bundle, as its tool does."""
    values = folder.parent / f"{folder.name}.{found.name}.values.yaml"
    image = IMAGE if found.name == POST else {}
    values.write_text(yaml.safe_dump({**image, **found.values}))
    arguments = [f"--namespace={found.namespace}", f"--values={values}", f"--kube-version={KUBE_VERSION}"]
    done = helm.run("template", found.name, str(folder / found.chart), *arguments)
    assert done.returncode == 0, done.stderr
    return Manifests(tuple(documents(done.stdout)))


def load(file: Path) -> Object:
    """Read a document."""
    found: Object = yaml.safe_load(file.read_text())
    return found


def _helm(folder: Path) -> Iterable[Found]:
    """Run the script with a recorder in Helm's place: what counts is what a shell makes of it."""
    recorder = folder.parent / f"{folder.name}.recorder"
    recorder.write_text(RECORDER)
    recorder.chmod(recorder.stat().st_mode | stat.S_IXUSR)
    done = subprocess.run(
        [folder / "install.sh", "--kube-context=there"],
        cwd="/",
        env={**os.environ, "HELM": str(recorder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    previous = ""
    for call in done.stdout.removesuffix("\n\n").split("\n\n"):
        where, *arguments = call.splitlines()
        # Before ours, which win where Helm takes the last.
        assert arguments.index("--kube-context=there") < arguments.index("--values")
        arguments.remove("--kube-context=there")
        found = _helm_call(where.removeprefix(f"{folder}/"), folder, arguments, previous)
        previous = found.name
        yield found


def _helm_call(step: str, folder: Path, arguments: list[str], previous: str) -> Found:
    assert ["upgrade", "--install"] == arguments[:2]
    name, chart, *rest = arguments[2:]
    flags = {flag for flag in rest if flag in ("--create-namespace", "--reset-values", "--wait", "--wait-for-jobs")}
    assert {"--create-namespace", "--reset-values"} <= flags
    plain = [each for each in rest if each not in flags]
    options = dict(zip(plain[::2], plain[1::2], strict=True))
    if "--repo" in options:
        chart = f"{options['--repo']} {chart}"
    return Found(
        name,
        options["--namespace"],
        chart.replace("./", f"{step}/"),
        options.get("--version", ""),
        load(folder / step / options["--values"]),
        options.get("--timeout", ""),
        flags >= {"--wait", "--wait-for-jobs"},
        (previous,) if previous else (),
    )


def _helmfile(folder: Path) -> Iterable[Found]:
    state = load(folder / "helmfile.yaml")
    assert state["helmDefaults"]["createNamespace"] is True
    repositories = {each["name"]: each for each in state.get("repositories", [])}
    for release in state["releases"]:
        (values,) = release["values"]
        repository, _, chart = release["chart"].partition("/")
        if repository in repositories:
            found = repositories[repository]
            chart = f"oci://{found['url']}/{chart}" if found.get("oci") else f"{found['url']} {chart}"
        yield Found(
            release["name"],
            release["namespace"],
            chart,
            release.get("version", ""),
            load(folder / values),
            str(release.get("timeout", "")),
            release.get("wait", False) and release.get("waitForJobs", False),
            tuple(release.get("needs", ())),
        )


def _flux(folder: Path) -> Iterable[Found]:
    objects = [load(folder / name) for name in load(folder / "kustomization.yaml")["resources"]]
    sources = {(each["kind"], each["metadata"]["name"]): each.get("spec", {}) for each in objects}
    configs = {each["metadata"]["name"]: each["data"]["values.yaml"] for each in objects if each["kind"] == "ConfigMap"}
    for each in objects:
        if each["kind"] != "HelmRelease":
            continue
        spec = each["spec"]
        assert spec["install"]["createNamespace"] is True
        chart = spec["chart"]["spec"]
        reference = chart["sourceRef"]
        repository = sources[reference["kind"], reference["name"]]
        location = chart["chart"].removeprefix("./")
        if reference["kind"] == "HelmRepository":
            joint = "/" if repository.get("type") == "oci" else " "
            location = f"{repository['url']}{joint}{location}"
        texts = [configs[source["name"]] for source in spec.get("valuesFrom", [])]
        yield Found(
            spec["releaseName"],
            spec["targetNamespace"],
            location,
            chart.get("version", ""),
            yaml.safe_load(texts[0]) if texts else spec.get("values", {}),
            spec.get("timeout", ""),
            # By default.
            not spec["install"].get("disableWait", False),
            tuple(one["name"] for one in spec.get("dependsOn", ())),
        )


def _application(each: Object) -> Found:
    spec = each["spec"]
    source = spec["source"]
    assert {"prune": True, "selfHeal": True} == spec["syncPolicy"]["automated"]
    assert "CreateNamespace=true" in spec["syncPolicy"]["syncOptions"]
    repository = source["repoURL"] if "://" in source["repoURL"] else f"oci://{source['repoURL']}"
    joint = " " if "://" in source["repoURL"] else "/"
    return Found(
        source["helm"]["releaseName"],
        spec["destination"]["namespace"],
        source["path"] if "path" in source else f"{repository}{joint}{source['chart']}",
        source["targetRevision"],
        yaml.safe_load(source["helm"].get("values", "{}")),
        # Argo CD waits for Jobs and has no limit.
        waits=True,
        after=(each["metadata"]["annotations"][WAVE],),
        complete_by=each["metadata"]["annotations"].get("gpu-operator-post/through-by", ""),
    )


def _argocd_helm(folder: Path, helm: Helm, sets: tuple[str, ...]) -> Iterable[Found]:
    done = helm.run("template", "gpu-stack", str(folder), *sets)
    assert done.returncode == 0, done.stderr
    objects = documents(done.stdout)
    return map(_application, sorted(objects, key=lambda each: str(each["metadata"]["annotations"][WAVE])))
