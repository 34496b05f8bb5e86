"""List the pods that an upgrade removes from their nodes, and the PodDisruptionBudgets that protect them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from ctl.plan.eviction import Pods, disruption_budget, protected, reader
from ctl.plan.limits import drain_selectors
from hook.errors import ApiError, PermissionDeniedError, UntrustedError
from hook.kube import retry
from hook.kube.informer import ListWatch, list_views, pages
from hook.kube.resources import DISRUPTION_BUDGETS, PODS
from hook.objects.drivers import STACKS
from hook.objects.views import Malformed
from hook.run.lookup import PATIENCE_SECONDS

if TYPE_CHECKING:
    from ctl.plan.eviction import Workload
    from hook.kube.client import Api
    from hook.kube.resources import Resource
    from hook.objects.decoding import Reader
    from hook.objects.views import Snapshot
    from hook.settings import Settings

View = TypeVar("View")

NOT_OVER: Final = "status.phase!=Succeeded,status.phase!=Failed"


def read(api: Api, settings: Settings, snapshot: Snapshot, *, wanted: bool) -> Pods:
    """List the pods that the upgrade controllers evict or drain, of any namespace; or say why they were not read.

    The ServiceAccount of the release may not have the permission to list them.
    """
    stack = STACKS[settings.stack]
    resources, selectors = stack.upgrade.evicts, drain_selectors(snapshot, stack)
    if not wanted:
        return Pods(unread="--no-pods")
    try:
        with_gpus = _pods(api, "", reader(resources)) if resources else []
        drained = {selector: _pods(api, selector, reader()) for selector in sorted(selectors)}
    except ApiError as error:
        # A selector that the API server rejects is the user's own text.
        if isinstance(error, UntrustedError) or (error.transient and not isinstance(error, PermissionDeniedError)):
            raise
        return Pods(unread=str(error))
    if not with_gpus and not any(drained.values()):
        return Pods()
    try:
        budgets = list(filter(None, _listed(api, DISRUPTION_BUDGETS, disruption_budget)))
    except PermissionDeniedError as error:
        return Pods(with_gpus, drained, str(error))
    return Pods(protected(with_gpus, budgets), {each: protected(found, budgets) for each, found in drained.items()})


def _pods(api: Api, selector: str, read: Reader[Workload | None]) -> list[Workload]:
    found = _listed(api, PODS.select(labels=selector, fields=NOT_OVER), read)
    return [pod for pod in found if pod is not None]


def _listed(api: Api, resource: Resource, read: Reader[View]) -> list[View]:
    """List once, without malformed objects."""
    found = list_views(pages(api, retry.interactive(PATIENCE_SECONDS)), ListWatch(resource, read))
    return [view for view in (found.views.values() if found else ()) if not isinstance(view, Malformed)]
