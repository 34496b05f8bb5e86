"""The chart as a package: supported versions and metadata."""

from __future__ import annotations

from typing import Final

import yaml

from tests.chart.rendering import CHART, Helm

CHANGE_KINDS: Final = frozenset({"added", "changed", "deprecated", "removed", "fixed", "security"})
"""What Artifact Hub knows; it shows no other."""
SUPPORTED: Final = ("1.34.0", "1.35.4-gke.1245000", "1.36.1-eks-0a1b2c3", "1.37.2")
"""From the first version with resource.k8s.io/v1, under the names that managed services give theirs."""


def test_kubernetes_versions(helms: dict[str, Helm]) -> None:
    """Versions with resource.k8s.io/v1 are supported; Helm refuses older ones and names both versions."""
    for version in SUPPORTED:
        assert helms["helm4"].template({}, f"--kube-version={version}").returncode == 0, version
    for name, helm in helms.items():
        assert helm.template({}, f"--kube-version={SUPPORTED[1]}").returncode == 0, name
        assert "incompatible with Kubernetes v1.33.9" in helm.refuse({}, "--kube-version=1.33.9"), name


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
