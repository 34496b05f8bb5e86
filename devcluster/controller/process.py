"""The process of an operator: told by its environment who it is, it stands for election, leads, and ends when told to.

It becomes Ready as a process at once, long before it has read anything, as the real ones do. Its upgrade controller is
NVIDIA's own library (`devcluster/tools/upgrade`), which keeps the driver's name in a global variable: each operator
needs a process of its own for it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devcluster.client import Access, Api
from devcluster.controller.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from devcluster.controller.settings import OperatorSettings

    Work = Callable[[Api], Coroutine[Any, Any, None]]


log = logging.getLogger(__name__)


def run(settings: OperatorSettings, lease_name: str, work: Work) -> None:
    """Run an operator until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_operate(settings, lease_name, work))


async def _operate(settings: OperatorSettings, lease_name: str, work: Work) -> None:
    """Lead until the signal to stop, and for as long as it lingers after that."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Api(Access.from_service_account(Path(settings.service_account_dir), settings.server)) as api:
        lease = Lease(api, lease_name, settings)
        leading = asyncio.create_task(_lead(lease, api, work))
        told = asyncio.create_task(stop.wait())
        await asyncio.wait([leading, told], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([leading], timeout=settings.handover_seconds)
        leading.cancel()
        told.cancel()
        await asyncio.wait([leading, told])
        await lease.release()
        if not leading.cancelled():
            leading.result()


async def _lead(lease: Lease, api: Api, work: Work) -> None:
    """Be elected, then work and renew; the first of these to fail ends the process."""
    await lease.acquire()
    log.info("leading as %s", lease.identity)
    async with asyncio.TaskGroup() as group:
        group.create_task(lease.keep())
        group.create_task(work(api))


class UpgradeError(Exception):
    """The upgrade controller ended although nothing told it to."""


async def upgrade(settings: OperatorSettings, driver: str, *, modern: bool) -> None:
    """Run the upgrade controller of one driver until cancelled; a modern one is as in GPU operator 26.7."""
    process = await asyncio.create_subprocess_exec(
        settings.upgrade_program,
        f"--server={settings.server}",
        f"--account={settings.service_account_dir}",
        f"--driver={driver}",
        f"--namespace={settings.namespace}",
        f"--requeue={settings.requeue_seconds}s",
        *(["--modern"] if modern else []),
        stdin=asyncio.subprocess.PIPE,
    )
    try:
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    raise UpgradeError(f"the upgrade controller of {driver} ended with {code}")
