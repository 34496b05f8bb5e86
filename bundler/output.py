"""Fill the templates of a bundle's files, and write a bundle completely or not at all."""

from __future__ import annotations

import string
import tempfile
from importlib import resources
from pathlib import Path
from typing import Final

import click

from bundler.documents import InputError

Files = dict[str, str | bytes]
"""The files of a bundle, by their path in it."""
PAGE: Final = "README.md"
MARK: Final = "by `gpu-operator-post-bundler bundle`"
"""Part of the page of every bundle."""


class OutputError(click.ClickException):
    """The disk or Helm failed, which is not the fault of the input."""

    exit_code = 1


class _Template(string.Template):
    """A text with placeholders such as ``@@{name}``, which no shell, Go template or Lua script contains."""

    delimiter = "@@"


def template(name: str, /, **values: object) -> str:
    """Return a text of the folder ``data`` with its placeholders filled in."""
    text = (resources.files("bundler") / "data" / name).read_text(encoding="utf-8")
    return _Template(text).substitute(values)


def write(files: Files, target: Path, *, force: bool) -> None:
    """Write a bundle into a directory.

    All files are written to a temporary directory inside it first, and moved when they are complete. The directory
    itself stays: it may be a mount point or the working directory.
    """
    try:
        _check(target, force=force)
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".bundle.", dir=target) as workspace:
            new, old = Path(workspace, "new"), Path(workspace, "old")
            write_files(files, new)
            old.mkdir()
            for entry in [entry for entry in target.iterdir() if entry != Path(workspace)]:
                entry.rename(old / entry.name)
            for entry in list(new.iterdir()):
                entry.rename(target / entry.name)
    except OSError as error:
        raise OutputError(f"--output {target}: {error.strerror or error} ({error.filename})") from error


def write_files(files: Files, folder: Path) -> None:
    """Write files into a directory; ``install.sh`` is executable."""
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        if file.name == "install.sh":
            file.chmod(0o755)


def _check(target: Path, *, force: bool) -> None:
    """Refuse a directory with other files: ``--force`` replaces an earlier bundle only."""
    if not target.is_dir() or not any(target.iterdir()):
        return
    if not force:
        raise InputError(f"--output {target}: the directory is not empty; --force replaces an earlier bundle in it")
    page = target / PAGE
    if not page.is_file() or MARK not in page.read_text(encoding="utf-8", errors="replace"):
        raise InputError(f"--output {target}: --force replaces an earlier bundle only, and this is not one")
    if any(target.rglob(".git")):
        raise InputError(f"--output {target}: the directory holds a Git repository, which --force would delete")
