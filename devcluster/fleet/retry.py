"""Write until the API server has taken it, as kubelets and plugins do: a control plane may be down for a while."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, TypeVar

import aiohttp

from devcluster.client import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.5
"""A kubelet repeats a status that the API server did not take."""
THROTTLED, SERVER_ERRORS = 429, 500


async def retry(write: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Repeat a request while the server cannot be reached; what it refuses is raised."""
    while True:
        try:
            return await write()
        except ApiError as error:
            if error.code != THROTTLED and error.code < SERVER_ERRORS:
                raise
            log.warning("trying again: %s", error)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.warning("trying again: %r", error)
        await asyncio.sleep(RETRY_SECONDS)
