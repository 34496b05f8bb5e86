"""The user's cluster, and what a certification does there: through Helm, kubectl and its own ServiceAccount."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from devcluster.build import binaries

CHART: Final = Path(__file__).parents[2] / "charts" / "gpu-operator-post"
COMMAND_SECONDS: Final = 24 * 60 * 60
"""Helm has its own limit; this one only ends what hangs without any."""
CLUSTER_SCOPED: Final = "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"

Done = subprocess.CompletedProcess[str]
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster, a namespace of ours in it, and how the chart is installed there."""

    kubeconfig: Path
    namespace: str
    chart: Path
    settings: tuple[str, ...]
    """Helm flags of the user: values file, image."""
    homes: Path
    """Helm's and kubectl's caches go here, not into the user's."""
    helm: Path
    kubectl_binary: Path

    def run_helm(self, *arguments: str) -> Done:
        """Run Helm in our namespace; the caller judges the exit code."""
        return self._run(self.helm, *arguments, f"--namespace={self.namespace}")

    def kubectl(self, *arguments: str, text: str | None = None, kubeconfig: Path | None = None) -> Done:
        """Run kubectl as the user, or as another account; the caller checks the exit code."""
        return self._run(self.kubectl_binary, *arguments, text=text, kubeconfig=kubeconfig)

    def read(self, *arguments: str, text: str | None = None) -> Object:
        """Run kubectl, which must succeed, and decode the object that it prints."""
        done = self.kubectl(*arguments, "--output=json", text=text)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def items(self, *arguments: str) -> list[Object]:
        """Get a list of objects."""
        return list(self.read("get", *arguments)["items"])

    def names(self, *arguments: str) -> list[str]:
        """Get the names of objects."""
        done = self.kubectl("get", *arguments, "--output=name", "--ignore-not-found")
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    @contextmanager
    def release(self, name: str, *flags: str) -> Iterator[Done]:
        """Install the chart; uninstall it whatever happens, and leave nothing in the cluster."""
        try:
            yield self.run_helm("install", name, str(self.chart), *self.settings, *flags)
        finally:
            done = self.run_helm("uninstall", name, "--ignore-not-found", "--wait", "--timeout=2m")
            assert done.returncode == 0, done.stderr
        assert self.names(CLUSTER_SCOPED, f"--selector=app.kubernetes.io/instance={name}") == []

    def acting_as(self, account: str) -> Path:
        """Write a kubeconfig with the token of a ServiceAccount in our namespace, and no other credential."""
        done = self.kubectl("create", "token", account, f"--namespace={self.namespace}", "--duration=15m")
        assert done.returncode == 0, done.stderr
        config = self.read("config", "view", "--raw", "--minify", "--flatten")
        config["users"] = [{"name": user["name"], "user": {"token": done.stdout.strip()}} for user in config["users"]]
        file = self.homes / f"{account}.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(config))
        return file

    def _run(self, program: Path, *arguments: str, text: str | None = None, kubeconfig: Path | None = None) -> Done:
        environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig or self.kubeconfig),
            "KUBECACHEDIR": str(self.homes / "kube"),
            "HELM_CACHE_HOME": str(self.homes / "helm"),
        }
        command: Sequence[str | Path] = [program, *arguments]
        return subprocess.run(
            command,
            env=environment,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )


def program(installed: str, ours: str, *, use_installed: bool) -> Path:
    """Return the user's own Helm or kubectl, as it is what will be used there; ours where there is none."""
    found = shutil.which(installed) if use_installed else None
    return Path(found) if found else binaries.ensure([ours])[ours]


def image_flags(reference: str) -> list[str]:
    """Return an image reference in the chart's values: ``[registry/]repository[:tag|@digest]``."""
    repository, _, digest = reference.partition("@")
    tag = ""
    if ":" in repository.rpartition("/")[2]:
        repository, _, tag = repository.rpartition(":")
    values = {"registry": "", "repository": repository, "tag": tag, "digest": digest}
    return [f"--set-string=image.{key}={value}" for key, value in values.items()]
