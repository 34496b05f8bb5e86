"""The ServiceAccount directory of a pod: its token is replaced whole, and before it expires."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from devcluster.access import Access
from devcluster.client import Api, Object
from devcluster.podrunner import account
from tests.simulator.ground import pod

EXPIRES: Final = datetime(2100, 1, 1, tzinfo=UTC)


class Issuing(Api):
    """An API server that issues one token after the other, and keeps what it was asked for."""

    def __init__(self) -> None:
        super().__init__(Access("", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)))
        self.asked: list[Object] = []
        self._tokens: Iterator[str] = iter(["a-long-first-token", "second"])

    async def create(self, url_path: str, body: Object, **params: str) -> Object:  # noqa: ARG002 - as its base has it
        """Issue the next token."""
        assert url_path == "/api/v1/namespaces/dra/serviceaccounts/runner/token"
        self.asked.append(body["spec"])
        return {"status": {"token": next(self._tokens), "expirationTimestamp": EXPIRES.isoformat()}}


def runner(**source: Any) -> Object:  # noqa: ANN401 - as a projected volume has it
    """Make a pod that asks for a token."""
    made = pod("p", "main")
    volume = {"projected": {"sources": [{"serviceAccountToken": source}]}}
    made["spec"] |= {"serviceAccountName": "runner", "volumes": [volume]}
    return made


def test_a_token_is_replaced_whole(tmp_path: Path) -> None:
    """A program that reads it meanwhile has the old one, never a part; only its owner may read it."""
    api, token = Issuing(), tmp_path / "token"
    asyncio.run(account.write(api, runner(path="token"), "authority", tmp_path))
    with token.open() as reading:
        asyncio.run(account.write(api, runner(path="token"), "authority", tmp_path))
        assert (reading.read(), token.read_text()) == ("a-long-first-token", "second")
    assert token.stat().st_mode & 0o077 == 0
    assert {each.name for each in tmp_path.iterdir()} == {"token", "ca.crt", "namespace"}


def test_a_token_is_the_pods_and_replaced_in_time(tmp_path: Path) -> None:
    """It is bound to the pod, lives as long as its volume asks, and is renewed after four fifths of that."""
    api = Issuing()
    before = datetime.now(UTC)
    renewed = asyncio.run(account.write(api, runner(expirationSeconds=600, audience="me"), "authority", tmp_path))
    earliest, latest = (moment + (EXPIRES - moment) * 0.8 for moment in (before, datetime.now(UTC)))
    assert earliest <= renewed <= latest
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-uid"}
    assert api.asked == [{"expirationSeconds": 600, "boundObjectRef": bound, "audiences": ["me"]}]
