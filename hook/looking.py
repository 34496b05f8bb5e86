"""Read the cluster once, for the commands ``status`` and ``plan``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

from hook.cluster import requests, retry
from hook.cluster.listing import list_views
from hook.cluster.observer import Observer
from hook.cluster.requests import Selection
from hook.core.plan.workloads import protected, protection, reader
from hook.core.together import chosen
from hook.errors import PermissionDeniedError, SettingsError
from hook.objects.views import Unreadable

if TYPE_CHECKING:
    from datetime import timedelta

    from hook.cluster.api import Api
    from hook.core.plan.workloads import Workload
    from hook.core.together import Seen
    from hook.objects.decoding import Reader
    from hook.settings import Settings

View = TypeVar("View")

PATIENCE_SECONDS: Final = 10.0
"""Shorter than the patience of a run, because a user waits at a terminal."""
LOOK_SECONDS: Final = 1.0
NOT_OVER: Final = "status.phase!=Succeeded,status.phase!=Failed"


def once(api: Api, settings: Settings) -> Seen:
    """Return one snapshot of every selected stack."""
    observer = Observer(api, chosen(settings), settings, retry.looking(PATIENCE_SECONDS))
    observer.look_at_intent()
    observer.look_at_fleet()
    while (seen := _seen(observer)) is None:
        # What could not be asked before is asked again.
        observer.look_at_fleet()
        observer.wait(LOOK_SECONDS)
    observer.stop()
    return seen


def _seen(observer: Observer) -> Seen | None:
    """Return the snapshots once all is read, also what the first lists show to be worth looking at."""
    if observer.synced:
        observer.look_closer()
    return observer.snapshot() if observer.synced else None


def refuse_what_cannot_be_planned(target: timedelta | None) -> None:
    """Refuse to plan for no time at all."""
    if target is not None and not target:
        raise SettingsError("--target-window must be longer than 0s")


def workloads(api: Api, settings: Settings, *, wanted: bool) -> tuple[list[Workload] | None, str]:
    """List pods with the resources that the upgrade controllers evict pods for; and why anything was not read.

    The pods are in any namespace, and the ServiceAccount of the release may not have the permission to list them.
    """
    resources = tuple(name for stack in chosen(settings) for name in stack.upgrade.evicts)
    if not wanted or not resources:
        return None, "--no-workloads"
    if settings.namespaces:
        return None, "only some namespaces are read (--namespace)"
    try:
        found = _listed(api, Selection(requests.PODS, fields=NOT_OVER), reader(resources))
        pods = [pod for pod in found if pod is not None]
    except PermissionDeniedError as error:
        return None, str(error)
    if not pods:
        return pods, ""
    try:
        budgets = _listed(api, Selection(requests.DISRUPTION_BUDGETS), protection)
    except PermissionDeniedError as error:
        return pods, str(error)
    return protected(pods, filter(None, budgets)), ""


def _listed(api: Api, selection: Selection, read: Reader[View]) -> list[View]:
    """List once, without malformed objects."""
    patience = retry.retrying(retry.looking(PATIENCE_SECONDS), time.sleep)
    found, _version = list_views(api.list_page, selection, read, patience)
    return [view for view in found.values() if not isinstance(view, Unreadable)]
