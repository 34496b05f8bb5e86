"""Pods of drivers and plugins, and how long things take with them.

Time is counted in tenths of a second, because what matters hides in the whole seconds that the API shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

SECOND: Final = 10
"""Ticks of the world's clock."""


@dataclass(frozen=True)
class Pace:
    """How many tenths of a second things take."""

    goes: int = 10
    """From a pod's deletion until it is gone."""
    unload: int = 20
    install: int = 40
    """From the driver container's start until the new driver is loaded."""
    notice: int = 30
    """From there until its pod is ready: the start-up probe comes by now and then."""
    poll: int = 10
    """Between two tries of a plugin's init container."""
    begin: int = 10
    """From the end of an init container until the main containers run."""
    rises: int = 10
    """From there until the plugin is ready."""
    renders: int = 50
    """From a change that shows in no version until the operator has rendered it: less than the quiet time."""


class Side(StrEnum):
    """The second container of every driver pod, if there is one (nvidia-peermem, a wait for OFED)."""

    NONE = "none"
    PROBED = "probed"
    """It has a readiness probe: the pod is not ready until the kubelet has probed it again."""
    BARE = "bare"
    """It has none: a restart between two looks of the kubelet moves no condition of the pod."""


@dataclass
class DriverPod:
    """A driver pod; its times are those of its node's kubelet, in whole seconds, as the API shows them."""

    uid: str
    owner: str
    template: tuple[int, ...]
    due: int | None
    """When something happens to it next, by the world's clock."""
    unloaded: int | None = None
    started: int | None = None
    loaded: bool = False
    ready: int | None = None
    ended: int | None = None
    """Of the container's run before."""
    restarts: int = 0
    failing: bool = False
    deleting: bool = False
    changes: int = 1
    began: int = 0
    """When its container started last, by the world's clock."""
    noticed: bool = False
    """The driver container itself is ready; the pod is once its side container is, too."""
    side: Main | None = None
    side_due: int | None = None
    """When the side container is ready again; None while it is."""

    @property
    def version(self) -> int:
        """The driver that it loads."""
        return self.template[0]


@dataclass
class Main:
    """A main container of a plugin."""

    name: str
    started: int | None = None
    load: int | None = None
    version: int = 0
    restarts: int = 0
    ended: int | None = None
    began: int = 0


@dataclass
class PluginPod:
    """A plugin's pod, with the two containers that it really has."""

    uid: str
    due: int | None
    owner: str = ""
    """UID of its DaemonSet; empty for an orphan."""
    born: int = 0
    """When it was made, by the world's clock."""
    waited: int | None = None
    """End of its init container, which ends only while a driver works."""
    waited_at: int | None = None
    """The same by the world's clock."""
    mains: tuple[Main, Main] = field(default_factory=lambda: (Main("compute-domains"), Main("gpus")))
    ready: int | None = None
    ever_ready: bool = False
    deleting: bool = False
    changes: int = 1

    @property
    def running(self) -> bool:
        """Whether all of its containers run."""
        return all(main.started is not None for main in self.mains)
