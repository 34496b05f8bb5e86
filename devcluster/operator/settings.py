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

    behaviour: str = "26.3"
    replace_gap: float = 3.0
    digest_salt: str = ""
    broken_operand: bool = False
    openshift: bool = False
    """Whether drivers are built with the driver toolkit of the nodes' system."""
    driver_image: str = ""
    """The driver's image where an object names no version, as the operator lifecycle manager gives it."""
    loaded_version: str = ""
    """What is loaded from an image that is given by its digest."""

    @property
    def is_modern(self) -> bool:
        """Whether this operator behaves as 26.7: it labels nodes with their NVIDIADriver, and waits for all of them."""
        return self.behaviour == "26.7"

    @property
    def chart(self) -> str:
        """What the chart's label says of a policy that this operator's own chart made."""
        return f"gpu-operator-{self.version}"

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Settings:
        """Read the environment of the chart's Deployment and of `devcluster.pods`."""
        return cls(
            **common(env),
            behaviour=env["SIMULATE_BEHAVIOUR"],
            replace_gap=float(env["SIMULATE_REPLACE_SECONDS"]),
            digest_salt=env.get("SIMULATE_DIGEST_SALT", ""),
            broken_operand=env["SIMULATE_BROKEN_OPERAND"] == "true",
            openshift=env.get("SIMULATE_OPENSHIFT") == "true",
            driver_image=env.get("DRIVER_IMAGE", ""),
            loaded_version=env.get("SIMULATE_LOADED_VERSION", ""),
        )
