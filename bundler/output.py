"""Files in memory, and then on disk: all of them, or none."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bundler.documents import InputError
from bundler.plan import Copied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bundler.plan import Plan

PAGE: Final = "README.md"
MARK: Final = "by `gpu-operator-post-bundler bundle`"
"""Stands on the page of every bundle."""
_EXECUTABLE: Final = 0o111
_IGNORED: Final = frozenset({".git", "__pycache__", ".DS_Store"})


class OutputError(click.ClickException):
    """The disk or Helm failed, which is not the fault of the input."""

    exit_code = 1


@dataclass(slots=True)
class Files:
    """The files of a bundle, by their path in it."""

    contents: dict[str, bytes] = field(default_factory=dict)
    executable: set[str] = field(default_factory=set)

    @classmethod
    def with_charts(cls, plan: Plan) -> Files:
        """Begin with the charts that are copied into the bundle."""
        return cls({
            f"{release.folder}/chart/{name}": content
            for release in plan.releases
            if isinstance(release.chart, Copied)
            for name, content in release.chart.files.items()
        })  # fmt: skip

    def add(self, path: str, text: str, *, executable: bool = False) -> None:
        """Add a text."""
        self.contents[path] = text.encode()
        if executable:
            self.executable.add(path)

    def write(self, folder: Path) -> None:
        """Write all files into a directory."""
        for name, content in self.contents.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            if name in self.executable:
                # For everyone who may read it, as the user's umask left it.
                mode = file.stat().st_mode
                file.chmod(mode | (mode >> 2 & _EXECUTABLE))


def tree(folder: Path) -> dict[str, bytes]:
    """Read the files of a directory. A link could lead out of it, and is refused."""
    contents: dict[str, bytes] = {}
    try:
        for file in sorted(_walk(folder)):
            if file.is_symlink():
                raise InputError(f"{file}: it is a link; a bundle holds files only")
            contents[file.relative_to(folder).as_posix()] = file.read_bytes()
    except OSError as error:
        raise InputError(f"{error.filename or folder}: it cannot be read: {error.strerror}") from error
    return contents


def _walk(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name in _IGNORED:
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry)
        else:
            yield entry


def write(files: Files, target: Path, *, force: bool) -> None:
    """Write a bundle next to its place, then move it there: all of it, or nothing changes.

    An existing directory stays and gets other entries, because it may be a mount point, such as a volume of a
    container, and its parent may be read-only.
    """
    try:
        resolved = target.resolve()
        _check(resolved, target, force=force)
        exists = resolved.exists()
        around = resolved if exists else resolved.parent
        around.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{resolved.name}.", dir=around) as workspace:
            # A directory of our own in it, because the workspace itself is private to this user.
            made = Path(workspace) / "new"
            files.write(made)
            if exists:
                replace_entries(resolved, made, Path(workspace))
            else:
                made.rename(resolved)
    except OSError as error:
        raise OutputError(f"--output {target}: {error.strerror or error} ({error.filename})") from error


def _check(folder: Path, target: Path, *, force: bool) -> None:
    """Refuse a target that must not be replaced: --force replaces an earlier bundle, never work of the user."""
    problem = ""
    if not folder.is_dir():
        problem = "it is there and no directory" if folder.exists() else ""
    elif any(folder.iterdir()):
        page = folder / PAGE
        if not force:
            problem = "it is not empty; with --force everything in it is replaced"
        elif not page.is_file() or MARK not in page.read_text(encoding="utf-8", errors="replace"):
            problem = "--force replaces an earlier bundle only, and this is none"
        elif Path.cwd().is_relative_to(folder) or any(folder.rglob(".git")):
            problem = "--force would replace the working directory or a repository"
    if problem:
        raise InputError(f"--output {target}: {problem}")


def replace_entries(target: Path, made: Path, workspace: Path) -> None:
    """Move the old entries out and the new ones in; where one cannot be moved, move all of them back."""
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
