"""Evaluate whether a plugin pod runs on the driver that is loaded now.

The API does not show when a driver was loaded. It shows when the driver container started (D) and when its pod's
containers became ready (R). The driver was loaded in between. R is the ``ContainersReady`` transition, not ``Ready``,
which the node controller also changes when a node is lost. Either of two proofs makes a plugin fresh:

* by start-up: its init container, which waits for a working driver, finished after D, and the old driver was unmounted
  before D;
* by time: every main container started after R.

Two more proofs compare no times. They hold for one *load*: one run of the driver, known by the UID of its pod and the
number of restarts of its container:

* by memory: the pod was proven fresh under this load before;
* by cause: the pod came after this program's own restart under this load.

Without a proof, a plugin is stale.

If the settings name a prerequisite, every main container must also have started after that (``moments.py``).

All times of one node come from one kubelet, in whole seconds. Equal times prove nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hook.decide.moments import not_started_after

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hook.decide.moments import Moment
    from hook.objects import Container, Pod
    from hook.objects.stacks import PluginKind, Stack

CRASH_LOOP_RESTARTS: Final = 2
"""Restarts from which on a container crash-loops: the kubelet backs off (K8S ``pkg/kubelet/kubelet.go``)."""


LONGEST_CREATION: Final = timedelta(seconds=10)
"""Time from the end of the init containers to the start of the driver container, whose image is on the node. A driver
container takes longer than that to load and mount a driver."""


class Freshness(StrEnum):
    """Freshness of one plugin pod."""

    FRESH = "Fresh"
    STALE = "Stale"
    STARTING = "Starting"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A freshness with the observation that shows it."""

    freshness: Freshness
    because: str = ""
    """Empty if the pod is fresh: then there is nothing to explain."""


def evaluate(plugin: Pod, kind: PluginKind, driver: Pod, stack: Stack, moments: Sequence[Moment] = ()) -> Evidence:
    """Return the freshness of a plugin on its node's ready driver, and after these moments."""
    starts = [container.started_at for container in plugin.containers if container.started_at is not None]
    ready = driver.containers_ready_since
    if moments and (old := not_started_after(plugin, moments)):
        return Evidence(Freshness.STALE, old)
    if old := _older_than_driver(plugin, driver, stack):
        return Evidence(Freshness.STALE, old)
    if pending := _not_running(plugin):
        return Evidence(Freshness.STARTING, pending)
    if _saw_this_driver(plugin, kind, driver, stack) or started_after(plugin, ready):
        return Evidence(Freshness.FRESH)
    return Evidence(Freshness.STALE, _why_stale(min(starts), ready))


def running(plugin: Pod) -> Evidence:
    """Return the freshness of a plugin that is proven to run on this load of the driver: it only needs to run.

    The times of the driver pod may change later: a side container that crashes moves R. The proof holds until the
    driver container restarts.
    """
    if pending := _not_running(plugin):
        return Evidence(Freshness.STARTING, pending)
    return Evidence(Freshness.FRESH)


def started_after(plugin: Pod, moment: datetime | None) -> bool:
    """Return whether every main container started after a moment. The same second proves nothing."""
    starts = [container.started_at for container in plugin.containers]
    return moment is not None and all(start is not None and start > moment for start in starts)


def keeps_crashing(driver: Pod, stack: Stack) -> bool:
    """Return whether the driver container crash-loops. After a reboot, its restarts do not count.

    A reboot runs the init containers again, a crash does not.
    """
    container = _named(driver.containers, stack.driver.container)
    if container is None or container.restarts < CRASH_LOOP_RESTARTS or container.last_finished_at is None:
        return False
    ends = [each.finished_at for each in driver.init_containers if each.succeeded and each.finished_at is not None]
    return bool(ends) and max(ends) <= container.last_finished_at


def ready_since(pod: Pod, container: str) -> datetime | None:
    """Return R, when a driver became ready, or None if R belongs to an earlier run of its container.

    R belongs to an earlier run if `container`, the driver container, started after it. A side container that restarts
    quickly may not move R, and the driver stays loaded.
    """
    since = pod.containers_ready_since
    mains = _mains(pod, container)
    if since is None or any(main.started_at is not None and main.started_at > since for main in mains):
        return None
    return since


def _mains(driver: Pod, container: str) -> Sequence[Container]:
    """Return the containers that may load a driver: the one of that name, or all if there is none."""
    return [main for main in driver.containers if main.name == container] or driver.containers


def driver_started(driver: Pod, stack: Stack) -> datetime | None:
    """Return D, the start of the driver container's current run."""
    container = _named(driver.containers, stack.driver.container)
    return container.started_at if container is not None else None


def load_of(driver: Pod, stack: Stack) -> str:
    """Return an identifier of the load of a driver that depends on no clock: its pod and its container's restarts."""
    return f"{driver.uid}/{sum(main.restarts for main in _mains(driver, stack.driver.container))}"


def _older_than_driver(plugin: Pod, driver: Pod, stack: Stack) -> str:
    """Return which container of the plugin started before the driver container, or ""."""
    started = driver_started(driver, stack)
    if started is None:
        return ""
    for container in plugin.containers:
        if container.started_at is not None and container.started_at <= started:
            seconds = int((started - container.started_at).total_seconds())
            when = f"{seconds} s before" if seconds else "in the same second as"
            return f"its container {container.name} started {when} this driver's container"
    return ""


def _saw_this_driver(plugin: Pod, kind: PluginKind, driver: Pod, stack: Stack) -> bool:
    started = driver_started(driver, stack)
    waiter = _named(plugin.init_containers, kind.waiter)
    if started is None or waiter is None or not waiter.succeeded or waiter.finished_at is None:
        return False
    return waiter.finished_at > started and _unloaded_before_start(driver, stack)


def _unloaded_before_start(driver: Pod, stack: Stack) -> bool:
    """Return whether the old driver was unmounted at D: the unloader finished after the container's previous run.

    After a crash the init containers do not run again, and the old driver root may still be mounted.
    """
    unloader = _named(driver.init_containers, stack.driver.unloader)
    container = _named(driver.containers, stack.driver.container)
    if unloader is None or container is None or not unloader.succeeded or unloader.finished_at is None:
        return False
    if container.last_finished_at is None:
        return container.restarts == 0 or _ran_again(unloader, container)
    return unloader.finished_at > container.last_finished_at


def _ran_again(unloader: Container, container: Container) -> bool:
    """Return whether the unloader ran again right before the driver container's current run, as after a reboot.

    The end of the previous run does not show it if the container runtime has lost that run. A crash leaves at least the
    time between them that the crashed run took, and a shorter one has mounted nothing.
    """
    ended, started = unloader.finished_at, container.started_at
    if ended is None or started is None or not unloader.restarts:
        return False
    return timedelta() <= started - ended <= LONGEST_CREATION


def _not_running(plugin: Pod) -> str:
    """Return what the start of a plugin still waits for, or "" if all main containers run."""
    if plugin.unscheduled:
        return f"it is not scheduled: {plugin.unscheduled}"
    if not plugin.containers:
        return "it has no containers yet"
    pending = next((container for container in plugin.containers if container.started_at is None), None)
    if pending is None:
        return ""
    initialising = next((container for container in plugin.init_containers if not container.succeeded), None)
    if initialising is None:
        return f"its container {pending.name} is not running ({pending.waiting or 'terminated'})"
    if initialising.started_at is not None:
        return f"its init container {initialising.name} is still waiting for a working driver"
    return f"its init container {initialising.name} is not running ({initialising.waiting or 'terminated'})"


def _why_stale(started: datetime, ready: datetime | None) -> str:
    if ready is None:
        return "its node's driver has no ready time to compare with"
    seconds = int((ready - started).total_seconds())
    if seconds == 0:
        return "it started in the same second in which this driver became ready"
    return f"it started {seconds} s before this driver was ready"


def _named(containers: tuple[Container, ...], name: str) -> Container | None:
    return next((container for container in containers if container.name == name), None)
