"""Which failures of the offline base are a lack of this machine, where tests of the image skip, and which are ours."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from tools.image import base
from tools.image.commands import CannotBuildError, ImageError

if TYPE_CHECKING:
    from pathlib import Path

LISTS: Final = "var/lib/apt/lists"
REACHED: Final = f'mkdir -p "$root/{LISTS}"; touch "$root/{LISTS}/deb.debian.org_debian_dists_bookworm_InRelease"'
"""What the real one leaves behind once a mirror has answered."""


@pytest.mark.parametrize(
    ("before", "lacking"),
    [pytest.param("true", True, id="no-mirror"), pytest.param(REACHED, False, id="wrong-package")],
)
def test_only_an_absent_mirror_is_a_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, lacking: bool
) -> None:
    """A debootstrap that fails after a mirror has answered is a broken build, which no test may skip over.

    Neither a missing mirror nor a wrong package can be had on every machine, so a script fails as the real one does.
    """
    script = tmp_path / "debootstrap"
    script.write_text(f"#!/bin/sh\nfor root do :; done\n{before}\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ImageError) as failure:
        base._bootstrap(tmp_path / "root", base.RUNTIME)
    assert isinstance(failure.value, CannotBuildError) == lacking
