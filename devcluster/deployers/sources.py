"""Places that charts come from: a folder of packages behind HTTP, an OCI registry, and a git repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import yaml

from devcluster.boot.ports import free_ports
from devcluster.build import binaries

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.boot.cluster import Cluster

NAMES = ("chart-repository", "chart-registry")
"""What the two are called among the cluster's processes."""

IDENTITY = {
    "GIT_AUTHOR_NAME": "platform team",
    "GIT_AUTHOR_EMAIL": "platform@example.invalid",
    "GIT_COMMITTER_NAME": "platform team",
    "GIT_COMMITTER_EMAIL": "platform@example.invalid",
}


class ChartSources:
    """Serves charts to Flux and Argo CD as the public repositories do."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.folder = cluster.state / "chart-sources"
        http, oci = free_ports(2)
        self.repository = f"http://127.0.0.1:{http}"
        self.registry = f"oci://127.0.0.1:{oci}/charts"
        self._ports = (http, oci)

    def start(self) -> None:
        """Serve."""
        packages, blobs = self.folder / "packages", self.folder / "blobs"
        for folder in (packages, blobs):
            folder.mkdir(parents=True, exist_ok=True)
        (packages / "index.yaml").write_text("apiVersion: v1\nentries: {}\n")
        http, oci = self._ports
        self.cluster.launch(
            NAMES[0],
            [sys.executable, "-m", "http.server", str(http), "--bind", "127.0.0.1", "--directory", str(packages)],
        )
        crane = binaries.ensure(["crane"])["crane"]
        self.cluster.launch(
            NAMES[1], [str(crane), "registry", "serve", "--address", f"127.0.0.1:{oci}", "--disk", str(blobs)]
        )

    def publish(self, chart: Path, version: str = "", **values: object) -> str:
        """Package a chart under a version, with other defaults, into both places; return the version."""
        copy = self.folder / "work" / chart.name
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(chart, copy)
        if values:
            defaults = yaml.safe_load((copy / "values.yaml").read_text())
            (copy / "values.yaml").write_text(yaml.safe_dump({**defaults, **values}))
        declared = str(yaml.safe_load((copy / "Chart.yaml").read_text())["version"])
        version = version or declared
        packages = self.folder / "packages"
        self.cluster.helm("package", str(copy), "--version", version, "--destination", str(packages))
        self.cluster.helm("repo", "index", str(packages), "--url", self.repository)
        self.cluster.helm("push", "--plain-http", str(packages / f"{chart.name}-{version}.tgz"), self.registry)
        return version


class GitRepository:
    """One branch, `main`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._git("init", "--quiet", "--initial-branch=main")

    @property
    def url(self) -> str:
        """Where Argo CD finds it."""
        return f"file://{self.folder}"

    def commit(self, message: str) -> str:
        """Commit everything, changed or not, and return the revision."""
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", f"--message={message}")
        return self._git("rev-parse", "HEAD")

    def _git(self, *arguments: str) -> str:
        """Run git with nothing of the user's own configuration."""
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            **IDENTITY,
        }
        answer = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, check=True
        )
        return answer.stdout.strip()
