"""Run the commands that verify a release in a POSIX shell; stand-ins take the place of what asks the registry."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from tests.chart.rendering import ROOT
from tests.release.commands import CONSOLE
from tools import release

SHELLS: Final = sorted({path for name in ("sh", "dash") if (path := shutil.which(name))})
REPOSITORY: Final = "Some-Org/GPU-operator-post"
NAMES: Final = release.Names(REPOSITORY)
VERSION: Final = release.versions(ROOT)["Chart.yaml, version"]
ARTIFACTS: Final = [f"{NAMES.image}:{VERSION}", f"{NAMES.charts}/gpu-operator-post:{VERSION}"]
WORKFLOW: Final = ".github/workflows/release.yaml"
ISSUER: Final = "https://token.actions.githubusercontent.com"
IDENTITY: Final = f"{NAMES.url}/{WORKFLOW}@refs/tags/v{VERSION}"
SIGNED: Final = [
    ["cosign", "verify", artifact, "--certificate-oidc-issuer", ISSUER, "--certificate-identity", IDENTITY]
    for artifact in ARTIFACTS
]
WRITE_DOWN: Final = """#!/bin/sh
printf '%s\\t' "${0##*/}" "$@" >> "$WRITTEN"
echo >> "$WRITTEN"
"""


def _run(folder: Path, shell: str, script: str) -> list[list[str]]:
    """Run a script of a document; return the commands with which it called the programs that need a registry."""
    for name in ("cosign", "gh", "docker"):
        (folder / name).write_text(WRITE_DOWN)
        (folder / name).chmod(0o755)
    written = folder / "written"
    written.unlink(missing_ok=True)
    environment = {"PATH": f"{folder}:{os.defpath}", "WRITTEN": str(written)}
    subprocess.run([shell, "-eu", "-c", script], env=environment, check=True, capture_output=True)
    return [line.rstrip("\t").split("\t") for line in written.read_text().splitlines()]


def test_security_page_and_notes_verify_a_release(tmp_path: Path) -> None:
    """They verify both artifacts, with the names of the release and the identity that signs it."""
    _, _, section = (ROOT / "docs" / "security.md").read_text().partition("\n## Verifying a release\n")
    script = "\n".join(CONSOLE.findall(section)).replace("OWNER/gpu-operator-post", REPOSITORY)
    arguments = [REPOSITORY, "--image-digest=sha256:aaaa", "--chart-digest=sha256:bbbb"]
    notes = CliRunner().invoke(release.main, ["notes", *arguments]).output
    (of_notes,) = (block for block in CONSOLE.findall(notes) if "cosign" in block)
    workflow = ["--repo", REPOSITORY, "--signer-workflow", f"{REPOSITORY}/{WORKFLOW}"]
    expected = [*workflow, "--source-ref", f"refs/tags/v{VERSION}"]
    for shell in SHELLS:
        assert _run(tmp_path, shell, of_notes) == SIGNED, shell
        calls = _run(tmp_path, shell, script)
        cosign, gh, docker = ([call for call in calls if call[0] == name] for name in ("cosign", "gh", "docker"))
        assert cosign == SIGNED, shell
        assert gh == [["gh", "attestation", "verify", f"oci://{name}", *expected] for name in ARTIFACTS], shell
        assert {call[4] for call in docker} == {ARTIFACTS[0]}, shell
