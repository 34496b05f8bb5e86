"""The chart as a package: supported versions and metadata."""

from __future__ import annotations

from typing import Final

import pytest
import yaml

from tests.chart.rendering import CHART, Helm

CHANGE_KINDS: Final = frozenset({"added", "changed", "deprecated", "removed", "fixed", "security"})
"""What Artifact Hub knows; it shows no other."""
SUPPORTED: Final = ("1.34.0", "1.35.4-gke.1245000", "1.36.1-eks-0a1b2c3", "1.37.2")
"""From the first version with resource.k8s.io/v1, under the names that managed services give theirs."""


@pytest.mark.parametrize("helm_version", ["helm3", "helm4"])
@pytest.mark.parametrize("version", SUPPORTED)
def test_supported_kubernetes_versions(helms: dict[str, Helm], helm_version: str, version: str) -> None:
    """Those with resource.k8s.io/v1."""
    assert helms[helm_version].template({}, f"--kube-version={version}").returncode == 0


@pytest.mark.parametrize("helm_version", ["helm3", "helm4"])
def test_older_kubernetes_versions_are_refused(helms: dict[str, Helm], helm_version: str) -> None:
    """Helm names the version."""
    assert "incompatible with Kubernetes v1.33.9" in helms[helm_version].refuse({}, "--kube-version=1.33.9")


def test_chart_metadata_is_complete() -> None:
    """Artifact Hub shows licence, links and changes, and no placeholder."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"]
    assert chart["annotations"]["artifacthub.io/license"] == "Apache-2.0"
    changes = yaml.safe_load(chart["annotations"]["artifacthub.io/changes"])
    assert changes
    assert [change for change in changes if change["kind"] not in CHANGE_KINDS or not change["description"]] == []
    links = yaml.safe_load(chart["annotations"]["artifacthub.io/links"])
    assert all(link["name"] and link["url"].startswith("https://") for link in links)
    assert "example" not in str(chart).lower()
