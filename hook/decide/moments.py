"""What besides a driver reload makes a plugin stale: the container toolkit and MIG, if ``refreshAfter`` names them.

A prerequisite that is deployed to a node must be settled before its plugins are evaluated. Every main container of a
plugin must then have started after it: after the ``ContainersReady`` transition of the container toolkit, or after the
last write of the state label of the MIG manager. Only the time of a label comes from the API server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hook.decide.fleet import live_pods
from hook.decide.reasons import Reason
from hook.decide.result import Condition, Patience, waiting
from hook.format import some
from hook.objects import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from hook.decide.fleet import Context, Fleet, NodeView
    from hook.objects import Pod
    from hook.objects.stacks import Prerequisite


RECONFIGURATION: Final = "MIG reconfiguration"


@dataclass(frozen=True, slots=True)
class Moment:
    """Moment that plugins must start after, in addition to that of the driver."""

    event: str
    at: datetime | None
    """None if it is not known. Then no start proves anything."""
    run: str
    """Identifier of what happened. Another one means that it happened again."""


def blocker(view: NodeView, context: Context) -> Condition | None:
    """Let a node wait for each prerequisite that the settings name and that is deployed to it."""
    for prerequisite, owners in context.prerequisites.items():
        if not _is_deployed(prerequisite, view):
            continue
        if not owners:
            message = f"there is no {prerequisite.title} DaemonSet, but the settings (refreshAfter) name it"
            return waiting(Reason.PREREQUISITE_NOT_READY, message, Patience.DRIVER)
        live = [pod for pod in live_pods(view.prerequisite_pods) if pod.owner_uid in owners]
        replaced = any(context.is_outdated(pod) and owners[pod.owner_uid].rolling for pod in live)
        if len(live) != 1 or provided_since(live[0]) is None or replaced:
            message = f"its {prerequisite.title} pod is missing, not ready or about to be replaced"
            return waiting(Reason.PREREQUISITE_NOT_READY, message)
        if prerequisite.reconfigures and (state := _unended(view)):
            message = f"its {RECONFIGURATION} has not ended ({names.MIG_STATE_LABEL}={state})"
            return waiting(Reason.PREREQUISITE_NOT_READY, message, Patience.DRIVER)
    return None


def of(view: NodeView, context: Context) -> Iterator[Moment]:
    """Yield what the plugins of a node must start after in addition to the driver."""
    for prerequisite, owners in context.prerequisites.items():
        if not prerequisite.reconfigures:
            for pod in live_pods(view.prerequisite_pods):
                if pod.owner_uid in owners:
                    run = f"{pod.uid}/{sum(container.restarts for container in pod.containers)}"
                    yield Moment(f"{pod.name} was ready", provided_since(pod), run)
        elif view.node is not None and view.label(names.MIG_STATE_LABEL) and _is_deployed(prerequisite, view):
            at, merged = view.node.mig_state_written or (None, False)
            event = f"the {RECONFIGURATION} of its node ended"
            event = f"the latest moment at which {event}" if merged else event
            yield Moment(event, at, f"{names.MIG_STATE_LABEL}/{'merged' if merged else at}")


def not_started_after(plugin: Pod, moments: Sequence[Moment]) -> str:
    """Return which moment a container of a plugin did not start after, or ""."""
    for moment in moments:
        for container in plugin.containers:
            if container.started_at is not None and moment.at is None:
                return f"the time at which {moment.event} is not known"
            if container.started_at is not None and moment.at is not None and container.started_at <= moment.at:
                return f"its container {container.name} did not start after {moment.event}"
    return ""


def provided_since(prerequisite: Pod) -> datetime | None:
    """Return when a provider became ready, or None if it is not.

    This is R, or the start of a container that restarted later without moving R.
    """
    since = prerequisite.containers_ready_since
    starts = [container.started_at for container in prerequisite.containers if container.started_at is not None]
    return max([since, *starts]) if since is not None else None


def is_changing(view: NodeView, context: Context) -> bool:
    """Return whether the devices of a node are being changed in a way that plugins must start after.

    A prerequisite that is not deployed to a node changes nothing there. Its label may be left over.
    """
    deployed = (each for each in context.prerequisites if each.reconfigures and _is_deployed(each, view))
    return any(deployed) and bool(_unended(view))


def _is_deployed(prerequisite: Prerequisite, view: NodeView) -> bool:
    return view.label(prerequisite.deploy_label) == "true"


def _unended(view: NodeView) -> str:
    """Return the state of a MIG reconfiguration that has not ended, or ""."""
    state = view.label(names.MIG_STATE_LABEL)
    return "" if state in names.MIG_ENDED else state


def failed_changes(fleet: Fleet) -> Iterator[str]:
    """Yield a warning about nodes on which a prerequisite failed. It may have changed the devices before that."""
    for prerequisite in fleet.context.prerequisites:
        if prerequisite.reconfigures:
            views = fleet.nodes.values()
            failed = [view.name for view in views if view.label(names.MIG_STATE_LABEL) == names.MIG_FAILED]
            if failed:
                what = f"{RECONFIGURATION} failed ({names.MIG_STATE_LABEL}={names.MIG_FAILED}): {some(failed)}"
                yield f"{what}. The log of the {prerequisite.title} names the step"
