"""Every deployment tool's bundle installs the same: the same Job, the same values, the same order, enough time."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.bundler.program import (
    COPIED,
    DRA,
    KEY,
    LOCAL_CHARTS,
    OLD_RECIPE,
    OPERATOR,
    POST,
    RECIPE,
    SOURCE,
    TOOLS,
    Ended,
    bundle,
    changed,
    component,
    contents,
    recipe,
    refuse,
    run,
    write,
)
from tests.bundler.reading import Found, load, read, render
from tests.chart.rendering import HOOK_ANNOTATIONS, ROOT, Helm, Manifests

AWKWARD: Final[dict[str, Any]] = {
    "affinity": None,
    "exponent": "1e3",
    "octal": "0755",
    "date": "2026-11-21",
    "word": "off",
    "letter": "y",
    "large": 123456789012,
    "share": 0.5,
    "zero": 0,
    "off": False,
    "empty": {},
    "none": [],
    "template": "{{ .Release.Name }} ${HOME} $(id) `id` 'x' \"y\"",
    "text": "one\ntwo: {{ three }}\n",
    "list": [{"name": "A", "value": ""}, None, "-"],
    "above": {"below": {"value": None}},
}
"""Values that are easily lost or changed on the way through YAML, shells and templates."""
MISSING: Final = "missing"
STALE: Final = {"podAnnotations": {KEY: "v1.0.0", "mine": "kept"}, "priorityClassName": ""}
KEPT: Final = {**STALE, "podAnnotations": {KEY: "v26.3.3", "mine": "kept"}}
RENAMED: Final = {DRA: {"overrides": {"nameOverride": "our-dra"}}}
OTHER_CHART: Final = {DRA: {"chart": "our-dra", "overrides": {"nameOverride": ""}}}
OURS: Final = {"names": ["our-dra-kubelet-plugin"]}
COPIED_POST: Final = f"--chart={POST}={LOCAL_CHARTS[POST]}"
GIT: Final = ("--git-url=ssh://git@git.example/stack.git", "--git-revision=prod", "--git-path=clusters/one/")
EACH: Final = pytest.mark.parametrize("tool", TOOLS)
FROM_OPERATOR: Final = {"chartVersion": "v26.3.3", "driver": {"version": "580.105.08"}}


@dataclass(frozen=True, slots=True)
class Case:
    """Values, flags and fields of the recipe, and the values that each tool then installs."""

    expected: dict[str, dict[str, Any]]
    """By component, and by the path of the value; the empty path is all of them."""
    values: dict[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = COPIED
    recipe: dict[str, dict[str, Any]] = field(default_factory=dict)


def _of_driver(expected: str, **driver: object) -> Case:
    return Case({POST: {"expect.driverVersion": expected}}, recipe={OPERATOR: {"overrides": {"driver": driver}}})


CASES: Final[dict[str, Case]] = {
    "both workloads are annotated, because both load the driver's library": Case(
        {DRA: {f"{pod}.podAnnotations": {KEY: "v26.3.3"} for pod in ("controller", "kubeletPlugin")},
         POST: {"plugin": MISSING}}
    ),
    "derived values replace those of users, and everything else stays": Case(
        {DRA: {"controller": KEPT, "kubeletPlugin": KEPT},
         POST: {"expect": {"chartVersion": "v26.3.3", "driverVersion": "580.105.08"}, "hook.enabled": False,
                "backoffLimit": 7}},
        {DRA: {"controller": STALE, "kubeletPlugin": STALE},
         POST: {"expect": {"chartVersion": "v1", "driverVersion": "1"}, "hook": {"enabled": True}, "backoffLimit": 7}},
        (*COPIED, "--no-hook"),
    ),
    "nulls, numbers as text, templates and shell characters arrive": Case(
        {OPERATOR: {"": {**FROM_OPERATOR, **AWKWARD}}}, {OPERATOR: AWKWARD}
    ),
    "values rename the plugin": Case({POST: {"plugin": OURS}}, flags=(), recipe=RENAMED),
    "the chart's name renames the plugin": Case({POST: {"plugin": OURS}}, flags=(), recipe=OTHER_CHART),
    "a copied chart has a name of its own": Case(
        {POST: {"plugin": {"names": ["dra-driver-kubelet-plugin"]}}}, recipe=OTHER_CHART
    ),
    "values name the plugin": Case(
        {POST: {"plugin": {"names": ["mine"]}}}, {POST: {"plugin": {"names": ["mine"]}}}, recipe=RENAMED
    ),
    "a driver version": _of_driver("580.126.20", version="580.126.20"),
    "a precompiled driver branch": _of_driver("580", version="580", usePrecompiled=True),
    "the chart's own driver": _of_driver(MISSING),
    "a driver of the host": _of_driver(MISSING, version="580.126.20", enabled=False),
    "a driver by NVIDIADriver": _of_driver(MISSING, version="580.126.20", nvidiaDriverCRD={"enabled": True}),
    "a driver by digest": _of_driver(MISSING, version="sha256:" + "0" * 64),
    "no driver version": _of_driver(MISSING, version=None),
}  # fmt: skip


def _given(place: Path, values: dict[str, Any]) -> list[str]:
    """Write values of components, and return the flags that pass them."""
    return [f"--values={name}={write(place.with_suffix(f'.{name}.yaml'), each)}" for name, each in values.items()]


def _made(tool: str, target: Path, helm: Helm, *more: str | Path, recipe: Path = RECIPE) -> dict[str, Found]:
    return read(tool, bundle(tool, target, *COPIED, *more, recipe=recipe), helm)


def _value(values: object, path: str) -> object:
    for key in filter(None, path.split(".")):
        if not isinstance(values, dict) or key not in values:
            return MISSING
        values = values[key]
    return values


@EACH
@pytest.mark.parametrize("name", CASES)
def test_every_tool_gets_the_same_values(tmp_path: Path, helms: dict[str, Helm], name: str, tool: str) -> None:
    """The parent chart renders the same with both Helms."""
    case, document = CASES[name], recipe()
    for each, fields in case.recipe.items():
        component(document, each).update(fields)
    file, given = write(tmp_path / "recipe.json", document), _given(tmp_path / "given", case.values)
    folder = bundle(tool, tmp_path / tool, *case.flags, *given, recipe=file)
    found = read(tool, folder, helms["helm4"])
    for each, values in case.expected.items():
        assert {path: _value(found[each].values, path) for path in values} == values, each
    if tool == "argocd-helm":
        assert read(tool, folder, helms["helm3"]) == found


def _specification(manifests: Manifests) -> str:
    """Return the Job's specification without its name."""
    job = copy.deepcopy(manifests.job)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["env"] = manifests.config
    text = repr(job["spec"])
    assert job["metadata"]["name"] in text
    return text.replace(job["metadata"]["name"], "JOB")


@pytest.mark.parametrize(("flag", "hook"), [("--hook", HOOK_ANNOTATIONS), ("--no-hook", None)])
def test_same_job(flag: str, hook: dict[str, str] | None, tmp_path: Path, helm: Helm) -> None:
    """It is a hook, or a plain Job that the tool waits for."""
    specifications = set()
    for tool in TOOLS:
        target = tmp_path / flag / tool
        found = _made(tool, target, helm, flag, "--timeout=1h10m")
        post, manifests = found[POST], render(found[POST], target, helm)
        specifications.add(_specification(manifests))
        assert manifests.job["metadata"].get("annotations") == hook, tool
        assert (manifests.job["metadata"]["name"] == POST) == (flag == "--hook"), tool
        assert post.waits or flag == "--hook", tool
        assert manifests.job["spec"]["activeDeadlineSeconds"] == 4200, tool
        assert manifests.config["expect"] == {"chartVersion": "v26.3.3", "driverVersion": "580.105.08"}, tool
        tracked = manifests.one("ConfigMap")
        assert tracked["data"].keys() == {"trigger"}, tool
        assert post.values["trigger"].startswith("v26.3.3-"), tool
        pods = render(found[DRA], target, helm).one("DaemonSet")["spec"]["template"]
        assert pods["metadata"]["annotations"][KEY] == "v26.3.3", tool
        # Nothing that a project might forbid, or that needs a namespace which may be missing.
        namespaces = {each["metadata"].get("namespace", post.namespace) for each in manifests.objects}
        assert namespaces == {post.namespace}, tool
    assert len(specifications) == 1


@EACH
@pytest.mark.parametrize("gate", ["enabled", "install"])
def test_without_the_dra_driver_the_operator_comes_alone(tmp_path: Path, helm: Helm, gate: str, tool: str) -> None:
    """There is nothing to refresh, and there is no note."""
    target, file = tmp_path / tool, changed(tmp_path / "off.yaml", DRA, overrides={gate: False})
    done = run("bundle", "--recipe", file, "--deployer", tool, "--output", target, ours="")
    assert done == Ended(0, f"{len(contents(target))} files in {target}\n", "")
    assert list(read(tool, target, helm)) == [OPERATOR]
    for name, content in contents(target).items():
        assert KEY.encode() not in content, name
        assert name == "README.md" or POST.encode() not in content, name


@EACH
def test_without_the_operator_the_dra_driver_comes_alone(tmp_path: Path, helm: Helm, tool: str) -> None:
    """Its values are those of the recipe."""
    file = changed(tmp_path / "off.yaml", OPERATOR, overrides={"enabled": False})
    found = read(tool, bundle(tool, tmp_path / tool, recipe=file, ours=""), helm)
    assert {name: each.values for name, each in found.items()} == {DRA: {"nameOverride": DRA}}


@EACH
@pytest.mark.parametrize(
    ("flag", "value", "timeout", "expected"),
    [
        ("1h58m", "2h", "1h58m", {"helm": "2h", "helmfile": "7200", "flux": "2h"}),
        ("3h20m10s", None, "3h20m10s", {"helm": "12130s", "helmfile": "12130", "flux": "12130s"}),
        (None, "2h", "2h", {"helm": "122m", "helmfile": "7320", "flux": "122m"}),
    ],
)
def test_tools_get_enough_time(  # noqa: PLR0913, PLR0917 - two fixtures, and a row
    tmp_path: Path, helm: Helm, flag: str | None, value: str | None, timeout: str, expected: dict[str, str], tool: str
) -> None:
    """Each tool with a limit gets two minutes more than the run, whose timeout comes from the flag, then the values."""
    more = [f"--timeout={flag}"] if flag else []
    if value:
        more += _given(tmp_path / "given", {POST: {"timeout": value}})
    found = _made(tool, tmp_path / tool, helm, *more)
    assert (found[POST].values["timeout"], found[POST].timeout) == (timeout, expected.get(tool, ""))
    assert (found[OPERATOR].timeout, found[DRA].timeout) == ("", "")


@EACH
def test_trigger_follows_the_operators_values(tmp_path: Path, helm: Helm, tool: str) -> None:
    """A new driver alone changes the trigger, so that a GitOps tool syncs; nothing new leaves it as it is."""
    values = _given(tmp_path / "given", {OPERATOR: {"driver": {"version": "580.126.20"}}})
    before, same = (_made(tool, tmp_path / name, helm)[POST].values for name in ("before", "same"))
    assert before == same
    after = _made(tool, tmp_path / "after", helm, *values)[POST].values
    assert before["trigger"] != after["trigger"]
    newer = changed(tmp_path / "newer.yaml", OPERATOR, version="v26.7.0")
    assert _made(tool, tmp_path / "newer", helm, recipe=newer)[POST].values["trigger"].startswith("v26.7.0-")


def test_values_at_install_time(tmp_path: Path, helms: dict[str, Helm]) -> None:
    """The parent chart takes values for its releases, and derives from them too; users cannot override that."""
    folder = bundle("argocd-helm", tmp_path / "bundle", *COPIED)
    for helm in helms.values():
        before = read("argocd-helm", folder, helm)
        after = read(
            "argocd-helm", folder, helm,
            "--set", "gpu-operator.driver.version=580.126.20", "--set", f"{DRA}.nameOverride=our-dra",
            "--set", f"{DRA}.controller.podAnnotations.mine=kept,{POST}.expect.chartVersion=v1,{POST}.timeout=2h",
            "--set-json", f'{DRA}.kubeletPlugin.podAnnotations={{"{KEY}": "v1"}}', "--set", "argocd.namespace=gitops",
        )  # fmt: skip
        assert before[POST].values["trigger"] != after[POST].values["trigger"]
        expected = {
            "plugin": OURS, "timeout": "2h",
            "expect": {"chartVersion": "v26.3.3", "driverVersion": "580.126.20"},
        }  # fmt: skip
        assert expected.items() <= after[POST].values.items()
        assert after[DRA].values["controller"]["podAnnotations"] == {KEY: "v26.3.3", "mine": "kept"}
        assert after[DRA].values["kubeletPlugin"]["podAnnotations"] == {KEY: "v26.3.3"}


WITHOUT_JOB: Final = {POST: {"job": {"enabled": False}, "controller": {"enabled": True}}}
AT_INSTALL: Final = ("--set", f"{POST}.job.enabled=false,{POST}.controller.enabled=true")
BOTH: Final = "operation-and-health"


@pytest.mark.parametrize(
    ("tool", "values", "flags", "sets", "by", "has_script"),
    [
        ("argocd", {}, (), (), "operation", False),
        ("argocd", WITHOUT_JOB, (), (), BOTH, True),
        ("argocd", {}, ("--no-hook",), (), BOTH, False),
        ("argocd-helm", {}, (), (), "operation", True),
        ("argocd-helm", WITHOUT_JOB, (), (), BOTH, True),
        ("argocd-helm", {}, ("--no-hook",), (), BOTH, True),
        ("argocd-helm", {}, (), AT_INSTALL, BOTH, True),
    ],
)
def test_an_application_waits_for_a_controller_without_a_job(  # noqa: PLR0913, PLR0917 - two fixtures, and a row
    tmp_path: Path,
    helm: Helm,
    tool: str,
    values: dict[str, Any],
    flags: tuple[str, ...],
    sets: tuple[str, ...],
    by: str,
    *,
    has_script: bool,
) -> None:
    """Argo CD then evaluates the status object in addition to the operation, with the script of the examples."""
    status = "resource.customizations.health.ConfigMap"
    script = load(ROOT / "examples" / "gates" / "argocd-cm.patch.yaml")["data"][status]
    folder = bundle(tool, tmp_path / "bundle", *COPIED, *flags, *_given(tmp_path / "given", values))
    assert ["operation", by, "operation"] == [each.complete_by for each in read(tool, folder, helm, *sets).values()]
    assert (script if has_script else None) == load(folder / "argocd-cm.patch.yaml")["data"].get(status)


@EACH
def test_charts_of_the_recipe(tmp_path: Path, helm: Helm, tool: str) -> None:
    """Charts come from where the recipe or a flag says, in that version, in the form that the tool reads."""
    flags = (f"--chart={POST}=http://charts.example/ours/", "--post-version=9.9.9", f"--chart={OPERATOR}={SOURCE}")
    ngc = "https://helm.ngc.nvidia.com/nvidia"
    dra = "oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu"
    found = read(tool, bundle(tool, tmp_path / "bundle", recipe=OLD_RECIPE), helm)
    charts = [f"{ngc} gpu-operator", f"{SOURCE}/{POST}", f"{ngc} nvidia-dra-driver-gpu"]
    assert [found[name].chart for name in (OPERATOR, POST, DRA)] == charts
    assert [release.version for release in found.values()] == ["v25.10.1", "0.1.0", "25.12.0"]
    other = read(tool, bundle(tool, tmp_path / "other", *flags), helm)
    charts = [f"{SOURCE}/gpu-operator", "http://charts.example/ours gpu-operator-post", dra]
    assert [other[name].chart for name in (OPERATOR, POST, DRA)] == charts
    assert other[POST].version == "9.9.9"


@EACH
def test_recipe_that_names_our_chart(tmp_path: Path, helm: Helm, tool: str) -> None:
    """A recipe may contain our release as a component, or switch it off."""
    ours = {"name": POST, "source": "https://charts.example", "version": "2.0.0", "namespace": "elsewhere"}
    found = {}
    for enabled in (True, False):
        document = recipe()
        document["componentRefs"].append({**ours, "overrides": {"maxParallelRestarts": 3, "enabled": enabled}})
        file = write(tmp_path / f"{enabled}.yaml", document)
        found[enabled] = read(tool, bundle(tool, tmp_path / str(enabled), recipe=file, ours=""), helm)
    assert list(found[False]) == [OPERATOR, DRA]
    assert list(found[True]) == [OPERATOR, POST, DRA]
    post = found[True][POST]
    shown = (post.chart, post.version, post.namespace, post.values["maxParallelRestarts"])
    assert shown == (f"https://charts.example {POST}", "2.0.0", "elsewhere", 3)


@pytest.mark.parametrize("tool", [*TOOLS, "manifests"])
def test_our_chart_has_no_default_source(tool: str, tmp_path: Path) -> None:
    """An attacker could claim a registry name that has no owner yet: you name a source that you trust."""
    refuse(tool, tmp_path / "bundle", f"--chart {POST}=oci://…", ours="")
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("tool", ["flux", "argocd", "argocd-helm"])
def test_copied_charts_come_from_git(tmp_path: Path, helm: Helm, tool: str) -> None:
    """A GitOps tool reads a copied chart from where the bundle is committed; without that it is refused."""
    folder = bundle(tool, tmp_path / tool, COPIED_POST, *GIT)
    assert read(tool, folder, helm)[POST].chart == f"clusters/one/002-{POST}/chart"
    for text in (b"ssh://git@git.example/stack.git", b"prod"):
        assert any(text in content for content in contents(folder).values())
    refuse(tool, tmp_path / "refused", "--git-url", COPIED_POST)


def test_a_copied_chart_makes_an_application_of_applications(tmp_path: Path) -> None:
    """It is read from where the bundle is committed."""
    bundle("argocd", tmp_path / "argocd", COPIED_POST, *GIT)
    parent = load(tmp_path / "argocd" / "app-of-apps.yaml")["spec"]["source"]
    assert (parent["path"], parent["directory"]) == ("clusters/one", {"recurse": True, "include": "*/application.yaml"})
    assert not (bundle("argocd", tmp_path / "alone") / "app-of-apps.yaml").exists()
