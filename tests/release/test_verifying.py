"""Run the commands that verify a release in a POSIX shell; stand-ins take the place of what asks the registry."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.chart.rendering import ROOT
from tests.release.commands import CONSOLE

SHELLS: Final = sorted({path for name in ("sh", "dash") if (path := shutil.which(name))})
REPOSITORY: Final = "Some-Org/GPU-operator-post"
WORKFLOW: Final = f"{REPOSITORY}/.github/workflows/release.yaml"
PAGE: Final = (ROOT / "docs" / "security.md").read_text().partition("\n## Verifying a release\n")[2]
VERSION: Final = re.findall(r" VERSION=(\S+)", PAGE)[0]
ARTIFACTS: Final = [
    f"ghcr.io/some-org/gpu-operator-post:{VERSION}",
    f"ghcr.io/some-org/charts/gpu-operator-post:{VERSION}",
]
TOKENS: Final = "https://token.actions.githubusercontent.com"
SIGNED_BY: Final = f"https://github.com/{WORKFLOW}@refs/tags/v{VERSION}"
WRITE_DOWN: Final = """#!/bin/sh
printf '%s\\t' "${0##*/}" "$@" >> "$WRITTEN"
echo >> "$WRITTEN"
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_the_security_page_verifies_a_release(shell: str, tmp_path: Path) -> None:
    """It verifies both artifacts, with the names of the release and the identity that signs it."""
    for name in ("cosign", "gh", "docker"):
        (tmp_path / name).write_text(WRITE_DOWN)
        (tmp_path / name).chmod(0o755)
    written = tmp_path / "written"
    script = "\n".join(CONSOLE.findall(PAGE)).replace("OWNER/gpu-operator-post", REPOSITORY)
    environment = {"PATH": f"{tmp_path}:{os.defpath}", "WRITTEN": str(written)}
    subprocess.run([shell, "-eu", "-c", script], env=environment, check=True, capture_output=True)
    calls = [line.rstrip("\t").split("\t") for line in written.read_text().splitlines()]
    cosign, gh, docker = ([call for call in calls if call[0] == name] for name in ("cosign", "gh", "docker"))
    identity = ["--certificate-oidc-issuer", TOKENS, "--certificate-identity", SIGNED_BY]
    assert cosign == [["cosign", "verify", artifact, *identity] for artifact in ARTIFACTS]
    source = ["--repo", REPOSITORY, "--signer-workflow", WORKFLOW, "--source-ref", f"refs/tags/v{VERSION}"]
    assert gh == [["gh", "attestation", "verify", f"oci://{artifact}", *source] for artifact in ARTIFACTS]
    assert {call[4] for call in docker} == {ARTIFACTS[0]}
