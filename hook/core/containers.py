"""What a pod says of its containers."""

from __future__ import annotations

from sys import intern
from typing import Final

from hook.core.fields import Json, MalformedObjectError, items, mapping, number, prose, required, text, when
from hook.objects import views

LONGEST_MESSAGE: Final = 1024
"""Of what a kubelet or a program says about a container, which can be many kilobytes: what an Event takes whole."""


def containers(obj: Json, wanted: str, reported: str) -> tuple[views.Container, ...]:
    """Give one status for every container of the spec; one that is not reported yet is waiting.

    One that is reported counts, whether the spec names it or not: it runs.
    """
    statuses, spec = _by_name(obj, "status", reported), _by_name(obj, "spec", wanted)
    # An init container that is to run on beside the others (a sidecar) is no step of the pod's start.
    beside = {name for name, one in spec.items() if text(one, "restartPolicy") == "Always"}
    everyone = dict.fromkeys((*spec, *statuses))
    return tuple(_container(name, statuses.get(name, {})) for name in everyone if name not in beside)


def _by_name(obj: Json, *path: str) -> dict[str, Json]:
    """Give a list by its names. Two of a name contradict each other: malformed."""
    found = items(obj, *path)
    named = {required(one, "name"): one for one in found}
    if len(named) < len(found):
        raise MalformedObjectError(f"{'.'.join(path)}: a name comes twice")
    return named


def _container(name: str, status: Json) -> views.Container:
    state = mapping(status, "state")
    running, terminated, waiting = (mapping(state, key) for key in ("running", "terminated", "waiting"))
    ended = "terminated" in state and state["terminated"] is not None
    began, finished = when(terminated, "startedAt"), when(terminated, "finishedAt")
    if began is not None and finished is not None and finished < began:
        raise MalformedObjectError(f"status: container {name} ended before it started")
    return views.Container(
        name=intern(name),
        started_at=when(running, "startedAt"),
        finished_at=finished,
        succeeded=terminated.get("exitCode") is not None and number(terminated, "exitCode") == 0,
        last_finished_at=when(status, "lastState", "terminated", "finishedAt"),
        restarts=number(status, "restartCount"),
        waiting=text(waiting, "reason") or ("" if running or ended else "ContainerCreating"),
        message=(prose(waiting, "message") or prose(terminated, "message"))[:LONGEST_MESSAGE],
        lasted=int((finished - began).total_seconds()) if began is not None and finished is not None else None,
    )
