"""All objects together: names, labels, and those that are neither Job nor permission."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.chart.rendering import CHART, Manifests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.chart.rendering import Helm, Values

LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
LONG = "r" * 53
"""The longest release name that Helm admits."""


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("gpu-operator-post", "gpu-operator-post"),
        ("gpu-operator-gpu-operator-post", "gpu-operator-gpu-operator-post"),
        ("prod", "prod-gpu-operator-post"),
        (LONG, f"{LONG}-gpu-opera"),
    ],
)
def test_objects_are_named_after_the_release(helm: Helm, release: str, name: str) -> None:
    """A release that carries the chart's name, however its deployer made it, is not named twice."""
    rendered = helm.render(release=release)
    assert name == rendered.job["metadata"]["name"]
    assert name == rendered.one("ServiceAccount")["metadata"]["name"]
    assert f"gpu-operator:{name}" == rendered.one("ClusterRole")["metadata"]["name"]


@pytest.mark.parametrize(
    ("values", "name"),
    [({"nameOverride": "post"}, "gpu-operator-post"), ({"fullnameOverride": "mine"}, "mine")],
)
def test_names_can_be_overridden(helm: Helm, values: Values, name: str) -> None:
    """As in every chart: a part of the name, or all of it."""
    assert name == helm.render(values).job["metadata"]["name"]


@pytest.mark.parametrize("release", ["gpu-operator-post", "gpu-operator-gpu-operator-post", LONG])
@pytest.mark.parametrize("mode", [{}, {"hook.enabled": False}], ids=["hook", "plain"])
def test_the_jobs_name_fits_the_label_of_its_pods(helm: Helm, release: str, mode: Values) -> None:
    """Kubernetes copies the name into the label ``job-name``, which holds 63 characters."""
    assert len(helm.render(mode, release=release).job["metadata"]["name"]) <= 63


def test_a_release_under_another_name_runs_the_same(helm: Helm) -> None:
    """But for names, no object depends on how a deployer calls the release."""
    short = helm.render(release="gpu-operator-post").objects
    doubled = str(helm.render(release="gpu-operator-gpu-operator-post").objects)
    assert _without_hash(str(short)) == _without_hash(doubled.replace("gpu-operator-gpu-operator", "gpu-operator"))


def test_labels_are_legal_for_a_chart_version_with_a_digest(helm: Helm, tmp_path: Path) -> None:
    """Flux appends ``+<digest>`` to the version of a chart from an OCI registry; a label may not hold a plus."""
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    text = (chart / "Chart.yaml").read_text()
    text = text.replace("version: 0.1.0", "version: 0.1.0+" + "f" * 64).replace('"0.1.0"', '"0.1.0+meta"')
    (chart / "Chart.yaml").write_text(text)
    rendered = helm.render({"image.tag": "x"}, chart=chart)
    labels = rendered.job["metadata"]["labels"]
    assert labels["helm.sh/chart"].startswith("gpu-operator-post-0.1.0_fff")
    assert labels["app.kubernetes.io/version"] == "0.1.0_meta"
    for value in _label_values(rendered):
        assert LABEL_VALUE.fullmatch(value)
        assert len(value) <= 63


def test_a_digest_in_the_chart_version_does_not_rename_a_plain_job(helm: Helm, tmp_path: Path) -> None:
    """The same Job from the same chart, packaged twice, is the same Job."""
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    text = (chart / "Chart.yaml").read_text()
    (chart / "Chart.yaml").write_text(text.replace("version: 0.1.0", "version: 0.1.0+abc"))
    plain: Values = {"hook.enabled": False}
    assert helm.render(plain).job["spec"] == helm.render(plain, chart=chart).job["spec"]


def test_the_users_labels_break_no_selector(helm: Helm) -> None:
    """Ours win, and no label is written twice."""
    rendered = helm.render(
        {"commonLabels": {"app.kubernetes.io/name": "x", "team": "gpu"}, "podNetworkPolicy.enabled": True}
    )
    selector = rendered.one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"]
    assert selector.items() <= rendered.job["spec"]["template"]["metadata"]["labels"].items()
    for item in rendered.objects:
        assert item["metadata"]["labels"]["team"] == "gpu"


def test_no_label_makes_the_hook_look_like_the_operator_or_its_driver(helm: Helm) -> None:
    """Both are found by their component label; the hook must not find itself."""
    values = set(_label_values(helm.render()))
    assert not {"gpu-operator", "nvidia-driver"} & values


def test_the_trigger_is_in_an_ordinary_object(helm: Helm) -> None:
    """GitOps tools compare ordinary objects only, and would not see a change of the hook."""
    values = {"trigger": "v1", "expect": {"chartVersion": "v26.7.0", "driverVersion": "580.126.20"}}
    data = helm.render(values).one("ConfigMap")["data"]
    assert data.pop("jobHash")
    assert data == {"trigger": "v1", "expectChartVersion": "v26.7.0", "expectDriverVersion": "580.126.20"}


def test_any_change_of_the_hook_shows_in_an_ordinary_object(helm: Helm) -> None:
    """A new image or timeout alone makes Argo CD sync, and so run the hook, too."""
    changes: tuple[Values, ...] = ({}, {"timeout": "1h"}, {"image.tag": "x"})
    hashes = {helm.render(values).one("ConfigMap")["data"]["jobHash"] for values in changes}
    assert len(hashes) == 3


def test_disabled_renders_nothing(helm: Helm) -> None:
    """A bundler may carry the chart and leave it off."""
    values = {"enabled": False, "podNetworkPolicy.enabled": True, "rbac.scope": "namespace"}
    assert Manifests(()) == helm.render(values)


def test_network_policy_is_opt_in(helm: Helm) -> None:
    """Many clusters have a default of their own, and egress to an API server differs."""
    assert not helm.render().all("NetworkPolicy")


def test_network_policy_allows_the_api_server_only(helm: Helm) -> None:
    """No ingress at all; egress to the usual ports of an API server, or what the user says."""
    spec = helm.render({"podNetworkPolicy.enabled": True}).one("NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in spec
    assert [port["port"] for rule in spec["egress"] for port in rule["ports"]] == [443, 6443]
    own = [{"to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]}]
    spec = helm.render({"podNetworkPolicy.enabled": True, "podNetworkPolicy.egress": own}).one("NetworkPolicy")["spec"]
    assert own == spec["egress"]


def _label_values(rendered: Manifests) -> Iterator[str]:
    for item in rendered.objects:
        yield from item["metadata"]["labels"].values()
    yield from rendered.job["spec"]["template"]["metadata"]["labels"].values()


def _without_hash(text: str) -> str:
    """Drop what the release's name goes into."""
    return re.sub(r"'jobHash': '[0-9a-f]+'", "", text)
