"""The operator's environment: who it is, and how it is to behave (`simulate` in its chart's values)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from devcluster.controller.settings import OperatorSettings, common

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Settings(OperatorSettings):
    """Times are seconds; the chart's values.yaml explains each."""

    wait_delay: float = 0.0
    precompiled: bool = False

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Settings:
        """Read the environment of the chart's Deployment and of `devcluster.pods`."""
        return cls(
            **common(env),
            wait_delay=float(env["SIMULATE_WAIT_LABEL_SECONDS"]),
            precompiled=env["SIMULATE_PRECOMPILED"] == "true",
        )
