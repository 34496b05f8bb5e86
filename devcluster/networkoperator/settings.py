"""The operator's environment: who it is, and how it is to behave (`simulate` in its chart's values)."""

from __future__ import annotations

from devcluster.controller.settings import OperatorSettings


class Settings(OperatorSettings, frozen=True, kw_only=True, rename="camel"):
    """The network operator's own."""

    wait_label_seconds: float
    precompiled: bool
