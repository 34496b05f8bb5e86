"""``python -m devcluster.operator``: run the simulated operator as its pod would.

It becomes Ready as a process at once, long before it has read anything, as the real one does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal

from devcluster.client import Api
from devcluster.operator.cluster import ClusterController
from devcluster.operator.drivers import DriverController
from devcluster.operator.lease import Lease
from devcluster.operator.policy import PolicyController
from devcluster.operator.rotation import RotationController
from devcluster.operator.settings import Settings
from devcluster.operator.world import World

log = logging.getLogger("devcluster.operator")


async def operate(settings: Settings, stop: asyncio.Event) -> None:
    """Stand for election and lead until told to stop; an operator that lingers goes on after that."""
    async with Api.from_service_account(settings.service_account_dir, settings.server) as api:
        lease = Lease(api, settings.namespace, settings.pod, settings.lease)
        work = asyncio.create_task(_work(api, lease, settings))
        told = asyncio.create_task(stop.wait())
        await asyncio.wait([work, told], return_when=asyncio.FIRST_COMPLETED)
        if settings.lingers and not work.done():
            log.info("told to stop, lingering for %g s", settings.handover)
            await asyncio.wait([work], timeout=settings.handover)
        work.cancel()
        told.cancel()
        await asyncio.wait([work, told])
        await lease.release()
        if not work.cancelled():
            work.result()


async def _work(api: Api, lease: Lease, settings: Settings) -> None:
    """Be elected, then watch, reconcile and renew; the first of these to fail ends the process."""
    await lease.acquire()
    log.info("leading as %s", lease.identity)
    world = World(settings.namespace)
    async with asyncio.TaskGroup() as group:
        group.create_task(lease.keep())
        group.create_task(world.follow(api))
        await world.wait_for_sync()
        group.create_task(PolicyController(api, world, settings).run())
        group.create_task(DriverController(api, world, settings).run())
        group.create_task(ClusterController(api, world, settings).run())
        group.create_task(RotationController(api, world, settings).run())


async def _main() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await operate(Settings.from_environment(os.environ), stop)


def main() -> None:
    """Start."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_main())


if __name__ == "__main__":
    main()
