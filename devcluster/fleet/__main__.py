"""``python -m devcluster.fleet --state DIR``: simulate the GPU nodes of one cluster until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from pathlib import Path

from devcluster.client import Access, Api
from devcluster.fleet.kubelet import Fleet
from devcluster.journal import JOURNAL, Journal


async def simulate(state: Path) -> None:
    """Run the fleet; SIGTERM ends it."""
    with Journal(state / JOURNAL) as journal:
        async with Api(Access.from_kubeconfig(state / "kubeconfig")) as api:
            fleet = asyncio.create_task(Fleet(api, journal).run())
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, fleet.cancel)
            await asyncio.wait([fleet])
            if not fleet.cancelled():
                fleet.result()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.fleet", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="the cluster's state directory")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(simulate(parser.parse_args().state))


if __name__ == "__main__":
    main()
