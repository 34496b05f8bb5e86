"""Measure an image in its archive: its size, compressed and unpacked, and what fills it."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEGABYTE = 1_000_000
"""As registries count."""

SHOWN = 8
LEVEL = 6
"""The compression level of most builders."""

PARTS = (
    ("opt/gpu-operator-post/lib/", 5),
    ("opt/gpu-operator-post", 2),
    ("usr/lib/python", 3),
    ("usr/local/lib/python", 4),
    ("usr/lib/", 3),
    ("usr/share/", 3),
    ("usr", 2),
    ("", 1),
)
"""How many parts of a path name a group, by how the path begins; the first that fits."""


@dataclass(slots=True)
class Sizes:
    """What an image weighs, in bytes."""

    compressed: int = 0
    """All layers, gzipped as for a registry."""
    unpacked: int = 0
    """All files of all layers, as on a node's disk."""
    layers: list[tuple[int, int]] = field(default_factory=list)
    """Compressed and unpacked, from the base up."""
    groups: Counter[str] = field(default_factory=Counter)
    """Unpacked bytes by folder."""


def measure(archive: Path) -> Sizes:
    """Measure a docker-archive."""
    sizes = Sizes()
    with tarfile.open(archive) as whole:
        for layer in _layers(whole):
            compressed, unpacked = len(gzip.compress(layer, LEVEL)), 0
            for name, size in _files(layer):
                unpacked += size
                sizes.groups[group(name)] += size
            sizes.layers.append((compressed, unpacked))
    sizes.compressed = sum(compressed for compressed, _ in sizes.layers)
    sizes.unpacked = sum(unpacked for _, unpacked in sizes.layers)
    return sizes


def group(name: str) -> str:
    """Name the folder by which a file is counted."""
    parts = name.removeprefix("./").split("/")
    kept = next(count for start, count in PARTS if name.removeprefix("./").startswith(start))
    return "/".join(parts[:kept])


def report(archive: Path) -> list[str]:
    """Return the lines of the report."""
    sizes = measure(archive)
    lines = [f"{sizes.compressed / MEGABYTE:.1f} MB compressed, {sizes.unpacked / MEGABYTE:.1f} MB unpacked; layers:"]
    lines += [f"  {one / MEGABYTE:7.1f} MB compressed {two / MEGABYTE:7.1f} MB unpacked" for one, two in sizes.layers]
    lines.append("what fills it, unpacked:")
    lines += [f"  {size / MEGABYTE:7.1f} MB  {name}" for name, size in sizes.groups.most_common(SHOWN)]
    return lines


def _layers(whole: tarfile.TarFile) -> Iterator[bytes]:
    """Yield the layers' tar files, from the base up."""
    manifest = whole.extractfile("manifest.json")
    assert manifest is not None  # noqa: S101 - a docker-archive has one
    for name in json.load(manifest)[0]["Layers"]:
        layer = whole.extractfile(name)
        assert layer is not None  # noqa: S101 - as listed
        yield layer.read()


def _files(layer: bytes) -> Iterator[tuple[str, int]]:
    """Yield the files of a layer with their sizes."""
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        for member in files:
            if member.isfile():
                yield member.name, member.size
