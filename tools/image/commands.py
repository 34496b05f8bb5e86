"""Run a builder's commands: shown as they run, or read."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECKOUT = Path(__file__).parents[2]
"""The build context."""


class ImageError(Exception):
    """The image was not built; the message says why."""


class CannotBuildError(ImageError):
    """This machine lacks what building takes; the message says what to do."""


def say(text: str) -> None:
    """Print what is being done."""
    sys.stderr.write(f"image: {text}\n")


def run(*command: str) -> None:
    """Run a command whose output people should see; its failure is ours."""
    code = subprocess.run(command, cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode
    if code != 0:
        raise ImageError(f"`{' '.join(command)}` ended with {code}")


def read(*command: str) -> str | None:
    """Return a command's output; None if it fails or does not exist."""
    if shutil.which(command[0]) is None:
        return None
    answer = subprocess.run(
        command, cwd=CHECKOUT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() if answer.returncode == 0 else None


def available(programs: Sequence[str]) -> bool:
    """Whether all these programs are installed."""
    return all(shutil.which(program) for program in programs)
