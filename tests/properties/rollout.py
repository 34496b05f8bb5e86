"""What is rolled out: an operator, and the driver's DaemonSet that it renders."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from tests.properties.pods import SECOND, Side


class Stage(IntEnum):
    """How far the rollout of a new operator is."""

    LEADS = 0
    ROLLS = 1
    """Its Deployment was changed; the old one still leads, and may render once more."""
    STARTED = 2
    """The old one is gone, but its lease is not."""


class Image(StrEnum):
    """What an admission webhook makes of the driver's image: a pattern for the reference that was rendered."""

    AS_RENDERED = "nvcr.io/nvidia/driver:{tag}"
    MIRRORED = "mirror.example.com/nvidia/driver:{tag}"
    CACHED = "mirror.example.com/nvcr.io/nvidia/driver:{tag}"
    PINNED = "nvcr.io/nvidia/driver:{tag}@sha256:{digest}"
    MIRRORED_AND_PINNED = "mirror.example.com/nvidia/driver:{tag}@sha256:{digest}"


@dataclass(frozen=True)
class Site:
    """What sets one cluster apart from others."""

    side: Side = Side.NONE
    image: Image = Image.AS_RENDERED
    touched: int = 0
    """How many tenths of a second lie between two writes to the policy's metadata; zero: there are none."""


@dataclass
class PluginSet:
    """The plugin's DaemonSet, and what its controller has seen of it."""

    uid: str
    observed: int = 0
    wanted: int = 0
    adopts: bool = True
    """Its controller takes over orphans; else it makes its own pods next to them."""
    made: int = -1
    """When it was made, by the world's clock; the first one was there before."""


@dataclass
class DriverSet:
    """The driver DaemonSet: what it asks for, and what its controller has seen of it."""

    uid: str
    template: tuple[int, ...]
    """Driver version, settings and operator that it was rendered from."""
    rolling: bool = False
    """Its controller replaces outdated pods by itself (``updateStrategy: RollingUpdate``)."""
    generation: int = 1
    observed: int = 0
    desired: int = 0
    revisions: dict[tuple[int, ...], tuple[int, int]] = field(default_factory=dict)
    """By template: its number, and the second in which it was first made."""

    def observe(self, now: int) -> None:
        """Make the revision of what is asked for; one that was there before is taken up again."""
        if self.observed != self.generation:
            self.observed = self.generation
            newest = max((number for number, _made in self.revisions.values()), default=0)
            _number, made = self.revisions.get(self.template, (0, now // SECOND))
            self.revisions[self.template] = (newest + 1, made)
