"""As much of an API server as a controller needs while there is nothing to protect: one Lease, and empty lists."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from hook.kube.election import LeaderElectionConfig, LeaderElector
from tests.client.server import EMPTY, GRANTED, Said, Server, refused, serving, told, until

NAMESPACE, NAME = "gpu-operator", "post"
PATH: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


class Leases:
    """Keeps the Lease as an API server does: versions, preconditions, merge patches."""

    def __init__(self) -> None:
        """Begin without one."""
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.instead: Callable[[str], Said | None] = lambda _line: None
        """Answers in place of the truth, where it gives an answer."""

    @property
    def holder(self) -> str:
        """Who holds it."""
        return str(self.lease["spec"].get("holderIdentity", "")) if self.lease else ""

    def change(self, change: dict[str, Any]) -> None:
        """Change it as another client does."""
        assert self.lease is not None
        self._keep(_merged(self.lease, change))

    def answer(self, line: str) -> Said:
        """Answer what has no body."""
        if (instead := self.instead(line)) is not None:
            return instead
        if f"{PATH}/{NAME}" in line:
            return told(**self.lease) if self.lease else refused(404)
        return Said(200) if "watch=true" in line else EMPTY

    def wrote(self, line: str, body: bytes) -> Said:
        """Answer what has one."""
        if (instead := self.instead(line)) is not None:
            return instead
        said = json.loads(body)
        if line == f"POST {PATH}":
            return self._keep(said) if self.lease is None else refused(409)
        if line != f"PATCH {PATH}/{NAME}":
            return GRANTED
        if self.lease is None:
            return refused(404)
        now = str(self.version)
        return self._keep(_merged(self.lease, said)) if said["metadata"]["resourceVersion"] == now else refused(409)

    def _keep(self, lease: dict[str, Any]) -> Said:
        self.version += 1
        self.lease = _merged(lease, {"metadata": {"resourceVersion": str(self.version)}})
        return told(**self.lease)


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Merge as RFC 7396 says, for what is patched here."""
    both = {**old, **new}
    return {
        key: _merged(old.get(key) or {}, value) if isinstance(value, dict) else value for key, value in both.items()
    }


@contextlib.contextmanager
def keeping() -> Iterator[tuple[Leases, Server]]:
    """Serve them."""
    leases = Leases()
    with serving(leases.answer, leases.wrote) as server:
        yield leases, server


def held(server: Server, retry_period: float = 300) -> LeaderElector:
    """Hold the Lease for as long as a test may take. It was renewed once, and is renewed again after the period."""
    tries: list[str] = []
    config = LeaderElectionConfig(NAMESPACE, NAME, "a", 900, 600, retry_period)
    lease = LeaderElector(server.api, config, tries.append)
    lease.start()
    until(lambda: len(tries) > 1 and lease.leading, "it leads and has renewed once")
    return lease
