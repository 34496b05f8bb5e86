"""What the image is built from."""

from __future__ import annotations

import re
from typing import Final

from tests.chart.rendering import ROOT
from tests.release.commands import steps
from tools.image import __main__ as image

DOCKERFILE: Final = (ROOT / "Dockerfile").read_text()


def test_the_base_does_not_move() -> None:
    """Its digest is written out, in a line that Dependabot reads; both stages use it by default."""
    assert image.default_base().startswith("docker.io/library/python@sha256:")
    assert len(image.BASE.findall(DOCKERFILE)) == 1
    arguments = dict(re.findall(r"^ARG (BASE_IMAGE|BUILD_IMAGE)=(.*)$", DOCKERFILE, re.MULTILINE))
    assert arguments == {"BASE_IMAGE": "base", "BUILD_IMAGE": "${BASE_IMAGE}"}
    stages = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert stages[1:] == ["${BUILD_IMAGE}", "${BASE_IMAGE}"]


def test_the_sources_name_no_owner() -> None:
    """The release adds where the image comes from: a name that is not claimed yet could be claimed by anyone."""
    assert "github.com" not in DOCKERFILE
    (labels,) = (step["with"]["labels"] for step in steps(ROOT / ".github/workflows/release.yaml") if _builds(step))
    given = dict(line.split("=", 1) for line in labels.strip().splitlines())
    repository = "${{ github.server_url }}/${{ github.repository }}"
    assert given == {
        "org.opencontainers.image.source": repository,
        "org.opencontainers.image.documentation": f"{repository}#readme",
    }


def _builds(step: dict[str, object]) -> bool:
    return "build-push-action" in str(step.get("uses", ""))
