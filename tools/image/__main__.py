"""Build the image with Docker or buildah, whichever is there: ``python -m tools.image``.

BASE_IMAGE names another base. Where the Dockerfile's own cannot be pulled, and none was named, buildah builds on one
that is made from Debian packages.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from tools.image.base import offline_bases
from tools.image.commands import CHECKOUT, CannotBuildError, ImageError, available, read, run, say

TAG = "localhost/gpu-operator-post:dev"
ARCHIVE = CHECKOUT / "build" / "image.tar"
BASE = re.compile(r"^FROM (?P<name>[^\s:@]+):(?P<tag>[^\s:@]+)@(?P<digest>sha256:[0-9a-f]{64}) AS base$", re.MULTILINE)
"""The one line that names a base outright."""
BASE_ARGUMENT = "--build-arg=BASE_IMAGE="
PIP_SETTINGS = {"pip-ca": "PIP_CERT", "pip-conf": "PIP_CONFIG_FILE"}
"""Build secrets, and the variables that name their files: how pip finds packages on this machine."""


def main() -> int:
    """Build and save the image."""
    parser = argparse.ArgumentParser(prog="python -m tools.image", description="Build the image.")
    parser.add_argument("--tag", default=TAG)
    parser.add_argument("--archive", type=Path, default=ARCHIVE, help="Where to save it for a container runtime.")
    parser.add_argument("--no-cache", action="store_true")
    wanted = parser.parse_args()
    try:
        build(wanted.tag, wanted.archive, no_cache=wanted.no_cache)
    except ImageError as error:
        say(str(error))
        return 1
    return 0


def build(tag: str, archive: Path, *, no_cache: bool = False) -> str:
    """Build the image under a tag, and save it to a file that container runtimes import; gives the base's name."""
    builder = find_builder()
    chosen = bases(builder)
    arguments = [*chosen, f"--build-arg=REVISION={_revision()}", *_secrets(), f"--tag={tag}"]
    arguments += ["--no-cache"] if no_cache else []
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)
    if builder == "docker":
        run("docker", "build", *arguments, ".")
        run("docker", "save", f"--output={archive}", tag)
    else:
        # chroot: neither a runtime nor rights of one are needed. The time makes equal builds equal.
        run("buildah", "build", "--isolation=chroot", "--format=docker", f"--timestamp={_timestamp()}", *arguments, ".")
        run("buildah", "push", "--quiet", tag, f"docker-archive:{archive}:{tag}")
    return chosen[0].removeprefix(BASE_ARGUMENT) if chosen else default_base()


def find_builder() -> str:
    """Choose Docker if its daemon answers and has or gets the base, else buildah, which can do without a registry.

    BUILDER=buildah chooses buildah although Docker is there.
    """
    answers = os.environ.get("BUILDER") != "buildah" and read("docker", "info", "--format={{.ServerVersion}}")
    if answers and (os.environ.get("BASE_IMAGE") or _at_hand("docker", default_base())):
        return "docker"
    if not available(["buildah"]):
        raise CannotBuildError(
            "neither a running Docker that can pull the base nor buildah is here (`apt-get install buildah`)"
        )
    if (container := read("buildah", "from", "--quiet", "scratch")) is None:
        raise CannotBuildError("buildah cannot keep images here (`buildah from scratch` says why)")
    read("buildah", "rm", container)
    return "buildah"


def bases(builder: str) -> list[str]:
    """Return the build arguments that name the bases; Docker needs none for the Dockerfile's own."""
    if chosen := os.environ.get("BASE_IMAGE"):
        base, build_base = chosen, os.environ.get("BUILD_IMAGE", chosen)
    elif builder == "docker":
        return []
    elif _at_hand(builder, default_base()):
        # By its own name: older buildahs take an argument's value for an image, never for a stage.
        base = build_base = default_base()
    else:
        say(f"{default_base()} cannot be pulled")
        base, build_base = offline_bases()
    return [f"{BASE_ARGUMENT}{base}", f"--build-arg=BUILD_IMAGE={build_base}"]


def default_base() -> str:
    """Read the Dockerfile's own base, by its digest alone: not every tool takes a tag together with one."""
    found = BASE.search((CHECKOUT / "Dockerfile").read_text())
    if found is None:
        raise ImageError("the Dockerfile has no line of the form: FROM NAME:TAG@DIGEST AS base")
    return f"{found['name']}@{found['digest']}"


def _at_hand(builder: str, image: str) -> bool:
    """Whether the builder has the image or can get it."""
    if read(builder, "inspect", "--type=image", image) is not None:
        return True
    say(f"pulling {image}")
    return read(builder, "pull", "--quiet", image) is not None


def _secrets() -> list[str]:
    """Pass on how this machine reaches its package index, where that takes more than a default."""
    files = {name: os.environ.get(variable, "") for name, variable in PIP_SETTINGS.items()}
    return [f"--secret=id={name},src={file}" for name, file in files.items() if file and Path(file).is_file()]


def _revision() -> str:
    return read("git", "rev-parse", "HEAD") or "unknown"


def _timestamp() -> str:
    """Return the time that all files and the image get: the commit's, so that one commit makes one image."""
    return os.environ.get("SOURCE_DATE_EPOCH") or read("git", "log", "-1", "--format=%ct") or "0"


if __name__ == "__main__":
    sys.exit(main())
