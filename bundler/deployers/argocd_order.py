"""Argo CD's order: waves, and what makes them wait.

A parent Application begins its next wave when all of the last one is healthy. Of an Application, Argo CD has no idea
what that means, and the usual script, which gives the health that it shows, is true of what was synced *before* the
parent changed it, and knows nothing of hooks. This one asks for the operation on what is written down now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bundler.text import to_yaml

if TYPE_CHECKING:
    from bundler.deployers.common import Object
    from bundler.output import Files
    from bundler.plan import Plan, Release

WAVE: Final = "argocd.argoproj.io/sync-wave"
ORDER: Final = "gpu-operator-post/through-by"
"""An annotation that asks the script below to judge an Application by its operation, or by its health as well."""
BY_OPERATION: Final = "operation"
BY_HEALTH: Final = "operation-and-health"
"""A plain Job goes on after the operation has ended."""
PATCH: Final = "argocd-cm.patch.yaml"
_PATCH_NOTE: Final = """\
kubectl -n argocd patch configmap argocd-cm --type merge --patch-file argocd-cm.patch.yaml
Tells Argo CD when an Application is through, so that the next wave can begin."""
_LUA: Final = """\
local through_by = ((obj.metadata or {}).annotations or {})["gpu-operator-post/through-by"]
local status = obj.status or {}
local health = status.health or {}
local result = {status = health.status or "Progressing", message = health.message or ""}
if through_by == nil then
  return result
end

-- All others: through is what was synced as it is written down now. What is written down may have changed since.
local function same(one, other)
  if type(one) ~= "table" or type(other) ~= "table" then
    return one == other
  end
  for key, value in pairs(one) do
    if not same(value, other[key]) then
      return false
    end
  end
  for key in pairs(other) do
    if one[key] == nil then
      return false
    end
  end
  return true
end

local operation = status.operationState or {}
local sync = status.sync or {}
local source = (obj.spec or {}).source
local attempted = same((operation.syncResult or {}).source, source)
local unchanged = sync.status == "Synced" and same((sync.comparedTo or {}).source, source)
if obj.operation ~= nil or operation.phase == "Running" or operation.phase == "Terminating" then
  return {status = "Progressing", message = operation.message or "an operation is under way"}
end
if attempted and (operation.phase == "Failed" or operation.phase == "Error") then
  return {status = "Degraded", message = operation.message or "the last operation failed"}
end
if not (attempted and operation.phase == "Succeeded") and not unchanged then
  return {status = "Progressing", message = "it is not synced yet"}
end
if through_by == "operation" then
  return {status = "Healthy", message = operation.message or ""}
end
return result
"""


def add_patch(files: Files, plan: Plan) -> None:
    """Add what makes Argo CD keep the order of the waves, where something must come in between."""
    if plan.post is not None:
        patch: Object = {"data": {"resource.customizations.health.argoproj.io_Application": _LUA}}
        files.add(PATCH, to_yaml(patch, _PATCH_NOTE))


def marks(plan: Plan, release: Release) -> Object:
    """Give the annotations that order an Application among the others."""
    wave: Object = {WAVE: str(release.step - 1)}
    if plan.post is None:
        return wave
    by_health = release is plan.post and not plan.hook
    return {**wave, ORDER: BY_HEALTH if by_health else BY_OPERATION}
