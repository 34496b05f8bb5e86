"""The chart as a package: lint, supported versions, and the values that CI installs."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.chart.rendering import CHART, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chart.rendering import Helm

CHANGE_KINDS = frozenset({"added", "changed", "deprecated", "removed", "fixed", "security"})
"""What Artifact Hub knows; it shows no other."""
VARIANTS = sorted((CHART / "ci").glob("*-values.yaml"))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda path: path.name)
def test_lint_is_strict_and_clean(helm: Helm, variant: Path) -> None:
    """Warnings are errors, for every variant that CI installs."""
    done = helm.run("lint", "--strict", str(CHART), f"--values={variant}", "--kube-version=1.34.0")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda path: path.name)
def test_variants_render(helm: Helm, variant: Path) -> None:
    """Each has a Job or a follower, and says in a comment what it stands for."""
    rendered = helm.render({}, f"--values={variant}")
    assert rendered.all("Job") + rendered.all("Deployment")
    assert variant.read_text().startswith("# ")


@pytest.mark.parametrize("version", ["1.34.0", "1.35.4-gke.1245000", "1.36.1-eks-0a1b2c3", "1.37.2"])
def test_supported_kubernetes_versions(helm: Helm, version: str) -> None:
    """From the first version with DRA, under the names that managed services give theirs."""
    assert helm.template({}, f"--kube-version={version}").returncode == 0


@pytest.mark.parametrize("version", ["1.31.9", "1.30.0"])
def test_kubernetes_without_dra_is_refused(helm: Helm, version: str) -> None:
    """With Helm's sentence that names both versions."""
    assert f"incompatible with Kubernetes v{version}" in helm.refuse({}, f"--kube-version={version}")


def test_chart_metadata_is_complete() -> None:
    """What Artifact Hub shows: no placeholder, licence and changes."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"]
    assert chart["annotations"]["artifacthub.io/license"] == "Apache-2.0"
    changes = yaml.safe_load(chart["annotations"]["artifacthub.io/changes"])
    assert changes
    for change in changes:
        assert change["kind"] in CHANGE_KINDS
        assert change["description"]
    links = yaml.safe_load(chart["annotations"]["artifacthub.io/links"])
    assert all(link["name"] and link["url"].startswith("https://") for link in links)
    assert "example" not in str(chart).lower()


def test_yaml_is_clean() -> None:
    """Yamllint with the configuration that chart-testing uses, on what is YAML before rendering."""
    files = map(str, [CHART / "Chart.yaml", CHART / "values.yaml", *VARIANTS])
    command = [sys.executable, "-m", "yamllint", "--strict", "-c", str(ROOT / "tools" / "ct" / "lintconf.yaml"), *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
