"""All objects together: names, labels, and those that are neither workload nor permission."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from hook.objects.names import OWN_NAME
from tests.chart.rendering import CHART, ROOT, Helm, Values

LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?")
LONG: Final = "r" * 53
"""The longest release name that Helm admits."""
POST: Final = "gpu-operator-post"


NAMES: Final = {
    POST: POST,
    f"gpu-operator-{POST}": f"gpu-operator-{POST}",
    "prod": f"prod-{POST}",
    LONG: f"{LONG}-gpu-opera",
}
"""Name of a release, and of its objects: a release whose name contains the chart's is not named twice."""


@pytest.mark.parametrize(("release", "name"), NAMES.items())
def test_objects_are_named_after_the_release(helm: Helm, release: str, name: str) -> None:
    """Objects of the whole cluster have the namespace in their names."""
    rendered = helm.render(release=release)
    assert rendered.job["metadata"]["name"] == name
    assert rendered.one("ServiceAccount")["metadata"]["name"] == name
    assert rendered.one("ClusterRole")["metadata"]["name"] == f"gpu-operator:{name}"


@pytest.mark.parametrize(("value", "name"), [("nameOverride", POST), ("fullnameOverride", "post")])
def test_names_can_be_overridden(helm: Helm, value: str, name: str) -> None:
    """One replaces the name of the chart, the other one the whole name."""
    assert helm.render({value: "post"}).job["metadata"]["name"] == name


def test_a_name_that_looks_like_a_number_stays_a_text(helm: Helm) -> None:
    """Labels are texts."""
    rendered = helm.render({"nameOverride": "123", "controller.enabled": True})
    assert {item["metadata"]["labels"]["app.kubernetes.io/name"] for item in rendered.objects} == {"123"}


@pytest.mark.parametrize("mode", [{}, {"hook.enabled": False}], ids=["hook", "plain"])
@pytest.mark.parametrize("release", NAMES)
def test_names_of_workloads_fit_the_labels_of_their_pods(helm: Helm, release: str, mode: Values) -> None:
    """Kubernetes copies the name of a Job or Deployment into labels, which hold 63 characters."""
    rendered = helm.render({"controller.enabled": True, **mode}, release=release)
    names = {item["metadata"]["name"] for item in (rendered.job, rendered.controller)}
    assert len(names) == 2
    assert max(map(len, names)) <= 63


def _versioned(folder: Path, suffix: str) -> Path:
    """Copy the chart with a suffix of its version."""
    chart = folder / suffix[:9]
    shutil.copytree(CHART, chart)
    text = (chart / "Chart.yaml").read_text()
    text = text.replace("version: 0.1.0", f"version: 0.1.0+{suffix}").replace('"0.1.0"', '"0.1.0+meta"')
    (chart / "Chart.yaml").write_text(text)
    return chart


def test_a_digest_in_the_version_of_the_chart(helm: Helm, tmp_path: Path) -> None:
    """Flux appends one, with a plus that no label may hold; the plain Job keeps its name."""
    rendered = helm.render({"image.tag": "x"}, chart=_versioned(tmp_path, "f" * 64))
    labels = rendered.job["metadata"]["labels"]
    assert labels["helm.sh/chart"].startswith("gpu-operator-post-0.1.0_fff")
    assert labels["app.kubernetes.io/version"] == "0.1.0_meta"
    for item in (*rendered.objects, rendered.job["spec"]["template"]):
        assert all(map(LABEL_VALUE.fullmatch, item["metadata"]["labels"].values())), item["metadata"]
    plain: Values = {"hook.enabled": False, "image.tag": "x"}
    first, second = (helm.render(plain, chart=_versioned(tmp_path, each)).job["spec"] for each in ("abc", "def"))
    assert first == second == helm.render(plain).job["spec"]


def test_any_change_of_the_hook_shows_in_an_ordinary_object(helm: Helm) -> None:
    """GitOps tools do not compare hooks. The ConfigMap has a hash of the Job's specification and the trigger."""
    changes: tuple[Values, ...] = (
        {}, {"timeout": "1h"}, {"image.tag": "x"}, {"trigger": "v1"}, {"expect.chartVersion": "v26.7.0"},
    )  # fmt: skip
    data = [helm.render(values).one("ConfigMap")["data"] for values in changes]
    assert {key for each in data for key in each} == {"trigger"}
    assert len({each["trigger"] for each in data}) == len(changes)


def test_other_tools_find_the_status_object_under_any_name(helm: Helm) -> None:
    """The health script for Argo CD matches it, whatever `nameOverride` is."""
    key, value = f"{OWN_NAME}/object", "status"
    script = (ROOT / "examples" / "gates" / "argocd-cm.patch.yaml").read_text()
    assert f'local ours = labels["{key}"] == "{value}"\n' in script
    for values in ({}, {"nameOverride": "post"}):
        (found,) = (item for item in helm.render(values).objects if item["metadata"]["labels"].get(key) == value)
        assert (found["kind"], found["metadata"]["name"]) == ("ConfigMap", f"{POST}-status")


def test_a_disabled_chart_renders_and_checks_nothing(helm: Helm) -> None:
    """A bundler may include the chart and leave it off."""
    wrong = {"image.repository": "", "dryRun": True, "controller.enabled": True}
    assert helm.render({"enabled": False, "podNetworkPolicy.enabled": True, **wrong}).objects == ()
