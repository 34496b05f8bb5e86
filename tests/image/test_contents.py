"""What is in the image, read from its archive."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tools.image.__main__ import build, find_builder
from tools.image.commands import read

AGAIN = "localhost/gpu-operator-post:again"
HOME = "opt/gpu-operator-post/"
MOST_COMPRESSED = 55_000_000
"""What we promise for a slim Debian base, in bytes of layers that are compressed as most builders do."""


@pytest.fixture(scope="module")
def config(archive: Path) -> dict[str, Any]:
    """Return the image's configuration."""
    with tarfile.open(archive) as whole:
        (image,) = json.load(_open(whole, "manifest.json"))
        described: dict[str, Any] = json.load(_open(whole, image["Config"]))
    return described


@pytest.fixture(scope="module")
def files(archive: Path) -> dict[str, tarfile.TarInfo]:
    """Return the image's files by path, later layers over earlier ones."""
    found: dict[str, tarfile.TarInfo] = {}
    for layer in _layers(archive):
        for member in layer:
            path = PurePosixPath(member.name.removeprefix("./"))
            if path.name.startswith(".wh."):
                gone = str(path.with_name(path.name.removeprefix(".wh.")))
                found = {name: each for name, each in found.items() if not f"{name}/".startswith(f"{gone}/")}
            else:
                found[str(path)] = member
    return found


def _layers(archive: Path) -> Iterator[tarfile.TarFile]:
    """Open the layers, from the base up."""
    with tarfile.open(archive) as whole:
        (image,) = json.load(_open(whole, "manifest.json"))
        for name in image["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(_open(whole, name).read())) as layer:
                yield layer


def _open(archive: tarfile.TarFile, name: str) -> Any:  # noqa: ANN401 - a binary file
    member = archive.extractfile(name)
    assert member is not None
    return member


def test_how_it_starts(config: dict[str, Any]) -> None:
    """Not as root, by number; without a shell; and with nothing importable from where it happens to be."""
    started = config["config"]
    assert started["User"] == "65532:65532"
    assert [f"/{HOME}bin/python", "-m", "hook"] == started["Entrypoint"]
    assert not started.get("Cmd")
    assert "PYTHONSAFEPATH=1" in started["Env"]
    (path,) = (each for each in started["Env"] if each.startswith("PATH="))
    assert path.startswith(f"PATH=/{HOME}bin:")


def test_it_has_a_command_for_people(files: dict[str, tarfile.TarInfo]) -> None:
    """`kubectl exec` finds it in the PATH. The program for people outside is not in the image."""
    assert files[f"{HOME}bin/gpu-operator-post"].mode & 0o111 == 0o111
    packages = {name.partition("/site-packages/")[2].partition("/")[0] for name in files}
    assert ("hook" in packages, packages & {"ctl", "bundler"}) == (True, set())


def test_nothing_to_install_with(files: dict[str, tarfile.TarInfo]) -> None:
    """No pip, no place for packages that pip would need, and nothing in our folder that its user may change."""
    assert not [name for name in files if "/pip/" in name or name.endswith(("bin/pip", "bin/pip3"))]
    assert not [name for name in files if "/ensurepip" in name]
    ours = [each for name, each in files.items() if name.startswith(HOME) and not each.issym()]
    assert ours
    assert not [each.name for each in ours if each.mode & 0o022 or each.uid != 0]
    assert "licenses/LICENSE" in files


def test_bytecode_for_everything(files: dict[str, tarfile.TarInfo]) -> None:
    """Each module of ours has bytecode, and what it loads of Python: the pod's file system is read-only."""
    sources = [PurePosixPath(name) for name in files if name.startswith(HOME) and name.endswith(".py")]
    assert f"{HOME}lib" in {"/".join(source.parts[:3]) for source in sources}
    compiled = {name.partition(".cpython-")[0] for name in files if name.endswith(".pyc")}
    assert [source for source in sources if str(source.parent / "__pycache__" / source.stem) not in compiled] == []
    loaded = {PurePosixPath(name).name for name in compiled if not name.startswith(HOME)}
    assert {"client", "difflib", "idna", "ssl"} <= loaded


def test_size(archive: Path) -> None:
    """A node pulls less than we promise."""
    with tarfile.open(archive) as whole:
        (image,) = json.load(_open(whole, "manifest.json"))
        layers = [gzip.compress(_open(whole, name).read(), compresslevel=6) for name in image["Layers"]]
    assert sum(map(len, layers)) < MOST_COMPRESSED


@pytest.mark.large
def test_the_same_sources_make_the_same_image(archive: Path, config: dict[str, Any], tmp_path: Path) -> None:
    """Built again without a cache, from the same base: the same layers, to the byte."""
    if find_builder() != "buildah":
        pytest.skip("Docker's own builder does not set the files' times without an exporter's option")
    build(AGAIN, tmp_path / "again.tar", no_cache=True)
    assert read("buildah", "rmi", AGAIN) is not None
    with tarfile.open(tmp_path / "again.tar") as whole:
        (image,) = json.load(_open(whole, "manifest.json"))
        again = json.load(_open(whole, image["Config"]))
    assert archive.exists()
    assert config["rootfs"] == again["rootfs"]
