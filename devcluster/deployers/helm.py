"""Helm by itself, as a pipeline calls it: one release after the other, stop at the first failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from devcluster import commands
from devcluster.deployers.release import Outcome

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from devcluster.boot.cluster import Cluster
    from devcluster.deployers.release import Release


class Helm:
    """Helm 3 or 4."""

    def __init__(self, cluster: Cluster, version: int) -> None:
        self.cluster, self.version = cluster, version

    def apply(self, releases: Sequence[Release], *flags: str) -> Outcome:
        """Install or upgrade the releases in their order."""
        said = []
        for release in releases:
            process = self.start(release, *flags)
            output, _ = process.communicate()
            said.append(output)
            if process.returncode != 0:
                return Outcome(succeeded=False, said="".join(said))
        return Outcome(succeeded=True, said="".join(said))

    def start(self, release: Release, *flags: str) -> subprocess.Popen[str]:
        """Start one release's upgrade; the caller waits for it."""
        values = self.cluster.state / f"values-{release.name}.yaml"
        values.write_text(yaml.safe_dump(release.values))
        return commands.launch(
            self.cluster.files,
            [
                f"helm{self.version}", "upgrade", "--install", release.name, str(release.chart),
                "--namespace", release.namespace, "--create-namespace", "--reset-values",
                "--values", str(values), "--timeout", f"{release.timeout}s",
                *(("--wait", "--wait-for-jobs") if release.wait else ()), *flags,
            ],
        )  # fmt: skip

    def status(self, release: Release) -> str:
        """Return the release's status: `deployed`, `failed`, `pending-upgrade`."""
        answer = self.cluster.helm(
            "status", release.name, "--namespace", release.namespace, "--output", "json", version=self.version
        )
        return str(yaml.safe_load(answer.stdout)["info"]["status"])
