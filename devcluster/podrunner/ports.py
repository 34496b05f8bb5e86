"""Ports of containers. In a cluster every pod has an address of its own; here all share one, so each port is another.

A port that a container declares is given a free one of this machine. Where the container's arguments or variables
name it as an address without a host (``--listen=:8080``), which means every address of the pod, the free one is put
in its place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from devcluster.boot.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devcluster.client import Object

LOOPBACK: Final = "127.0.0.1"

EVERY_ADDRESS: Final = re.compile(r"((?:.*=)?)(?:0\.0\.0\.0|\[::\])?:(\d+)")
"""A port on all addresses, alone or as the value of a flag."""


def assign(container: Object) -> dict[int, int]:
    """Choose a free port for each one that a container declares."""
    declared = [each["containerPort"] for each in container.get("ports", [])]
    return dict(zip(declared, free_ports(len(declared)), strict=True))


def addressed(text: str, ports: Mapping[int, int]) -> str:
    """Put the machine's port in the place of a container's, where the text is the address of one."""
    found = EVERY_ADDRESS.fullmatch(text)
    if found is None or int(found[2]) not in ports:
        return text
    return f"{found[1]}{LOOPBACK}:{ports[int(found[2])]}"


def number(container: Object, port: int | str) -> int:
    """Return the number of a container's port that something names; a name that it has not is a KeyError."""
    if isinstance(port, int):
        return port
    return int({each.get("name"): each["containerPort"] for each in container.get("ports", [])}[port])
