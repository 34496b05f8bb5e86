"""helmfile with helm-diff: `apply` upgrades what the diff shows, `sync` upgrades everything."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import yaml

from devcluster import commands
from devcluster.build import binaries
from devcluster.deployers.release import Outcome, Release, Values

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from devcluster.boot.cluster import Cluster

ENOUGH_SECONDS = 600.0
"""Longer than any deployment of a test; one that hangs fails instead of blocking the others."""


class Helmfile:
    """One folder with a helmfile.yaml."""

    def __init__(self, cluster: Cluster, helm: int = 4) -> None:
        programs = binaries.ensure(["helmfile", "helm-diff", f"helm{helm}"])
        self.cluster = cluster
        self.folder = cluster.state / "helmfile"
        self._helmfile, self._helm = programs["helmfile"], programs[f"helm{helm}"]
        self._plugins = self.folder / "plugins"
        _install_plugin(programs["helm-diff"], self._plugins / "helm-diff")

    def write(self, releases: Sequence[Release]) -> None:
        """Write the helmfile.yaml that describes these releases."""
        homes = {release.name: f"{release.namespace}/{release.name}" for release in releases}
        document = {
            "helmDefaults": {"createNamespace": True},
            "releases": [_entry(release, [homes[name] for name in release.needs]) for release in releases],
        }
        (self.folder / "helmfile.yaml").write_text(yaml.safe_dump(document, sort_keys=False))

    def apply(self, releases: Sequence[Release]) -> Outcome:
        """Write the releases down and bring about what differs."""
        self.write(releases)
        return self.run("apply")

    def sync(self, releases: Sequence[Release]) -> Outcome:
        """Write the releases down and upgrade them all, changed or not."""
        self.write(releases)
        return self.run("sync")

    def run(self, *arguments: str, file: Path | None = None, upgrade_dry_run: bool = True) -> Outcome:
        """Run helmfile on our folder, or on another file that may name repositories.

        helm-diff gives Helm flags that only Helm 3 takes together; with `upgrade_dry_run` it asks otherwise, as
        Helm 4 needs.
        """
        result = subprocess.run(
            [
                self._helmfile, "--file", file or self.folder / "helmfile.yaml", "--helm-binary", self._helm,
                "--no-color", *([] if file else ["--skip-deps"]), *arguments,
            ],
            env={**self._environment(), "HELM_DIFF_USE_UPGRADE_DRY_RUN": str(upgrade_dry_run).lower()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=ENOUGH_SECONDS,
            check=False,
        )  # fmt: skip
        return Outcome(succeeded=result.returncode == 0, said=result.stdout)

    def _environment(self) -> dict[str, str]:
        """Return Helm's own homes, with the plugin, and nothing that asks the network."""
        return {
            **commands.environment(self.cluster.files),
            "HELM_PLUGINS": str(self._plugins),
            "HELMFILE_CACHE_HOME": str(self.folder / "cache"),
            "HELMFILE_UPGRADE_NOTICE_DISABLED": "true",
            "PATH": os.environ.get("PATH", os.defpath),
        }


def _entry(release: Release, needs: list[str]) -> Values:
    """Describe one release in helmfile's words."""
    return {
        "name": release.name,
        "namespace": release.namespace,
        "chart": str(release.chart),
        "values": [release.values],
        "needs": needs,
        "timeout": release.timeout,
        "wait": release.wait,
        "waitForJobs": release.wait,
        # The CRD of a chart's own object is not there before the chart's first installation.
        "disableValidationOnInstall": True,
    }


def _install_plugin(program: Path, folder: Path) -> None:
    """Lay out a Helm plugin as its installer would, without a download."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "plugin.yaml").write_text((program.parent / "plugin.yaml").read_text())
    link = folder / "bin" / "diff"
    link.unlink(missing_ok=True)
    link.symlink_to(program)
