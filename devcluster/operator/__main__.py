"""``python -m devcluster.operator``: run the simulated operator as its pod would."""

from __future__ import annotations

import os

from devcluster.controller.process import run
from devcluster.operator.names import LEASE
from devcluster.operator.operator import GpuOperator, Settings


def main() -> None:
    """Start."""
    settings = Settings.from_environment(os.environ)
    run(settings, LEASE, lambda api: GpuOperator(api, settings).run())


if __name__ == "__main__":
    main()
