"""The loop of every controller: reconcile when something changed, and now and then."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from devcluster.controller.objects import TROUBLE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

log = logging.getLogger(__name__)


async def keep_reconciling(
    changed: asyncio.Event, reconcile: Callable[[], Coroutine[Any, Any, None]], pause: float
) -> None:
    """Reconcile without an end; what a request ends with is met by looking again, after `pause` seconds at most."""
    while True:
        changed.clear()
        try:
            await reconcile()
        except TROUBLE as error:
            log.warning("%s: %r", reconcile.__qualname__, error)
        try:
            await asyncio.wait_for(changed.wait(), pause)
        except TimeoutError:
            continue
