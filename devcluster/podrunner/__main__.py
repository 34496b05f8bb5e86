"""Run the system node: ``python -m devcluster.podrunner --state DIR``."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import click

from devcluster.boot.layout import State
from devcluster.podrunner.runner import serve


@click.command()
@click.option("--state", type=click.Path(path_type=Path), required=True)
def main(state: Path) -> None:
    """Be a kubelet for the pods of the system node."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(serve(State(state)))


if __name__ == "__main__":
    main()
