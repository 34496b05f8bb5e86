"""The operator's environment: who it is, and how it is to behave (`simulate` in its chart's values)."""

from __future__ import annotations

from devcluster.controller.settings import OperatorSettings


class Settings(OperatorSettings, frozen=True, kw_only=True, rename="camel"):
    """The GPU operator's own."""

    behaviour: str
    replace_seconds: float
    digest_salt: str
    broken_operand: bool
    openshift: bool
    """Whether drivers are built with the driver toolkit of the nodes' system."""
    driver_image: str
    """The driver's image where an object names no version, as the operator lifecycle manager gives it."""
    loaded_version: str
    """What is loaded from an image that is given by its digest."""

    @property
    def is_modern(self) -> bool:
        """Whether this operator behaves as 26.7: it labels nodes with their NVIDIADriver, and waits for all of them."""
        return self.behaviour == "26.7"

    @property
    def chart(self) -> str:
        """What the chart's label says of a policy that this operator's own chart made."""
        return f"gpu-operator-{self.version}"
