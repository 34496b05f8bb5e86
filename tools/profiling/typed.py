"""Read a fleet's nodes and pods as the client library's typed models, as a program would that is written with them."""

from __future__ import annotations

from importlib import import_module
from typing import Final

TYPED: Final = "typed models of the same nodes and pods"
READ: Final = "read as typed models"
"""What is said when all is read."""


def read(mount: str) -> None:
    """Read all of them with one call a kind, which is how the library's documentation does it."""
    # By name, because the library has no types: whatever it gives may be anything.
    client = import_module("kubernetes.client")
    loader = import_module("kubernetes.config.incluster_config").InClusterConfigLoader
    loader(token_filename=f"{mount}/token", cert_filename=f"{mount}/ca.crt").load_and_set()
    core = client.CoreV1Api()
    found = [*core.list_node().items, *core.list_pod_for_all_namespaces().items]
    print(f"{len(found)} objects {READ}")  # noqa: T201 - shows that the script came to its end
