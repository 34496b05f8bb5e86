"""Read what only people are shown: pods in the way of an upgrade, their PodDisruptionBudgets, passthrough claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from ctl.plan.eviction import Pods, disruption_budget, protected, workload_reader
from ctl.plan.harm import PASSTHROUGH, PassthroughClaims, passthrough_claim
from ctl.plan.limits import drain_selectors
from hook.errors import ApiError, PermissionDeniedError, UntrustedError
from hook.kube import retry
from hook.kube.informer import ListWatch, list_views
from hook.kube.resources import DISRUPTION_BUDGETS, PODS, RESOURCE_CLAIMS
from hook.objects import Malformed
from hook.objects.stacks import STACKS
from hook.run.status import PATIENCE_SECONDS

if TYPE_CHECKING:
    from ctl.plan.eviction import Workload
    from hook.kube.client import Api
    from hook.kube.resources import Resource
    from hook.objects import Snapshot
    from hook.objects.decoding import Reader
    from hook.settings import Settings

View = TypeVar("View")

NOT_OVER: Final = "status.phase!=Succeeded,status.phase!=Failed"


def removed_pods(api: Api, settings: Settings, snapshot: Snapshot) -> Pods:
    """List the pods that the upgrade controllers evict or drain, of any namespace; or say why they were not read.

    The user may not have the permission to list them.
    """
    stack = STACKS[settings.stack]
    resources, selectors = stack.upgrade.evicts, drain_selectors(snapshot, stack)
    try:
        with_gpus = _pods(api, "", workload_reader(resources)) if resources else []
        drained = {selector: _pods(api, selector, workload_reader()) for selector in sorted(selectors)}
    except ApiError as error:
        # A selector that the API server rejects is the user's own text.
        return Pods(unread=_refusal(error))
    if not with_gpus and not any(drained.values()):
        return Pods()
    try:
        budgets = _listed(api, DISRUPTION_BUDGETS, disruption_budget)
    except PermissionDeniedError as error:
        return Pods(with_gpus, drained, str(error))
    return Pods(protected(with_gpus, budgets), {each: protected(found, budgets) for each, found in drained.items()})


def passthrough_claims(api: Api, snapshot: Snapshot) -> PassthroughClaims:
    """List the claims that hold GPUs for passthrough, if a plugin supports that; or say why they were not read."""
    if not any(PASSTHROUGH in daemonset.gates for daemonset in snapshot.daemonsets):
        return PassthroughClaims()
    try:
        return PassthroughClaims(tuple(_listed(api, RESOURCE_CLAIMS, passthrough_claim)))
    except ApiError as error:
        return PassthroughClaims(unread=_refusal(error))


def _refusal(error: ApiError) -> str:
    """Return the text of an error that concerns one request. Raise it again if others will fail, too."""
    if isinstance(error, UntrustedError) or (error.transient and not isinstance(error, PermissionDeniedError)):
        raise error
    return str(error)


def _pods(api: Api, selector: str, read: Reader[Workload | None]) -> list[Workload]:
    return _listed(api, PODS.select(labels=selector, fields=NOT_OVER), read)


def _listed(api: Api, resource: Resource, read: Reader[View | None]) -> list[View]:
    """List once, without malformed objects."""
    found = list_views(api, ListWatch(resource, read), retry.interactive(PATIENCE_SECONDS))
    return [view for view in (found.views.values() if found else ()) if not isinstance(view, Malformed)]
