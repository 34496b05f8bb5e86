"""List, then watch, without an end: the loop that every controller needs, written once."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import aiohttp

from devcluster.access import ApiError, Object, decode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from devcluster.client import Api

Kind = Literal["ADDED", "MODIFIED", "DELETED", "SYNCED"]

WATCH_SECONDS = 300
"""The server ends a watch after this long, which bounds the harm of a silently dead connection."""

SILENCE_SECONDS = WATCH_SECONDS + 15
"""A connection that outlives the server's own limit by this much is dead."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 3.0
"""Backoff between attempts: short, because the only server we talk to is on this machine."""

GONE = 410
"""The resourceVersion is too old to watch from: list again."""

HOPELESS = frozenset({400, 401, 403, 404, 405, 422})
"""Refusals that another attempt does not change."""


@dataclass(frozen=True, slots=True)
class Event:
    """One change of a collection. A SYNCED event, without an object, ends each list."""

    kind: Kind
    object: Object


async def follow(api: Api, url_path: str, **selectors: str) -> AsyncIterator[Event]:
    """Yield all objects as ADDED, one SYNCED, then every change; after a gap, what the gap hid.

    A relist reports objects that vanished meanwhile as DELETED and those that changed as
    MODIFIED, so that a consumer's picture stays whole without knowing about gaps.
    Broken connections, expired versions and an overloaded or restarting server are
    survived; `ApiError` is raised for refusals that another attempt does not change.
    """
    known: dict[str, Object] = {}
    pause = FIRST_PAUSE
    version = ""
    while True:
        try:
            if not version:
                items, version = await api.list_at(url_path, **selectors)
                for event in _differences(known, items):
                    yield event
            async for event in _watch_once(api, url_path, selectors, version):
                version = event.object["metadata"]["resourceVersion"]
                pause = FIRST_PAUSE
                if event.kind != "SYNCED":  # a bookmark only moves the version
                    _remember(known, event)
                    yield event
        except ApiError as error:
            if error.code in HOPELESS:
                raise
            if error.code == GONE:
                version = ""
        except (aiohttp.ClientError, TimeoutError, OSError):
            pass  # the server is restarting or the connection broke: try again below
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, LONGEST_PAUSE)


async def _watch_once(api: Api, url_path: str, selectors: Mapping[str, str], version: str) -> AsyncIterator[Event]:
    """Watch from a version until the server ends the stream. Bookmarks come out as SYNCED."""
    params = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(WATCH_SECONDS),
        **selectors,
    }
    limit = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=SILENCE_SECONDS)
    async with api.session.get(
        api.access.server + url_path, params=params, headers=api.access.headers(), timeout=limit
    ) as response:
        if response.status >= 400:  # noqa: PLR2004 - the first HTTP status that means failure
            decode(response.status, await response.text())
        async for line in _lines(response.content):
            event = json.loads(line)
            if event["type"] == "ERROR":
                status = event["object"]
                raise ApiError(status.get("code", 500), status.get("reason", ""), status.get("message", ""))
            kind: Kind = "SYNCED" if event["type"] == "BOOKMARK" else event["type"]
            yield Event(kind, event["object"])


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Split a stream into lines of any length; aiohttp's own reader limits them."""
    rest = bytearray()
    async for chunk in stream.iter_any():
        rest += chunk
        *whole, last = rest.split(b"\n")
        for line in whole:
            yield bytes(line)
        rest = last


def _differences(known: dict[str, Object], items: list[Object]) -> list[Event]:
    """Compare a fresh list with what was known, bring the knowledge up to date and say what changed."""
    fresh = {item["metadata"]["uid"]: item for item in items}
    events = [Event("DELETED", known[uid]) for uid in known if uid not in fresh]
    for uid, item in fresh.items():
        if uid not in known:
            events.append(Event("ADDED", item))
        elif known[uid]["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            events.append(Event("MODIFIED", item))
    known.clear()
    known.update(fresh)
    return [*events, Event("SYNCED", {})]


def _remember(known: dict[str, Object], event: Event) -> None:
    """Keep the last state of each object, by UID."""
    uid = event.object["metadata"]["uid"]
    if event.kind == "DELETED":
        known.pop(uid, None)
    else:
        known[uid] = event.object
