"""Who builds the image on which base, and which failures are a lack of this machine, where tests of the image skip."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from tools.image import __main__ as image
from tools.image import base
from tools.image.commands import CannotBuildError, ImageError

if TYPE_CHECKING:
    from pathlib import Path

LISTS: Final = "var/lib/apt/lists"
REACHED: Final = f'mkdir -p "$root/{LISTS}"; touch "$root/{LISTS}/deb.debian.org_debian_dists_bookworm_InRelease"'
"""What the real one leaves behind once a mirror has answered."""


def test_only_a_missing_mirror_is_a_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A debootstrap that fails after a mirror has answered is a broken build, which no test may skip over.

    Neither a missing mirror nor a wrong package can be had on every machine, so a script fails as the real one does.
    """
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    script = tmp_path / "debootstrap"
    for before, lacking in (("true", True), (REACHED, False)):
        script.write_text(f"#!/bin/sh\nfor root do :; done\n{before}\nexit 1\n")
        script.chmod(0o755)
        with pytest.raises(ImageError) as failure:
            base._bootstrap(tmp_path / f"root-{lacking}", base.RUNTIME)
        assert isinstance(failure.value, CannotBuildError) == lacking, before


def _program(folder: Path, name: str, *works: str) -> None:
    """Write a program that does what begins with these words, and nothing else."""
    cases = "".join(f'  "{words}"*) exit 0 ;;\n' for words in works)
    answer = "echo 28.0; " if "info" in works else ""
    (folder / name).write_text(f'#!/bin/sh\n{answer}case "$*" in\n{cases}esac\nexit 1\n')
    (folder / name).chmod(0o755)


def test_buildah_gets_the_base_by_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older ones know neither a tag with a digest nor a stage in an argument. A base of the user's comes first."""
    _program(tmp_path, "buildah", "pull")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("BASE_IMAGE", raising=False)
    own = image.default_base()
    assert [f"--build-arg=BASE_IMAGE={own}", f"--build-arg=BUILD_IMAGE={own}"] == image.bases("buildah")
    assert image.bases("docker") == []
    monkeypatch.setenv("BASE_IMAGE", "mine:1")
    for builder in ("docker", "buildah"):
        assert image.bases(builder) == ["--build-arg=BASE_IMAGE=mine:1", "--build-arg=BUILD_IMAGE=mine:1"]
