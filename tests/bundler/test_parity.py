"""Every deployer's bundle installs the same: the same Job, the same values, the same order, enough time."""

from __future__ import annotations

import copy
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from devcluster import binaries
from tests.bundler.program import (
    COPIED,
    DEPLOYERS,
    DRA,
    KEY,
    LOCAL_CHARTS,
    OLD_RECIPE,
    OPERATOR,
    POST,
    RECIPE,
    SOURCE,
    Ended,
    bundle,
    changed,
    component,
    contents,
    recipe,
    run,
    write,
)
from tests.bundler.reading import Found, load, read, render
from tests.chart.rendering import config_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chart.rendering import Helm, Manifests

HOOK_ANNOTATIONS: Final = {
    "helm.sh/hook": "post-install,post-upgrade",
    "helm.sh/hook-weight": "10",
    "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    "helm.sh/hook-output-log-policy": "hook-succeeded,hook-failed",
}
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


def _made(deployer: str, target: Path, helm: Helm, *more: str | Path, recipe: Path = RECIPE) -> dict[str, Found]:
    folder = bundle(deployer, target, *COPIED, *more, recipe=recipe)
    return read(deployer, folder, helm)


def _specification(manifests: Manifests) -> str:
    """Return the Job's specification without its name, and without the deployment tool's own object."""
    job = copy.deepcopy(manifests.job)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["env"] = {**manifests.config, "eventTargets": []}
    text = repr(job["spec"])
    assert job["metadata"]["name"] in text
    return text.replace(job["metadata"]["name"], "JOB")


@pytest.mark.parametrize("flag", ["--hook", "--no-hook"])
def test_same_job(tmp_path: Path, helm: Helm, flag: str) -> None:
    """All deployers install the same Job: with the hook's annotations, or without any and with a name of its own."""
    rendered = []
    for deployer in DEPLOYERS:
        found = _made(deployer, tmp_path / deployer, helm, flag, "--timeout=1h10m")[POST]
        manifests = render(found, tmp_path / deployer, helm)
        rendered.append(manifests)
        assert (HOOK_ANNOTATIONS if flag == "--hook" else None) == manifests.job["metadata"].get("annotations")
        assert (POST == manifests.job["metadata"]["name"]) == (flag == "--hook")
        assert 4200 == manifests.job["spec"]["activeDeadlineSeconds"]
        assert manifests.config["expect"] == {"chartVersion": "v26.3.3", "driverVersion": "580.105.08"}
        tracked = manifests.one("ConfigMap")
        assert tracked["data"]["trigger"].startswith("v26.3.3-")
        assert "helm.sh/hook" not in tracked["metadata"].get("annotations", {})
    assert 1 == len({_specification(manifests) for manifests in rendered})


def _event_targets(found: Found) -> list[str]:
    """Return the objects that also get Events, written as `Found.shown_on` is; these kinds take an s in the plural."""
    return [
        f"{each['kind'].lower()}s.{each['apiVersion'].partition('/')[0]}/{each['namespace']}/{each['name']}"
        for each in found.values["eventTargets"]
    ]


@pytest.mark.parametrize("flag", ["--hook", "--no-hook"])
def test_failures_are_told_on_the_object_that_is_deployed(
    tmp_path: Path, helms: dict[str, Helm], subtests: pytest.Subtests, flag: str
) -> None:
    """Where there is one: what it shows by itself is the Job's name. Helm and helmfile print the log."""
    for deployer in DEPLOYERS:
        place = tmp_path / deployer
        place.mkdir()
        with subtests.test(deployer=deployer):
            helm = helms["helm4"]
            found = _made(deployer, place / "bundle", helm, flag)[POST]
            if not found.shown_on:
                assert deployer in {"helm", "helmfile"}
                assert "eventTargets" not in found.values
                continue
            assert [found.shown_on] == _event_targets(found)
            manifests = render(found, place / "bundle", helm)
            assert manifests.config["eventTargets"] == found.values["eventTargets"]
            # Nothing there that a project might forbid, or that needs a namespace which may be missing.
            assert {found.namespace} == {
                each["metadata"].get("namespace", found.namespace) for each in manifests.objects
            }


def test_permissions_that_are_kept_to_namespaces_stay_there(
    tmp_path: Path, helms: dict[str, Helm], subtests: pytest.Subtests
) -> None:
    """The deployer's namespace would be one more, which may be missing or forbidden."""
    for deployer in DEPLOYERS:
        place = tmp_path / deployer
        place.mkdir()
        with subtests.test(deployer=deployer):
            post = write(place / "post.yaml", {"rbac": {"scope": "namespace", "namespaces": ["a"]}})
            found = _made(deployer, place / "bundle", helms["helm4"], f"--values={POST}={post}")[POST]
            assert "eventTargets" not in found.values


@pytest.mark.parametrize(
    "wanted", [[], [{"apiVersion": "b/v1", "kind": "A", "namespace": "c", "name": "d"}]], ids=["none", "another"]
)
def test_values_say_where_failures_are_told(
    tmp_path: Path, helms: dict[str, Helm], subtests: pytest.Subtests, wanted: list[dict[str, str]]
) -> None:
    """A project may forbid a Role in the deployer's namespace; and objects may have been renamed."""
    for deployer in DEPLOYERS:
        place = tmp_path / deployer
        place.mkdir()
        with subtests.test(deployer=deployer):
            post = write(place / "post.yaml", {"eventTargets": wanted})
            found = _made(deployer, place / "bundle", helms["helm4"], f"--values={POST}={post}")[POST]
            assert wanted == found.values["eventTargets"]


def test_same_follower(tmp_path: Path, helms: dict[str, Helm]) -> None:
    """By values, as everything that is not derived: with a hook and with a plain Job, which hand over to it."""
    values = {"controller": {"enabled": True, "maxUnavailable": "10%"}, "job": {"mode": "delegate"}}
    given = f"--values={POST}={write(tmp_path / 'post.yaml', values)}"
    specifications = []
    for deployer, flag in zip(DEPLOYERS, ("--hook", "--no-hook") * len(DEPLOYERS), strict=False):
        found = _made(deployer, tmp_path / deployer, helms["helm4"], given, flag)[POST]
        manifests = render(found, tmp_path / deployer, helms["helm4"])
        assert manifests.config["job"] == {"mode": "delegate"}
        assert config_of(manifests.follower_container)["controller"]["maxUnavailable"] == "10%"
        specifications.append(repr(manifests.follower["spec"]))
    assert 1 == len(set(specifications))


def test_bump_rerolls_the_dra_driver(tmp_path: Path, helms: dict[str, Helm], subtests: pytest.Subtests) -> None:
    """Another chart version of the operator changes the plugin's pod template, the expectation and the trigger."""
    for deployer in DEPLOYERS:
        place = tmp_path / deployer
        place.mkdir()
        with subtests.test(deployer=deployer):
            for version in ("v26.3.3", "v26.7.0"):
                target = place / version
                recipe = changed(place / f"{version}.yaml", OPERATOR, version=version)
                found = _made(deployer, target, helms["helm4"], recipe=recipe)
                pods = render(found[DRA], target, helms["helm4"]).one("DaemonSet")["spec"]["template"]
                assert version == pods["metadata"]["annotations"][KEY]
                assert version == found[POST].values["expect"]["chartVersion"]
                assert found[POST].values["trigger"].startswith(f"{version}-")


def test_both_workloads_are_annotated(tmp_path: Path, helms: dict[str, Helm], subtests: pytest.Subtests) -> None:
    """The controller's pods re-roll as well: they hold a driver library too."""
    for deployer in DEPLOYERS:
        place = tmp_path / deployer
        place.mkdir()
        with subtests.test(deployer=deployer):
            values = _made(deployer, place / "bundle", helms["helm4"])[DRA].values
            for pod in ("controller", "kubeletPlugin"):
                assert {KEY: "v26.3.3"} == values[pod]["podAnnotations"]


def test_cannot_be_defeated(tmp_path: Path, helms: dict[str, Helm], subtests: pytest.Subtests) -> None:
    """Hand-written values cannot replace what is derived, but everything beside it stays."""
    for deployer in DEPLOYERS:
        place = tmp_path / deployer
        place.mkdir()
        with subtests.test(deployer=deployer):
            stale = {"podAnnotations": {KEY: "v1.0.0", "mine": "kept"}, "priorityClassName": ""}
            dra = write(place / "dra.yaml", {"controller": stale, "kubeletPlugin": stale})
            post = write(
                place / "post.yaml",
                {"expect": {"chartVersion": "v1", "driverVersion": "1"}, "hook": {"enabled": True}, "backoffLimit": 7},
            )
            more = ("--values", f"{DRA}={dra}", "--values", f"{POST}={post}", "--no-hook")
            found = _made(deployer, place / "bundle", helms["helm4"], *more)
            for pod in ("controller", "kubeletPlugin"):
                expected = {"podAnnotations": {KEY: "v26.3.3", "mine": "kept"}, "priorityClassName": ""}
                assert expected == found[DRA].values[pod]
            assert {"chartVersion": "v26.3.3", "driverVersion": "580.105.08"} == found[POST].values["expect"]
            assert {"enabled": False} == found[POST].values["hook"]
            assert 7 == found[POST].values["backoffLimit"]


@pytest.mark.parametrize("gate", ["enabled", "install"])
def test_without_dra(tmp_path: Path, helms: dict[str, Helm], subtests: pytest.Subtests, gate: str) -> None:
    """With the DRA driver switched off nothing is injected and nothing is said."""
    for deployer in DEPLOYERS:
        place = tmp_path / deployer
        place.mkdir()
        with subtests.test(deployer=deployer):
            off = changed(place / "off.yaml", DRA, overrides={gate: False})
            target = place / "bundle"
            done = run("bundle", "--recipe", off, "--deployer", deployer, "--output", target, ours="")
            assert Ended(0, f"{len(contents(target))} files in {target}\n", "") == done
            assert [OPERATOR] == list(read(deployer, target, helms["helm4"]))
            for name, content in contents(target).items():
                assert KEY.encode() not in content
                assert name == "README.md" or POST.encode() not in content


def test_operator_without_its_driver_release(tmp_path: Path, helms: dict[str, Helm], subtests: pytest.Subtests) -> None:
    """With the operator switched off there is nothing that reloads a driver: the DRA driver comes alone."""
    for deployer in DEPLOYERS:
        place = tmp_path / deployer
        place.mkdir()
        with subtests.test(deployer=deployer):
            off = changed(place / "off.yaml", OPERATOR, overrides={"enabled": False})
            found = read(deployer, bundle(deployer, place / "bundle", recipe=off), helms["helm4"])
            assert [DRA] == list(found)
            assert {"nameOverride": DRA} == found[DRA].values


@pytest.mark.parametrize(("deployer", "helm_name"), [*((one, "helm4") for one in DEPLOYERS), ("argocd-helm", "helm3")])
def test_values_arrive_as_they_were(tmp_path: Path, helms: dict[str, Helm], deployer: str, helm_name: str) -> None:
    """Nulls, texts that look like numbers, templates and shell characters reach the chart unchanged."""
    awkward = write(tmp_path / "awkward.yaml", AWKWARD)
    found = _made(deployer, tmp_path / "bundle", helms[helm_name], f"--values={OPERATOR}={awkward}")
    expected = {"chartVersion": "v26.3.3", "driver": {"version": "580.105.08"}, **AWKWARD}
    assert expected == found[OPERATOR].values


def test_order(tmp_path: Path, helms: dict[str, Helm]) -> None:
    """The operator, then the run, then the DRA driver, each deployer in its own words."""
    expected: dict[str, list[tuple[str, ...]]] = {
        "helm": [(), (OPERATOR,), (POST,)],
        "helmfile": [(), ("gpu-operator/gpu-operator",), ("gpu-operator/gpu-operator-post",)],
        "flux": [(), (OPERATOR,), (POST,)],
        "argocd": [("0",), ("1",), ("2",)],
        "argocd-helm": [("0",), ("1",), ("2",)],
    }
    for deployer, after in expected.items():
        found = read(deployer, bundle(deployer, tmp_path / deployer), helms["helm4"])
        assert [OPERATOR, POST, DRA] == list(found)
        assert after == [release.after for release in found.values()]
        assert ["gpu-operator", "gpu-operator", "nvidia-dra-driver"] == [one.namespace for one in found.values()]


@pytest.mark.parametrize(
    ("timeout", "expected"),
    [
        pytest.param("25m", {"helm": "27m", "helmfile": "1620", "flux": "27m"}, id="default"),
        pytest.param("1h58m", {"helm": "2h", "helmfile": "7200", "flux": "2h"}, id="hours"),
        pytest.param("3h20m10s", {"helm": "12130s", "helmfile": "12130", "flux": "12130s"}, id="seconds"),
    ],
)
def test_deployers_get_enough_time(
    tmp_path: Path, helms: dict[str, Helm], timeout: str, expected: dict[str, str]
) -> None:
    """Each deployer with a limit of its own gets two minutes more than the run; Argo CD has none."""
    for deployer in DEPLOYERS:
        found = _made(deployer, tmp_path / deployer, helms["helm4"], f"--timeout={timeout}")
        assert timeout == found[POST].values["timeout"]
        assert expected.get(deployer, "") == found[POST].timeout
        assert ("", "") == (found[OPERATOR].timeout, found[DRA].timeout)


def test_timeout_of_the_values(tmp_path: Path, helms: dict[str, Helm]) -> None:
    """A timeout that the values set is what the deployer's limit is made of; the flag wins."""
    values = write(tmp_path / "post.yaml", {"timeout": "2h"})
    more = f"--values={POST}={values}"
    found = _made("flux", tmp_path / "a", helms["helm4"], more)
    assert ("2h", "122m") == (found[POST].values["timeout"], found[POST].timeout)
    found = _made("flux", tmp_path / "b", helms["helm4"], more, "--timeout=10m")
    assert ("10m", "12m") == (found[POST].values["timeout"], found[POST].timeout)


def test_plain_job_is_waited_for(tmp_path: Path, helms: dict[str, Helm]) -> None:
    """Where the Job is no hook, the deployer is told to wait for it, or nobody would see it fail."""
    for deployer in DEPLOYERS:
        assert _made(deployer, tmp_path / deployer, helms["helm4"], "--no-hook")[POST].waits


def test_trigger_follows_the_operators_values(
    tmp_path: Path, helms: dict[str, Helm], subtests: pytest.Subtests
) -> None:
    """A new driver alone changes the trigger, so that a GitOps tool syncs; nothing new leaves it as it is."""
    for deployer in DEPLOYERS:
        place = tmp_path / deployer
        place.mkdir()
        with subtests.test(deployer=deployer):
            values = write(place / "driver.yaml", {"driver": {"version": "580.126.20"}})
            before, same, after = (
                _made(deployer, place / name, helms["helm4"], *more)[POST].values
                for name, more in (("before", ()), ("same", ()), ("after", (f"--values={OPERATOR}={values}",)))
            )
            assert before == same
            assert before["trigger"] != after["trigger"]
            assert "580.126.20" == after["expect"]["driverVersion"]


def test_values_at_install_time(tmp_path: Path, helm: Helm) -> None:
    """The parent chart takes values for its releases, and derives from them too; it cannot be talked out of it."""
    folder = bundle("argocd-helm", tmp_path / "bundle", *COPIED)
    before = read("argocd-helm", folder, helm)
    after = read(
        "argocd-helm", folder, helm,
        "--set", "gpu-operator.driver.version=580.126.20", "--set", "gpu-operator.driver.upgradePolicy=null",
        "--set", f"{DRA}.controller.podAnnotations.mine=kept,{POST}.expect.chartVersion=v1,{POST}.timeout=2h",
        "--set-json", f'{DRA}.kubeletPlugin.podAnnotations={{"{KEY}": "v1"}}', "--set", "argocd.project=gpus",
        "--set", f"{DRA}.nameOverride=our-dra", "--set", "argocd.namespace=gitops",
    )  # fmt: skip
    assert [f"applications.argoproj.io/gitops/{POST}"] == _event_targets(after[POST]) == [after[POST].shown_on]
    nowhere = read("argocd-helm", folder, helm, "--set-json", f"{POST}.eventTargets=[]")
    assert [] == nowhere[POST].values["eventTargets"]
    elsewhere = read("argocd-helm", folder, helm, "--set", "argocd.server=https://other.example")
    assert "eventTargets" not in elsewhere[POST].values
    assert {"names": ["our-dra-kubelet-plugin"]} == after[POST].values["plugin"]
    assert before[POST].values["trigger"] != after[POST].values["trigger"]
    assert {"chartVersion": "v26.3.3", "driverVersion": "580.126.20"} == after[POST].values["expect"]
    assert "2h" == after[POST].values["timeout"]
    assert {KEY: "v26.3.3", "mine": "kept"} == after[DRA].values["controller"]["podAnnotations"]
    assert {KEY: "v26.3.3"} == after[DRA].values["kubeletPlugin"]["podAnnotations"]


def test_charts_of_the_recipe(tmp_path: Path, helms: dict[str, Helm], subtests: pytest.Subtests) -> None:
    """Charts come from where the recipe says, with the recipe's version, in the form that the deployer reads."""
    for deployer in DEPLOYERS:
        place = tmp_path / deployer
        place.mkdir()
        with subtests.test(deployer=deployer):
            found = read(deployer, bundle(deployer, place / "bundle", recipe=OLD_RECIPE), helms["helm4"])
            assert "https://helm.ngc.nvidia.com/nvidia gpu-operator" == found[OPERATOR].chart
            assert f"{SOURCE}/{POST}" == found[POST].chart
            assert "https://helm.ngc.nvidia.com/nvidia nvidia-dra-driver-gpu" == found[DRA].chart
            assert ["v25.10.1", "0.1.0", "25.12.0"] == [release.version for release in found.values()]
            other = read(
                deployer,
                bundle(
                    deployer, place / "other", f"--chart={POST}=http://charts.example/ours/", "--post-version=9.9.9",
                    f"--chart={OPERATOR}=oci://registry.example/charts",
                ),
                helms["helm4"],
            )  # fmt: skip
            assert ("http://charts.example/ours gpu-operator-post", "9.9.9") == (other[POST].chart, other[POST].version)
            assert "oci://registry.example/charts/gpu-operator" == other[OPERATOR].chart
            assert "oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu" == other[DRA].chart


def test_recipe_that_names_our_chart(tmp_path: Path, helms: dict[str, Helm]) -> None:
    """A recipe may carry our release as a component of its own, or switch it off."""
    document = recipe()
    ours = {
        "name": POST, "source": "https://charts.example", "version": "2.0.0",
        "overrides": {"strategy": "rollout-restart"},
    }  # fmt: skip
    document["componentRefs"].append(ours)
    found = read(
        "flux", bundle("flux", tmp_path / "a", recipe=write(tmp_path / "a.yaml", document), ours=""), helms["helm4"]
    )
    assert ("https://charts.example gpu-operator-post", "2.0.0") == (found[POST].chart, found[POST].version)
    assert "rollout-restart" == found[POST].values["strategy"]
    assert ["gpu-operator", "gpu-operator"] == [found[name].namespace for name in (OPERATOR, POST)]
    component(document, POST)["namespace"] = "elsewhere"
    for deployer in DEPLOYERS:
        folder = bundle(deployer, tmp_path / deployer, recipe=write(tmp_path / "ns.yaml", document), ours="")
        assert "elsewhere" == read(deployer, folder, helms["helm4"])[POST].namespace
    component(document, POST)["overrides"] = {"enabled": False}
    found = read(
        "flux", bundle("flux", tmp_path / "b", recipe=write(tmp_path / "b.yaml", document), ours=""), helms["helm4"]
    )
    assert [OPERATOR, DRA] == list(found)
    assert (OPERATOR,) == found[DRA].after


@pytest.mark.parametrize("deployer", [*DEPLOYERS, "manifests"])
def test_our_chart_comes_from_nowhere_by_itself(tmp_path: Path, deployer: str) -> None:
    """A registry that nobody has claimed could be claimed by anybody: whoever bundles names the one that they trust."""
    done = run("bundle", "--recipe", RECIPE, "--deployer", deployer, "--output", tmp_path / "bundle", ours="")
    assert (2, "") == (done.code, done.out)
    assert f"--chart {POST}=oci://…" in done.err
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("deployer", ["flux", "argocd-helm"])
def test_renamed_plugin_is_named_to_the_run(tmp_path: Path, helms: dict[str, Helm], deployer: str) -> None:
    """A DRA driver whose values, or whose chart's name, rename its DaemonSet is found all the same."""
    renamed = changed(tmp_path / "renamed.yaml", DRA, overrides={"nameOverride": "our-dra"})
    chart = changed(tmp_path / "chart.yaml", DRA, chart="our-dra", overrides={"nameOverride": ""})
    for name, file in (("a", renamed), ("b", chart)):
        found = read(deployer, bundle(deployer, tmp_path / name, recipe=file), helms["helm4"])
        assert {"names": ["our-dra-kubelet-plugin"]} == found[POST].values["plugin"]
    found = _made(deployer, tmp_path / "copied", helms["helm4"], recipe=chart)
    assert {"names": ["dra-driver-kubelet-plugin"]} == found[POST].values["plugin"]
    post = write(tmp_path / "post.yaml", {"plugin": {"names": ["mine"]}})
    found = _made(deployer, tmp_path / "c", helms["helm4"], f"--values={POST}={post}", recipe=renamed)
    assert {"names": ["mine"]} == found[POST].values["plugin"]
    assert "plugin" not in _made(deployer, tmp_path / "d", helms["helm4"])[POST].values


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        pytest.param({"version": "580.126.20"}, "580.126.20", id="version"),
        pytest.param({"version": "580", "usePrecompiled": True}, "580", id="precompiled-branch"),
        pytest.param({}, "", id="the-chart's-own"),
        pytest.param({"version": "580.126.20", "enabled": False}, "", id="driver-of-the-host"),
        pytest.param({"version": "580.126.20", "nvidiaDriverCRD": {"enabled": True}}, "", id="nvidiadriver"),
        pytest.param({"version": "sha256:" + "0" * 64}, "", id="digest"),
        pytest.param({"version": None}, "", id="null"),
    ],
)
def test_expected_driver(tmp_path: Path, helms: dict[str, Helm], driver: dict[str, object], expected: str) -> None:
    """The run is told to wait for a driver version exactly where the policy will name that version."""
    file = changed(tmp_path / "recipe.yaml", OPERATOR, overrides={"driver": driver})
    for deployer in ("helm", "argocd-helm"):
        found = _made(deployer, tmp_path / deployer, helms["helm4"], recipe=file)
        assert expected == found[POST].values["expect"].get("driverVersion", "")


@pytest.mark.parametrize("deployer", ["flux", "argocd", "argocd-helm"])
def test_copied_charts_come_from_git(tmp_path: Path, helms: dict[str, Helm], deployer: str) -> None:
    """A chart that is copied into the bundle is read from where the bundle is committed, or refused without that."""
    git = (f"--chart={POST}={LOCAL_CHARTS[POST]}", "--git-url=ssh://git@git.example/stack.git", "--git-revision=prod")
    folder = bundle(deployer, tmp_path / "bundle", *git, "--git-path=clusters/one/")
    found = read(deployer, folder, helms["helm4"])
    assert f"clusters/one/002-{POST}/chart" == found[POST].chart
    assert any(b"ssh://git@git.example/stack.git" in content for content in contents(folder).values())
    assert any(b"prod" in content for content in contents(folder).values())
    refused = run(
        "bundle", "--recipe", RECIPE, "--deployer", deployer, "--output", tmp_path / "refused", git[0]
    )  # fmt: skip
    assert refused.code == 2
    assert "--git-url" in refused.err
    assert not (tmp_path / "refused").exists()


def test_copied_chart_of_another_version(tmp_path: Path) -> None:
    """The run waits for the recipe's version: a copied operator's chart that has another one is not taken silently."""
    chart = tmp_path / "chart"
    chart.mkdir()
    for version, noted in (("v26.3.3", False), ("26.3.3", False), ("v26.7.0", True)):
        (chart / "Chart.yaml").write_text(f"apiVersion: v2\nname: gpu-operator\nversion: {version}\n")
        target = tmp_path / version
        done = run(
            "bundle", "--recipe", RECIPE, "--deployer=helm", "--output", target, f"--chart={OPERATOR}={chart}"
        )  # fmt: skip
        assert (0, noted) == (done.code, f"has version {version}, the recipe v26.3.3" in done.out)
        assert noted == (f"has version {version}" in (target / "README.md").read_text())


def test_parent_charts_version_stands_for_its_bytes(tmp_path: Path) -> None:
    """Whatever differs in the parent chart gives it another version, or a registry would serve the old one."""
    git = (f"--chart={POST}={LOCAL_CHARTS[POST]}", "--git-url=https://git.example/stack.git")
    elsewhere = changed(tmp_path / "elsewhere.yaml", DRA, namespace="elsewhere")
    folders = [
        bundle("argocd-helm", tmp_path / "a"),
        bundle("argocd-helm", tmp_path / "b", recipe=elsewhere),
        bundle("argocd-helm", tmp_path / "d", *git),
        bundle("argocd-helm", tmp_path / "e", *git, "--git-revision=prod"),
    ]
    assert len(folders) == len({load(folder / "Chart.yaml")["version"] for folder in folders})
    again = bundle("argocd-helm", tmp_path / "again")
    assert contents(folders[0]) == contents(again)


def test_helmfile_tells_the_variable(tmp_path: Path) -> None:
    """Without it `helmfile apply` fails with Helm 4, so it stands where those who apply look."""
    folder = bundle("helmfile", tmp_path / "bundle")
    for name in ("README.md", "helmfile.yaml"):
        assert "HELM_DIFF_USE_UPGRADE_DRY_RUN=true" in (folder / name).read_text()


def test_parent_application(tmp_path: Path, helms: dict[str, Helm]) -> None:
    """With a repository Argo CD also gets a parent that finds the Applications, and nothing else, in the folder."""
    folder = bundle("argocd", tmp_path / "bundle", *COPIED, "--git-path=stack")
    parent = read_parent(folder)
    assert ("https://git.example/stack.git", "stack", "main") == (
        parent["repoURL"], parent["path"], parent["targetRevision"],
    )  # fmt: skip
    assert {"recurse": True, "include": "*/application.yaml"} == parent["directory"]
    assert not (bundle("argocd", tmp_path / "alone") / "app-of-apps.yaml").exists()
    assert list(read("argocd", folder, helms["helm4"])) == [OPERATOR, POST, DRA]


def read_parent(folder: Path) -> dict[str, Any]:
    """Give the source of the parent Application."""
    found: dict[str, Any] = load(folder / "app-of-apps.yaml")["spec"]["source"]
    return found


def test_kustomize_takes_it(tmp_path: Path) -> None:
    """The real kustomize builds the folder for Flux: every object is listed once, and none is lost."""
    kubectl = binaries.ensure(["kubectl"])["kubectl"]
    for file, objects in ((RECIPE, 6), (OLD_RECIPE, 7)):
        folder = bundle("flux", tmp_path / file.stem, recipe=file)
        done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert objects == len(list(yaml.safe_load_all(done.stdout)))
