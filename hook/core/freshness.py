"""Judge whether a consumer pod runs on the driver that is loaded now.

The API never says when a driver was loaded. It lies between the start of the driver container (D)
and the ``ContainersReady`` transition of its pod (R; not ``Ready``, which the node controller moves
when a node is lost). Either of two proofs makes a consumer fresh; doubt is stale:

* by start-up: its init container, which waits for a working driver, finished after D, and nothing
  old was still mounted at D;
* by time: every main container started after R.

Whoever asks for it lets a provider beside the driver (the container toolkit) count as well: then every
main container must also have started after the provider's own ``ContainersReady`` transition.

All times of one node come from one kubelet, in whole seconds: equality proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hook.core.verdicts import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hook.core.stack import ConsumerKind, Stack
    from hook.objects.views import Container, Pod


CRASH_LOOP_RESTARTS: Final = 2
"""From the second restart on the kubelet backs off (K8S ``pkg/kubelet/kubelet.go``)."""


class Freshness(StrEnum):
    """What can be said about one consumer pod."""

    FRESH = "Fresh"
    STALE = "Stale"
    STARTING = "Starting"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A freshness with the observation behind it."""

    freshness: Freshness
    because: str
    same_second: bool = False
    """Stale, but it started in the second in which the driver became ready: nobody can tell by times."""
    provider: bool = False
    """Stale, because of what it must have started after beside the driver."""

    @property
    def cause(self) -> Cause:
        """Say in a word what a stale pod did not start after."""
        if self.provider:
            return Cause.PROVIDER
        return Cause.DOUBT if self.same_second else Cause.DRIVER


def judge(consumer: Pod, kind: ConsumerKind, driver: Pod, stack: Stack, providers: Sequence[Pod] = ()) -> Evidence:
    """Compare a consumer with the ready driver pod, and provider pods, of its node."""
    starts = [one.started_at for one in consumer.containers if one.started_at is not None]
    ready = driver.containers_ready_since
    if old := _older_than_provider(consumer, providers):
        return Evidence(Freshness.STALE, old, provider=True)
    if old := _older_than_driver(consumer, kind, driver, stack):
        # A driver that was loaded quickly is ready in the very second in which its container started.
        return Evidence(Freshness.STALE, old, same_second=min(starts) == ready)
    if pending := _not_running(consumer):
        return Evidence(Freshness.STARTING, pending)
    if _saw_this_driver(consumer, kind, driver, stack):
        return Evidence(Freshness.FRESH, "it waited for this driver before it started")
    started = min(starts)
    if ready is not None and started > ready:
        return Evidence(Freshness.FRESH, "it started after this driver was ready")
    return Evidence(Freshness.STALE, _why_stale(started, ready), same_second=started == ready)


def running(consumer: Pod) -> Evidence:
    """Return what is left to ask of a consumer that was proven fresh under this very run of the driver.

    Times of the driver's pod may move since: a side container that crashes moves R. The proof holds until the driver
    container runs anew.
    """
    if pending := _not_running(consumer):
        return Evidence(Freshness.STARTING, pending)
    return Evidence(Freshness.FRESH, "it was proven to run on this driver before")


def keeps_crashing(driver: Pod, stack: Stack) -> bool:
    """Whether the driver container keeps crashing in its pod: a reboot runs the init containers anew."""
    container = _named(driver.containers, stack.driver.container)
    if container is None or container.restarts < CRASH_LOOP_RESTARTS or container.last_finished_at is None:
        return False
    ends = (one.finished_at for one in driver.init_containers if one.succeeded)
    set_up = max((end for end in ends if end is not None), default=None)
    return set_up is not None and set_up <= container.last_finished_at


def provided_since(provider: Pod) -> datetime | None:
    """Return since when a provider provides: R, or a later start that did not move R; None while it is not ready."""
    since = provider.containers_ready_since
    starts = [one.started_at for one in provider.containers if one.started_at is not None]
    return max([since, *starts]) if since is not None else None


def ready_since(pod: Pod, container: str) -> datetime | None:
    """Return R: when a driver became ready, or None where the API shows only that of an earlier run.

    R is of the current run unless `container`, the driver container, started after it: a side container that restarts
    between two looks of the kubelet does not move R, and the driver stays loaded. Where no container has that name,
    each one counts.
    """
    since = pod.containers_ready_since
    named = [one for one in pod.containers if one.name == container] or pod.containers
    if since is None or any(one.started_at is not None and one.started_at > since for one in named):
        return None
    return since


def driver_started(driver: Pod, stack: Stack) -> datetime | None:
    """Give D: the start of the driver container's current run."""
    container = _named(driver.containers, stack.driver.container)
    return container.started_at if container is not None else None


def driver_run(driver: Pod, stack: Stack) -> str:
    """Name the driver container's current run. Runs that started within one second differ in their count."""
    container = _named(driver.containers, stack.driver.container)
    if container is None or container.started_at is None:
        return str(driver.containers_ready_since)
    return f"{container.started_at.isoformat()}/{container.restarts}"


def load(driver: Pod, providers: Sequence[Pod], stack: Stack) -> str:
    """Name what was loaded, and provided, on a node by what no clock can change: pods, and how often they restarted."""
    container = _named(driver.containers, stack.driver.container)
    told = [f"{driver.uid}/{container.restarts if container is not None else 0}"]
    return ",".join(told + [f"{one.uid}/{sum(each.restarts for each in one.containers)}" for one in providers])


def _older_than_provider(consumer: Pod, providers: Sequence[Pod]) -> str:
    """Name a provider that became ready only after a container of the consumer had started."""
    for provider in providers:
        ready = provided_since(provider)
        for container in consumer.containers:
            if ready is not None and container.started_at is not None and container.started_at <= ready:
                return f"its container {container.name} did not start after {provider.name} was ready"
    return ""


def _older_than_driver(consumer: Pod, kind: ConsumerKind, driver: Pod, stack: Stack) -> str:
    """Name a container that has run since before the driver: stale, whatever the others wait for."""
    started = driver_started(driver, stack)
    if started is None or _saw_this_driver(consumer, kind, driver, stack):
        return ""
    for container in consumer.containers:
        if container.started_at is not None and container.started_at <= started:
            seconds = int((started - container.started_at).total_seconds())
            when = f"{seconds} s before" if seconds else "in the same second as"
            return f"its container {container.name} started {when} this driver's container"
    return ""


def _saw_this_driver(consumer: Pod, kind: ConsumerKind, driver: Pod, stack: Stack) -> bool:
    started = driver_started(driver, stack)
    waiter = _named(consumer.init_containers, kind.waiter)
    if started is None or waiter is None or not waiter.succeeded or waiter.finished_at is None:
        return False
    return waiter.finished_at > started and _unloaded_before_start(driver, stack)


def _unloaded_before_start(driver: Pod, stack: Stack) -> bool:
    """Whether nothing old was mounted at D: the unloader ran since the container last ended.

    After a crash in place the init containers do not run again, and the old root may still be there.
    """
    unloader = _named(driver.init_containers, stack.driver.unloader)
    container = _named(driver.containers, stack.driver.container)
    if unloader is None or container is None or not unloader.succeeded or unloader.finished_at is None:
        return False
    if container.last_finished_at is None:
        return container.restarts == 0
    return unloader.finished_at > container.last_finished_at


def _not_running(consumer: Pod) -> str:
    """Say what a consumer's start still waits for; empty if all main containers run."""
    if not consumer.containers:
        return "it has no containers yet"
    pending = next((one for one in consumer.containers if one.started_at is None), None)
    if pending is None:
        return ""
    initialising = next((one for one in consumer.init_containers if not one.succeeded), None)
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
    return next((one for one in containers if one.name == name), None)
