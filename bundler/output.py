"""Files in memory, and then on disk: all of them, or none."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bundler.documents import DocumentError
from bundler.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = "README.md"
MARK: Final = "by `gpu-operator-post-bundler bundle`"
"""Stands on the page of every bundle."""
_EXECUTABLE: Final = 0o111
_IGNORED: Final = frozenset({".git", "__pycache__", ".DS_Store"})


@dataclass(slots=True)
class Files:
    """The files of a bundle, by their path in it."""

    contents: dict[str, bytes] = field(default_factory=dict)
    executable: set[str] = field(default_factory=set)

    def add(self, path: str, text: str) -> None:
        """Add a text."""
        self.contents[path] = text.encode()

    def add_script(self, path: str, text: str) -> None:
        """Add a text that can be run."""
        self.add(path, text)
        self.executable.add(path)

    def add_tree(self, path: str, tree: dict[str, bytes]) -> None:
        """Add a folder."""
        self.contents.update({f"{path}/{name}": content for name, content in tree.items()})


def tree(folder: Path) -> dict[str, bytes]:
    """Read a folder's files. A link could lead out of it, and is refused."""
    found: dict[str, bytes] = {}
    try:
        for file in sorted(_walk(folder)):
            if file.is_symlink():
                raise DocumentError(f"{file}: it is a link; a bundle holds files only")
            found[file.relative_to(folder).as_posix()] = file.read_bytes()
    except OSError as error:
        raise DocumentError(f"{error.filename or folder}: it cannot be read: {error.strerror}") from error
    return found


def _walk(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name in _IGNORED:
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry)
        else:
            yield entry


def write(files: Files, target: Path, *, force: bool) -> None:
    """Write a bundle beside its place, then put it there: all of it, or nothing is changed.

    A directory that is there stays itself and gets other entries, because it may be a mount point, such as a volume
    of a container, and its parent may be read-only.
    """
    try:
        resolved = target.resolve()
        _check(resolved, force=force)
        exists = resolved.exists()
        around = resolved if exists else resolved.parent
        around.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{resolved.name}.", dir=around) as workspace:
            # A directory of our own in it, because the workspace itself is private to this user.
            made = Path(workspace) / "new"
            _write(files, made)
            if exists:
                replace_entries(resolved, made, Path(workspace))
            else:
                made.rename(resolved)
    except OSError as error:
        raise OutputError(f"--output {target}: {error.strerror or error} ({error.filename})") from error


def _check(target: Path, *, force: bool) -> None:
    """Refuse a target that must not be replaced."""
    if target.exists() and not target.is_dir():
        raise InputError(f"--output {target}: it is there and no directory")
    if not target.exists() or not any(target.iterdir()):
        return
    if not force:
        raise InputError(f"--output {target}: it is not empty; with --force everything in it is replaced")
    if not _is_bundle(target):
        raise InputError(f"--output {target}: --force replaces an earlier bundle only, and this is none")
    if Path.cwd().is_relative_to(target) or any(target.rglob(".git")):
        raise InputError(f"--output {target}: --force would replace the working directory or a repository")


def _is_bundle(folder: Path) -> bool:
    """Whether a directory holds what this program wrote: a wrong path must not cost somebody's work."""
    page = folder / PAGE
    return page.is_file() and MARK in page.read_text(encoding="utf-8", errors="replace")


def replace_entries(target: Path, made: Path, workspace: Path) -> None:
    """Move the old entries out and the new ones in; where one cannot be moved, all are put back."""
    aside = workspace / "old"
    aside.mkdir()
    old = [entry for entry in target.iterdir() if entry != workspace]
    moves = [(entry, aside / entry.name) for entry in old] + [(entry, target / entry.name) for entry in made.iterdir()]
    done: list[tuple[Path, Path]] = []
    try:
        for source, place in moves:
            source.rename(place)
            done.append((source, place))
    except BaseException:
        for source, place in reversed(done):
            place.rename(source)
        raise


class OutputError(Exception):
    """The disk did not take it. Not the input's fault."""


def _write(files: Files, folder: Path) -> None:
    for name, content in files.contents.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        if name in files.executable:
            # For whoever may read it, as the user's umask left it.
            mode = file.stat().st_mode
            file.chmod(mode | (mode >> 2 & _EXECUTABLE))


def helm_program(name: str) -> str:
    """Find a program, or say that it is missing."""
    found = shutil.which(name)
    if found is None:
        raise InputError(f"--helm {name}: there is no such program on PATH; plain manifests are rendered with Helm")
    return os.fspath(found)
