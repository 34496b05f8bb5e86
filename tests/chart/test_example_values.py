"""The example values render, fit the schema, and do what they promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hook.checks import settings_from
from hook.config import Mode
from tests.chart.rendering import ROOT, config_of
from tests.e2e.identity import rights

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chart.rendering import Helm, Manifests

FILES = sorted((ROOT / "examples" / "values").glob("*.yaml"))


def _render(helm: Helm, name: str) -> Manifests:
    return helm.render({}, f"--values={ROOT / 'examples' / 'values' / name}")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_program_accepts_the_settings(helm: Helm, file: Path) -> None:
    """Of the Job and of the controller."""
    rendered = _render(helm, file.name)
    settings_from(rendered.config)
    for deployment in rendered.all("Deployment"):
        settings_from(config_of(deployment["spec"]["template"]["spec"]["containers"][0]), controller=True)


def test_hardened(helm: Helm) -> None:
    """It changes nothing outside of two namespaces, looks in one for plugins, and talks only to the API server."""
    rendered = _render(helm, "hardened.yaml")
    (cluster_role,) = rendered.all("ClusterRole")
    assert {right.verb for right in rights(cluster_role["rules"])} == {"list", "watch"}
    assert {role["metadata"]["namespace"] for role in rendered.all("Role")} == {"gpu-operator", "nvidia-dra-driver-gpu"}
    assert rendered.config["plugin"]["namespace"] == "nvidia-dra-driver-gpu"
    assert rendered.config["rbac"]["namespaces"] == ["gpu-operator", "nvidia-dra-driver-gpu"]
    policy = rendered.one("NetworkPolicy")["spec"]
    assert [set(rule) for rule in policy["egress"]] == [{"to", "ports"}]
    assert {toleration["key"] for toleration in rendered.pod["tolerations"]} == {
        "node-role.kubernetes.io/control-plane"
    }
    assert rendered.all("ValidatingAdmissionPolicy")


def test_large_fleet(helm: Helm) -> None:
    """The Job only delegates, two controllers share the work, and Prometheus watches them."""
    rendered = _render(helm, "large-fleet.yaml")
    assert settings_from(rendered.config).job.mode is Mode.DELEGATE
    assert rendered.follower["spec"]["replicas"] == 2
    assert rendered.one("PodMonitor")
    assert rendered.one("PrometheusRule")
    job = rights(rule for role in rendered.roles_of("gpu-operator-post") for rule in role["rules"])
    assert {right.verb for right in job if right.resource in {"pods", "daemonsets"}} == {"list", "watch"}
