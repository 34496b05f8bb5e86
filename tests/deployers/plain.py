"""Plain manifests as bundlers deploy them: objects without hook annotations, wrapped in a chart of the bundler's own.

Laid out as AICR's local format lays out what is installed after a component: the manifests, already rendered, are the
templates, and the values are those of the component that they belong to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from devcluster import binaries
from tests.deployers import bundles
from tests.e2e.lab import RELEASE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.deployers.bench import Wanted


def wrap(wanted: Wanted, version: str, folder: Path) -> Path:
    """Write what is wanted as plain manifests, and a chart of some version around them; give its folder."""
    manifests, chart = folder / version / "manifests", folder / version / RELEASE
    stack = bundles.Stack(wanted.chart, wanted.driver)
    helm = binaries.ensure(["helm4"])["helm4"]
    bundles.write(stack, "manifests", manifests, f"--helm={helm}", post=wanted.post)
    templates = chart / "templates"
    templates.mkdir(parents=True)
    (templates / "post.yaml").write_bytes((manifests / f"{RELEASE}.yaml").read_bytes())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": RELEASE, "version": version}))
    (chart / "values.yaml").write_text(yaml.safe_dump(wanted.operator))
    return chart
