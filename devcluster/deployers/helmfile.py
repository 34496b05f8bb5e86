"""helmfile with helm-diff and Helm 4: `apply` upgrades what the diff shows, `sync` upgrades everything."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from devcluster import commands
from devcluster.build import binaries
from devcluster.deployers.outcome import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.boot.cluster import Cluster

ENOUGH_SECONDS = 600.0
"""Longer than any deployment of a test; one that hangs fails instead of blocking the others."""


def run(cluster: Cluster, file: Path, *arguments: str) -> Outcome:
    """Run helmfile on a helmfile.yaml."""
    programs = binaries.ensure(["helmfile", "helm-diff", "helm4"])
    home = cluster.state / "helmfile"
    _install_plugin(programs["helm-diff"], home / "plugins" / "helm-diff")
    environment = {
        **commands.environment(cluster.files),
        "HELM_PLUGINS": str(home / "plugins"),
        "HELM_DIFF_USE_UPGRADE_DRY_RUN": "true",  # as Helm 4 needs: helm-diff gives it flags that only Helm 3 combines
        "HELMFILE_CACHE_HOME": str(home / "cache"),
        "HELMFILE_UPGRADE_NOTICE_DISABLED": "true",
        "PATH": os.environ.get("PATH", os.defpath),
    }
    result = subprocess.run(
        [programs["helmfile"], "--file", file, "--helm-binary", programs["helm4"], "--no-color", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=ENOUGH_SECONDS,
        check=False,
    )
    return Outcome(succeeded=result.returncode == 0, said=result.stdout)


def _install_plugin(program: Path, folder: Path) -> None:
    """Lay out a Helm plugin as its installer would, without a download."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "plugin.yaml").write_text((program.parent / "plugin.yaml").read_text())
    link = folder / "bin" / "diff"
    link.unlink(missing_ok=True)
    link.symlink_to(program)
