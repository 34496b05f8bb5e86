"""Which program stands for a container image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devcluster.client import Object


@dataclass(frozen=True, slots=True)
class Program:
    """A Python program."""

    module: str
    """What ``python -m`` runs."""
    imports: str
    """The module that imports the rest of it."""


IMAGES: Final = {
    "gpu-operator-post": Program("hook", "hook.cli"),
    "gpu-operator": Program("devcluster.operator", "devcluster.operator.__main__"),
    "network-operator": Program("devcluster.networkoperator", "devcluster.networkoperator.__main__"),
    "script-job": Program("devcluster.bench.shell", "devcluster.bench.shell"),
}
"""Last part of the image's repository -> its program. Any other image cannot be pulled."""

ACCOUNT: Final = "service-account-dir"
MESSAGE: Final = "termination-log"
MOUNTED: Final[dict[str, dict[str, Sequence[str]]]] = {
    "gpu-operator-post": {
        **dict.fromkeys(("run", "controller"), (ACCOUNT, MESSAGE)),
        "status": (ACCOUNT,),
    }
}
"""Image -> command -> flags that name where a runtime mounts files: here they are elsewhere."""


class UnknownImageError(Exception):
    """No program stands for this image."""


class UnsupportedCommandError(Exception):
    """The container replaces the image's entry point by something that we do not have."""


def repository_name(image: str) -> str:
    """Return the last part of an image's repository, without tag and digest."""
    return image.partition("@")[0].rsplit("/", 1)[-1].partition(":")[0]


def entry_point(container: Object) -> tuple[Program, list[str]]:
    """Return the program of a container's image, and what its command has in addition to the entry point."""
    name = repository_name(container["image"])
    if name not in IMAGES:
        raise UnknownImageError(f'no program stands for image "{container["image"]}"')
    command = container.get("command") or [name]
    if command[0].rsplit("/", 1)[-1] != name:
        raise UnsupportedCommandError(f'exec: "{command[0]}": only the image\'s own entry point can be run')
    return IMAGES[name], command[1:]
