"""Where a release's chart comes from, and what it is: a name, a version, a state of its files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bundler.documents import parse
from bundler.recipe import DRA

if TYPE_CHECKING:
    from bundler.documents import Mapping

KNOWN_PLUGINS: Final = (DRA, "dra-driver-nvidia-gpu")
"""Names that the DRA driver's chart gives its DaemonSets by itself, or that AICR gives them. Others must be told."""
DIGITS: Final = 12
"""Of a SHA-256: enough to tell one state of a release from the one before it."""


@dataclass(frozen=True, slots=True)
class Remote:
    """A chart in a repository."""

    repository: str
    name: str
    version: str

    @property
    def registry(self) -> str:
        """The OCI registry and path without their scheme, or nothing."""
        return self.repository.removeprefix("oci://") if self.repository.startswith("oci://") else ""


@dataclass(frozen=True, slots=True)
class Copied:
    """A chart whose files become part of the bundle."""

    files: dict[str, bytes]


Chart = Remote | Copied


def chart_name(chart: Chart) -> str:
    """Give a chart's name, which is also the first part of its objects' names."""
    return chart.name if isinstance(chart, Remote) else str(about(chart, "Chart.yaml").get("name"))


def about(chart: Copied, name: str) -> Mapping:
    """Read what a copied chart says of itself."""
    return parse(chart.files.get("Chart.yaml", b"").decode(errors="replace"), name)


def fingerprint(chart: Chart, values: Mapping) -> str:
    """Tell one state of a release from another."""
    state = hashlib.sha256()
    for part in (identity(chart), values):
        state.update(json.dumps(part, sort_keys=True).encode())
    return state.hexdigest()[:DIGITS]


def identity(chart: Chart) -> Mapping:
    """Name what a chart is."""
    if isinstance(chart, Remote):
        return {"repository": chart.repository, "name": chart.name, "version": chart.version}
    return {name: hashlib.sha256(content).hexdigest() for name, content in chart.files.items()}
