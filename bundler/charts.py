"""Charts: in a repository, or copied into the bundle."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bundler.documents import InputError, parse
from bundler.recipe import SOURCE

if TYPE_CHECKING:
    from bundler.documents import Mapping

_HASH_DIGITS: Final = 12
"""Of a SHA-256: enough to distinguish one state of a release from the one before it."""
_IGNORED: Final = frozenset({".git", "__pycache__", ".DS_Store"})


@dataclass(frozen=True, slots=True)
class Remote:
    """A chart in a repository."""

    repository: str
    name: str
    version: str

    @property
    def registry(self) -> str:
        """The OCI registry and path without their scheme; empty for other repositories."""
        return self.repository.removeprefix("oci://") if self.repository.startswith("oci://") else ""

    @property
    def identity(self) -> Mapping:
        """What distinguishes this chart from others."""
        return {"repository": self.repository, "name": self.name, "version": self.version}


@dataclass(frozen=True, slots=True)
class Copied:
    """A chart whose files become part of the bundle."""

    files: dict[str, bytes]

    @property
    def identity(self) -> Mapping:
        """A hash of each file."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files.items()}

    @property
    def name(self) -> str:
        """The name in ``Chart.yaml``, with which the names of the chart's objects begin."""
        return str(self.metadata.get("name"))

    @property
    def metadata(self) -> Mapping:
        """The content of ``Chart.yaml``."""
        return parse(self.files.get("Chart.yaml", b"").decode(errors="replace"), "Chart.yaml")


Chart = Remote | Copied


def fingerprint(chart: Chart, values: Mapping) -> str:
    """Return a hash of a chart and its values."""
    parts = (json.dumps(part, sort_keys=True) for part in (chart.identity, values))
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:_HASH_DIGITS]


def find(source: str) -> str | Copied:
    """Return the address of a chart repository, or the files of a chart's directory."""
    if re.fullmatch(SOURCE, source):
        return source.rstrip("/")
    if not (Path(source) / "Chart.yaml").is_file():
        raise InputError(f"--chart {source}: neither a repository (oci://, https://) nor the directory of a chart")
    return Copied(_contents(Path(source)))


def _contents(folder: Path) -> dict[str, bytes]:
    """Read the files of a directory. Refuse links, which could lead out of it."""
    contents: dict[str, bytes] = {}
    try:
        for file in sorted(folder.rglob("*")):
            path = file.relative_to(folder)
            if _IGNORED.intersection(path.parts):
                continue
            if file.is_symlink():
                raise InputError(f"{file}: the file is a link, and a bundle can only hold ordinary files")
            if file.is_file():
                contents[path.as_posix()] = file.read_bytes()
    except OSError as error:
        raise InputError(f"{error.filename or folder}: cannot read the file: {error.strerror}") from error
    return contents
