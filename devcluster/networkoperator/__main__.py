"""``python -m devcluster.networkoperator``: run the simulated operator as its pod would."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from devcluster.controller.process import run, upgrade
from devcluster.networkoperator.names import LEASE
from devcluster.networkoperator.policy import PolicyController
from devcluster.networkoperator.settings import Settings
from devcluster.networkoperator.world import World

if TYPE_CHECKING:
    from devcluster.client import Api


def main() -> None:
    """Start."""
    settings = Settings.from_environment(os.environ)

    async def work(api: Api) -> None:
        """Watch and reconcile."""
        world = World(settings.namespace)
        async with asyncio.TaskGroup() as group:
            group.create_task(world.follow(api))
            await world.wait_for_sync()
            group.create_task(PolicyController(api, world, settings).run())
            group.create_task(upgrade(settings, "ofed"))

    run(settings, LEASE, work)


if __name__ == "__main__":
    main()
