"""Plain manifests: our release alone, for bundlers that wrap objects of their own.

Helm renders them from the chart, because a second implementation of the chart would one day differ from the first.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from bundler.documents import InputError, at, to_yaml
from bundler.helm import chart_arguments
from bundler.output import Files, OutputError
from bundler.plan import Copied
from bundler.recipe import DRA, POST

if TYPE_CHECKING:
    from bundler.plan import Plan, Release

USE: Final = """\
`gpu-operator-post.yaml` holds ordinary objects without hook annotations: apply it, or hand it to a bundler, after the
GPU operator and before the DRA driver. `nvidia-dra-driver-gpu.values.yaml` goes over all other values of the DRA
driver. The Job's name carries a hash of its specification and of the trigger, because a Job cannot be changed.

Nothing tells of a failure by itself: wait for the Job (`kubectl wait --for=condition=complete`, `helm --wait
--wait-for-jobs`) for at least {outer} seconds.
"""
KUBE_VERSION: Final = "1.32.0"
"""The oldest that the chart admits, so that the result does not depend on which Helm renders it."""
_DELIMITER: Final = "{{"
PATIENCE_SECONDS: Final = 120
"""A chart may have to be fetched first."""


def files(plan: Plan, helm: str) -> Files:
    """Return the files."""
    result = Files()
    post = plan.post
    if post is None:
        raise InputError(f"{plan.recipe}: there is nothing to keep fresh in it, and so no manifest")
    result.add(f"{POST}.yaml", _rendered(post, helm))
    result.add(f"{POST}.values.yaml", to_yaml(post.values, plan.note(post)))
    if dra := plan.release(DRA):
        result.add(f"{DRA}.values.yaml", to_yaml(dra.derived, plan.note(dra)))
    return result


def _rendered(release: Release, helm: str) -> str:
    if shutil.which(helm) is None:
        raise InputError(f"--helm {helm}: there is no such program on PATH; plain manifests are rendered with Helm")
    with tempfile.TemporaryDirectory() as workspace:
        folder = Path(workspace)
        (folder / "values.yaml").write_text(to_yaml(release.values), encoding="utf-8")
        arguments = [
            *("template", release.name, *_chart(release, folder)),
            f"--namespace={release.namespace}",
            f"--values={folder / 'values.yaml'}",
            f"--kube-version={KUBE_VERSION}",
        ]
        try:
            done = subprocess.run(
                [helm, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise OutputError(f"--helm {helm}: {error}") from error
    if done.returncode != 0:
        raise OutputError(f"helm could not render {release.name}: {done.stderr.strip()}")
    objects: list[dict[str, Any]] = [item for item in yaml.safe_load_all(done.stdout) if item]
    for item in objects:
        if path := _template_in(item, ""):
            where = f"{item['kind']} {item['metadata']['name']}: {path}"
            raise InputError(
                f"values of {release.name}: {where}: it holds {_DELIMITER}, and plain manifests may be rendered again"
            )
    # Written anew, because Helm 3 and 4 differ in comments and blank lines.
    return "---\n".join(to_yaml(item) for item in objects)


def _template_in(value: object, path: str) -> str:
    """Return the first place whose text a further rendering would take for a template; nothing where there is none."""
    if isinstance(value, dict):
        # A key is judged as the place that it names.
        below = [(at(path, str(key)), part) for key, item in value.items() for part in (str(key), item)]
    elif isinstance(value, list):
        below = [(at(path, index), item) for index, item in enumerate(value)]
    else:
        return path if _DELIMITER in str(value) else ""
    return next((hit for place, item in below if (hit := _template_in(item, place))), "")


def _chart(release: Release, folder: Path) -> list[str]:
    if not isinstance(release.chart, Copied):
        return chart_arguments(release.chart)
    Files({f"chart/{name}": content for name, content in release.chart.files.items()}).write(folder)
    return [str(folder / "chart")]
