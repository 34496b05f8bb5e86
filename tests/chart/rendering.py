"""Run the real Helm on the real chart, without a cluster."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "charts" / "gpu-operator-post"
RELEASE: Final = "gpu-operator-post"
NAMESPACE: Final = "gpu-operator"
KUBE_VERSION: Final = "1.34.0"
"""The oldest version that the chart admits; each Helm has another default."""

Object = dict[str, Any]
Values = dict[str, Any]

LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader in C, where PyYAML has it, takes an eighth of the time, which is as long as Helm's own."""
WITHOUT_COLLECTION: Final = {"GOGC": "off"}
"""A rendering ends long before its garbage matters (60 MB): a quarter less CPU, a thousand times."""
IMAGE: Final[Values] = {"image.registry": "registry.example", "image.repository": "team/gpu-operator-post"}
"""A chart from the sources names no image by itself, as a package does."""


HOOK_ANNOTATIONS: Final = {
    "helm.sh/hook": "post-install,post-upgrade",
    "helm.sh/hook-weight": "10",
    "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    "helm.sh/hook-output-log-policy": "hook-succeeded,hook-failed",
}
"""Of the Job, by default."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """The objects of one rendering."""

    objects: tuple[Object, ...]

    def all(self, kind: str) -> list[Object]:
        """Every object of a kind, in order."""
        return [item for item in self.objects if item["kind"] == kind]

    def one(self, kind: str) -> Object:
        """Return the only object of a kind."""
        found = self.all(kind)
        assert len(found) == 1, f"{len(found)} objects of kind {kind}"
        return found[0]

    @property
    def job(self) -> Object:
        """The Job."""
        return self.one("Job")

    @property
    def controller(self) -> Object:
        """The controller's Deployment."""
        return self.one("Deployment")

    @property
    def pod(self) -> Object:
        """The specification of the Job's pod."""
        return pod_of(self.job)

    @property
    def container(self) -> Object:
        """The only container of the Job's pod."""
        return container_of(self.job)

    @property
    def config(self) -> Object:
        """The settings of the Job's program."""
        return config_of(self.container)

    def roles_of(self, account: str) -> list[Object]:
        """Every role that is bound to a ServiceAccount."""
        bound = {
            (item["roleRef"]["kind"], item["roleRef"]["name"], item["metadata"].get("namespace"))
            for kind in ("ClusterRoleBinding", "RoleBinding")
            for item in self.all(kind)
            if account in {subject["name"] for subject in item["subjects"]}
        }
        return [
            item
            for item in (*self.all("ClusterRole"), *self.all("Role"))
            if (item["kind"], item["metadata"]["name"], item["metadata"].get("namespace")) in bound
        ]


@dataclass(frozen=True, slots=True)
class Helm:
    """One real Helm."""

    binary: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Helm; the caller checks the exit code."""
        return _run(self.binary, arguments)

    def template(
        self, values: Values | None = None, *options: str, release: str = RELEASE, chart: Path = CHART
    ) -> subprocess.CompletedProcess[str]:
        """Run ``helm template``; values are passed as JSON, which keeps their types; sources need an image."""
        ours = {} if chart.suffix == ".tgz" else IMAGE
        given = [f"--set-json={key}={json.dumps(value)}" for key, value in {**ours, **(values or {})}.items()]
        fixed = ["template", release, str(chart), f"--namespace={NAMESPACE}", f"--kube-version={KUBE_VERSION}"]
        return self.run(*fixed, *given, *options)

    def render(
        self, values: Values | None = None, *options: str, release: str = RELEASE, chart: Path = CHART
    ) -> Manifests:
        """Render the chart, which must succeed."""
        done = self.template(values, *options, release=release, chart=chart)
        assert done.returncode == 0, done.stderr
        return _manifests(done.stdout)

    def refuse(self, values: Values, *options: str) -> str:
        """Render the chart, which must fail, and return what Helm says."""
        done = self.template(values, *options)
        assert done.returncode != 0, "Helm accepted these values"
        return done.stderr


@cache
def _manifests(text: str) -> Manifests:
    return Manifests(tuple(documents(text)))


@cache
def _run(binary: Path, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run Helm once for the same arguments: many tests look at the same rendering."""
    environment = {**os.environ, **WITHOUT_COLLECTION}
    return subprocess.run(
        [binary, *arguments], capture_output=True, text=True, check=False, timeout=60, env=environment
    )


def pod_of(workload: Object) -> Object:
    """Return the specification of a workload's pods."""
    return dict(workload["spec"]["template"]["spec"])


def container_of(workload: Object) -> Object:
    """Return the only container of a workload's pods."""
    (container,) = pod_of(workload)["containers"]
    return dict(container)


def config_of(container: Object) -> Object:
    """Return the settings that the program of a container gets."""
    (text,) = [variable["value"] for variable in container["env"] if variable["name"] == "GPU_OPERATOR_POST_CONFIG"]
    return dict(json.loads(text))


def documents(text: str) -> list[Object]:
    """Read what was rendered, without empty documents."""
    return [item for item in yaml.load_all(text, Loader=LOADER) if item]
