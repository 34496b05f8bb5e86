"""The upgrade controller: NVIDIA's own library, in a process of its own (`devcluster/tools/upgrade`).

The library keeps the driver's name in a global variable, so each operator needs its own process.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devcluster.controller.settings import OperatorSettings

log = logging.getLogger(__name__)


class UpgradeError(Exception):
    """The upgrade controller ended although nothing told it to."""


async def upgrade(settings: OperatorSettings, driver: str, *, modern: bool = False) -> None:
    """Run the upgrade controller of one driver until cancelled; a modern one is as in GPU operator 26.7."""
    process = await asyncio.create_subprocess_exec(
        *arguments(settings, driver, modern=modern), stdin=asyncio.subprocess.PIPE
    )
    try:
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    raise UpgradeError(f"the upgrade controller of {driver} ended with {code}")


def arguments(settings: OperatorSettings, driver: str, *, modern: bool) -> list[str]:
    """Return the command that upgrades a driver's nodes as the policies in the cluster ask."""
    return [
        settings.upgrade_program,
        f"--server={settings.server}",
        f"--account={settings.service_account_dir}",
        f"--driver={driver}",
        f"--namespace={settings.namespace}",
        f"--requeue={settings.requeue}s",
        *(["--modern"] if modern else []),
    ]
