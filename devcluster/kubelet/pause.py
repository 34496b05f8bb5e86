"""The image of every pod's sandbox, from a Go program of twenty lines: no registry has to be reached for it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING

from devcluster.kubelet.names import PAUSE_IMAGE

if TYPE_CHECKING:
    from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_image(archive: Path, program: Path) -> None:
    """Write a docker-archive of one layer with one file, the program."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as contents:
        contents.add(program, "pause")
    config = {
        "architecture": ARCHITECTURES.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as whole:
        _add(whole, "layer.tar", layer.getvalue())
        _add(whole, "config.json", json.dumps(config).encode())
        _add(whole, "manifest.json", json.dumps(manifest).encode())


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))
