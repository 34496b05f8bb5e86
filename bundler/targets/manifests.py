"""Plain manifests: the release of gpu-operator-post alone, for bundlers that wrap objects in charts of their own.

Helm renders them from the chart, because a second implementation of the chart would differ from the first one day.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from bundler.charts import Copied
from bundler.documents import InputError, to_yaml
from bundler.output import OutputError, write_files
from bundler.recipe import DRA, POST
from bundler.targets.helm import chart_arguments

if TYPE_CHECKING:
    from bundler.output import Files
    from bundler.releases import Bundle, Release

KUBE_VERSION: Final = "1.34.0"
"""The oldest that the chart accepts, so that the result does not depend on the Helm that renders it."""
_TEMPLATE: Final = "{{"


def files(bundle: Bundle, helm: str) -> Files:
    """Return the files."""
    post = bundle.post
    if post is None:
        raise InputError(f"{bundle.recipe}: the recipe has no plugins to keep fresh, so there is nothing to write")
    dra = bundle.releases[-1]
    return {
        f"{POST}.yaml": "---\n".join(_documents(post, _rendered(post, helm))),
        f"{POST}.values.yaml": to_yaml(post.values, bundle.comment(post)),
        f"{DRA}.values.yaml": to_yaml(dra.derived, bundle.comment(dra)),
    }


def _rendered(release: Release, helm: str) -> str:
    with tempfile.TemporaryDirectory() as workspace:
        folder = Path(workspace)
        write_files({"values.yaml": to_yaml(release.values)}, folder)
        arguments = [
            *("template", release.name, *_chart(release, folder)),
            f"--namespace={release.namespace}",
            f"--values={folder / 'values.yaml'}",
            f"--kube-version={KUBE_VERSION}",
        ]
        try:
            done = subprocess.run([helm, *arguments], capture_output=True, text=True, check=False)
        except OSError as error:
            raise InputError(
                f"--helm {helm}: cannot run Helm, which renders plain manifests: {error.strerror}"
            ) from error
    if done.returncode != 0:
        raise OutputError(f"Helm cannot render {release.name}: {done.stderr.strip()}")
    return done.stdout


def _documents(release: Release, rendered: str) -> list[str]:
    """Write each object again, because Helm 3 and 4 differ in comments and blank lines."""
    documents = []
    for item in filter(None, yaml.safe_load_all(rendered)):
        documents.append(text := to_yaml(item))
        if _TEMPLATE in text:
            name = f"{item['kind']} {item['metadata']['name']}"
            raise InputError(
                f"values of {release.name}: {name} contains {_TEMPLATE}, and a bundler may render plain manifests again"
            )
    return documents


def _chart(release: Release, folder: Path) -> list[str]:
    if not isinstance(release.chart, Copied):
        return chart_arguments(release.chart)
    write_files({f"chart/{name}": content for name, content in release.chart.files.items()}, folder)
    return [str(folder / "chart")]
