"""Places that charts come from: a folder of packages behind HTTP, an OCI registry, and a git repository."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from devcluster.boot.ports import free_ports

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.boot.cluster import Cluster

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
        packages, blobs = cluster.state / "chart-packages", cluster.state / "chart-blobs"
        for folder in (packages, blobs):
            folder.mkdir()
        http, oci = free_ports(2)
        self.repository, self.registry = f"http://127.0.0.1:{http}", f"oci://127.0.0.1:{oci}/charts"
        self._packages = packages
        self._index()
        server = (sys.executable, "-m", "http.server", str(http), "--bind", "127.0.0.1", "--directory", str(packages))
        cluster.launch("chart-repository", server)
        crane = str(cluster.binary("crane"))
        registry = (crane, "registry", "serve", "--address", f"127.0.0.1:{oci}", "--disk", str(blobs))
        cluster.launch("chart-registry", registry)

    def publish(self, chart: Path, version: str = "") -> None:
        """Package a chart, under another version if one is given, into both places."""
        flags = ("--version", version) if version else ()
        said = self.cluster.helm("package", str(chart), *flags, "--destination", str(self._packages)).stdout
        package = said.rpartition(": ")[2].strip()
        self.cluster.helm("push", "--plain-http", package, self.registry)
        self._index()

    def _index(self) -> None:
        self.cluster.helm("repo", "index", str(self._packages), "--url", self.repository)


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
