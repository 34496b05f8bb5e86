"""``python -m devcluster.networkoperator``: run the simulated operator as its pod would."""

from __future__ import annotations

import os

from devcluster.controller.process import run
from devcluster.controller.settings import OperatorSettings
from devcluster.networkoperator.operator import NetworkOperator

LEASE = "12620820.mellanox.com"
"""The real operator's LeaderElectionID."""


def main() -> None:
    """Start."""
    settings = OperatorSettings.from_environment(os.environ)
    run(settings, LEASE, lambda api: NetworkOperator(api, settings).run())


if __name__ == "__main__":
    main()
