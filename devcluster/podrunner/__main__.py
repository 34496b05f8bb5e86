"""Run the system node: ``python -m devcluster.podrunner --state DIR``."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import click

from devcluster.layout import State
from devcluster.podrunner.images import IMAGES
from devcluster.podrunner.runner import serve


@click.command()
@click.option("--state", type=click.Path(path_type=Path), required=True)
@click.option(
    "--image",
    "more_images",
    multiple=True,
    metavar="NAME=JSON",
    help="One more image: last part of its repository, and a list of arguments for Python.",
)
def main(state: Path, more_images: tuple[str, ...]) -> None:
    """Be a kubelet for the pods of the system node."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    pairs = (image.split("=", 1) for image in more_images)
    asyncio.run(serve(State(state), {**IMAGES, **{name: json.loads(text) for name, text in pairs}}))


if __name__ == "__main__":
    main()
