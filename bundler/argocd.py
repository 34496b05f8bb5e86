"""Argo CD: one Application for each release, ordered by sync waves, with a parent where a repository is named.

A parent Application begins its next wave when all of the last one is healthy. Argo CD does not know when an
Application is. The usual script, which copies the health that it shows, is true of what was synced *before* the parent
changed it, and knows nothing of hooks. The script here asks for the operation on what is written down now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bundler.documents import to_yaml
from bundler.output import Files
from bundler.plan import Copied

if TYPE_CHECKING:
    from bundler.plan import Git, Plan, Release

Object = dict[str, Any]
USE: Final = """\
```console
kubectl -n argocd patch configmap argocd-cm --type merge --patch-file argocd-cm.patch.yaml   # once, for the order
for application in */application.yaml; do kubectl apply -f "$application"; done
```

or commit this folder and apply `app-of-apps.yaml` (written where `--git-url` names the repository).

**The order needs both**: the parent, and the patch of `argocd-cm`, which tells Argo CD when an Application is through.
Without them waves order nothing: the run waits for what `expect` names, but the DRA driver's pods may be re-rolled
before drivers are reloaded, and once more after. The patch judges the Applications of this bundle by their last
operation, and all others by their own health; where `argocd-cm` has a script of yours for Applications, join the two.

**A failed run is to be found in the operation, not in the status**: the Application shows Synced and Healthy beside
an operation that failed. Node and cause are in the Application's Events:

```console
kubectl --namespace argocd describe applications.argoproj.io gpu-operator-post
```

The run writes them on what `regarding` names. If you change the Application's name, its namespace or its destination,
change `regarding` too, or turn it off (`[]`), in a file of values for
`gpu-operator-post-bundler bundle --values gpu-operator-post=FILE`.

The run is retried twice; after that sync the Application by hand, and then the parent, which has stopped before the DRA
driver.
"""
NAMESPACE: Final = "argocd"
RESOURCE: Final = "applications.argoproj.io"
PARENT: Final = "gpu-stack"
SERVER: Final = "https://kubernetes.default.svc"
POLICY: Final[Object] = {
    "automated": {"prune": True, "selfHeal": True},
    # Server-side, because the operator's kinds are larger than the annotation of a client-side apply may be.
    "syncOptions": ["CreateNamespace=true", "ServerSideApply=true"],
    "retry": {"limit": 2, "backoff": {"duration": "1m", "factor": 2, "maxDuration": "5m"}},
}
WAVE: Final = "argocd.argoproj.io/sync-wave"
ORDER: Final = "gpu-operator-post/through-by"
"""An annotation that asks the script below to judge an Application by its operation, or by its health as well."""
BY_OPERATION: Final = "operation"
BY_HEALTH: Final = "operation-and-health"
"""A plain Job continues after the operation has ended."""
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


def files(plan: Plan) -> Files:
    """Return the files."""
    plan = plan.reporting_on(RESOURCE, NAMESPACE)
    result = Files.with_charts(plan)
    for release in plan.releases:
        # As one text: an object would lose the nulls by which values clear a chart's defaults.
        values: Object = {"values": to_yaml(release.values)} if release.values else {}
        where = {**source(plan, release), "helm": {"releaseName": release.name, **values}}
        found = application(release.name, order(plan, release), where, release.namespace)
        result.add(f"{release.folder}/application.yaml", to_yaml(found, plan.note(release)))
    if plan.git is not None:
        result.add("app-of-apps.yaml", to_yaml(_parent(plan.git)))
    add_patch(result, plan)
    return result


def add_patch(files: Files, plan: Plan) -> None:
    """Add what makes Argo CD keep the order of the waves, where something must come in between."""
    if plan.post is not None:
        patch: Object = {"data": {"resource.customizations.health.argoproj.io_Application": _LUA}}
        files.add(PATCH, to_yaml(patch, _PATCH_NOTE))


def order(plan: Plan, release: Release) -> Object:
    """Return the annotations that order an Application among the others."""
    wave: Object = {WAVE: str(release.step - 1)}
    if plan.post is None:
        return wave
    by_health = release is plan.post and not plan.hook
    return {**wave, ORDER: BY_HEALTH if by_health else BY_OPERATION}


def application(name: str, annotations: Object, source: Object, namespace: str) -> Object:
    """Return an Application."""
    metadata: Object = {"name": name, "namespace": NAMESPACE}
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": metadata,
        "spec": {
            "project": "default",
            "source": source,
            "destination": {"server": SERVER, "namespace": namespace},
            "syncPolicy": POLICY,
        },
    }


def source(plan: Plan, release: Release) -> Object:
    """Return where a release's chart is."""
    chart = release.chart
    if isinstance(chart, Copied):
        git = plan.git_for("Argo CD")
        return {"repoURL": git.url, "path": git.folder(f"{release.folder}/chart"), "targetRevision": git.revision}
    # Without oci://, which would name another kind of source: Argo CD tells a registry by the missing scheme.
    return {"repoURL": chart.registry or chart.repository, "chart": chart.name, "targetRevision": chart.version}


def _parent(git: Git) -> Object:
    return application(
        PARENT,
        {},
        {
            "repoURL": git.url,
            "path": git.path or ".",
            "targetRevision": git.revision,
            "directory": {"recurse": True, "include": "*/application.yaml"},
        },
        NAMESPACE,
    )
