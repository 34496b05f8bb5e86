"""Look at the cluster once, for people: what ``status`` judges and ``plan`` plans with."""

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
from hook.settings import WaitFor

if TYPE_CHECKING:
    from datetime import timedelta

    from hook.cluster.api import Api
    from hook.core.plan.workloads import Workload
    from hook.core.together import Seen
    from hook.objects.decoding import Reader
    from hook.settings import Settings

View = TypeVar("View")

PATIENCE_SECONDS: Final = 10.0
"""A person waits; a hook may wait longer."""
LOOK_SECONDS: Final = 1.0
NOT_OVER: Final = "status.phase!=Succeeded,status.phase!=Failed"


def once(api: Api, settings: Settings) -> Seen:
    """Give one snapshot of every chosen stack."""
    observer = Observer(api, chosen(settings), settings, retry.looking(PATIENCE_SECONDS))
    observer.look_at_intent()
    observer.look_at_fleet()
    _await(observer)
    observer.look_closer()
    while not observer.synced:
        # What comes into sight may show more to look at, such as the pools of a policy.
        _await(observer)
        observer.look_closer()
    seen = observer.snapshot()
    observer.stop()
    return seen


def refuse_what_cannot_be_planned(settings: Settings, target: timedelta | None) -> None:
    """Refuse to plan without looking at nodes, and for no time at all."""
    if target is not None and not target:
        raise SettingsError("--target-window must be longer than 0s")
    if settings.wait_for is WaitFor.POLICY_READY:
        raise SettingsError("--wait-for policy-ready looks at no node, so nothing can be planned")


def workloads(api: Api, settings: Settings, *, wanted: bool) -> tuple[list[Workload] | None, str]:
    """List pods that use what the chosen stacks evict pods for, and say why they, or what protects them, were not read.

    They are in any namespace, and the hook's own ServiceAccount may not be allowed to see them.
    """
    resources = tuple(name for stack in chosen(settings) for name in stack.upgrade.evicts)
    if not wanted or not resources:
        return None, "--no-workloads"
    if settings.namespaces:
        return None, "only some namespaces are read (--namespace)"
    try:
        pods = [
            one for one in _listed(api, Selection(requests.PODS, fields=NOT_OVER), reader(resources)) if one is not None
        ]
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
    """List once, without what cannot be read."""
    patience = retry.retrying(retry.looking(PATIENCE_SECONDS), time.sleep)
    found, _version = list_views(api.list_page, selection, read, patience)
    return [one for one in found.values() if not isinstance(one, Unreadable)]


def _await(observer: Observer) -> None:
    while not observer.synced:
        # What could not be asked before is asked again.
        observer.look_at_fleet()
        observer.wait(LOOK_SECONDS)
