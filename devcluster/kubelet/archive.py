"""Images without a registry or a builder: a docker-archive of one layer, from files of this machine."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Contents:
    """What an image holds, by the paths in it."""

    files: Mapping[str, Path] = field(default_factory=dict)
    """Copies, with their modes."""
    links: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


def write_image(archive: Path, name: str, contents: Contents, config: Mapping[str, object]) -> None:
    """Write an image under a name; `config` is what Docker calls that, such as the entrypoint."""
    unpacked = archive.with_suffix(".layer")
    with tarfile.open(unpacked, "w") as layer:
        for path in contents.folders:
            _add_entry(layer, path, tarfile.DIRTYPE)
        for path, target in contents.links.items():
            _add_entry(layer, path, tarfile.SYMTYPE, target)
        for path, source in contents.files.items():
            layer.add(source.resolve(), path)
    with unpacked.open("rb") as data:
        digest = hashlib.file_digest(data, "sha256").hexdigest()
    described = {
        "architecture": ARCHITECTURES.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as whole:
        whole.add(unpacked, "layer.tar")
        _add_text(whole, "config.json", json.dumps(described))
        _add_text(whole, "manifest.json", json.dumps(manifest))
    unpacked.unlink()


def _add_entry(archive: tarfile.TarFile, path: str, kind: bytes, target: str = "") -> None:
    entry = tarfile.TarInfo(path)
    entry.type, entry.linkname, entry.mode = kind, target, 0o755
    archive.addfile(entry)


def _add_text(archive: tarfile.TarFile, path: str, text: str) -> None:
    data = text.encode()
    entry = tarfile.TarInfo(path)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))
