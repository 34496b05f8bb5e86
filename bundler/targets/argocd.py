"""Argo CD: one Application for each release, ordered by sync waves, with a parent if a repository is named.

A parent Application starts its next wave when the last one is healthy. Argo CD itself does not evaluate the health of
an Application. The usual script returns the health that the Application shows, which is that of the source *before* the
parent changed it, and ignores hooks. The script in ``data`` evaluates the operation on the current source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bundler.charts import Copied
from bundler.documents import to_yaml
from bundler.output import template

if TYPE_CHECKING:
    from bundler.output import Files
    from bundler.releases import Bundle, Release
    from bundler.request import Git

Object = dict[str, Any]
NAMESPACE: Final = "argocd"
PARENT: Final = "gpu-stack"
SERVER: Final = "https://kubernetes.default.svc"
POLICY: Final[Object] = {
    "automated": {"prune": True, "selfHeal": True},
    # Server-side, because the operator's kinds are larger than the annotation of a client-side apply may be.
    "syncOptions": ["CreateNamespace=true", "ServerSideApply=true"],
    "retry": {"limit": 2, "backoff": {"duration": "1m", "factor": 2, "maxDuration": "5m"}},
}
WAVE: Final = "argocd.argoproj.io/sync-wave"
COMPLETE_BY: Final = "gpu-operator-post/through-by"
"""The annotation with what completes an Application for the script: its operation, or its health in addition."""
BY_HEALTH: Final = "operation-and-health"
PATCH: Final = "argocd-cm.patch.yaml"
_PATCH_COMMENT: Final = f"""\
kubectl -n argocd patch configmap argocd-cm --type merge --patch-file {PATCH}
Defines when an Application is complete, so that the next wave can start."""


def files(bundle: Bundle) -> Files:
    """Return the files for Argo CD."""
    result = {**bundle.chart_files(), **patch(bundle, status=bundle.without_job)}
    for release in bundle.releases:
        # As a text: an object would lose the nulls with which values clear a chart's defaults.
        values: Object = {"values": to_yaml(release.values)} if release.values else {}
        where = {**source(bundle, release), "helm": {"releaseName": release.name, **values}}
        found = application(release.name, order(bundle, release), where, release.namespace)
        result[f"{release.folder}/application.yaml"] = to_yaml(found, bundle.comment(release))
    if bundle.git is not None:
        result["app-of-apps.yaml"] = to_yaml(_parent(bundle.git))
    return result


def patch(bundle: Bundle, *, status: bool) -> Files:
    """Return the health script, without which Argo CD ignores the order of the waves, and that of the status object."""
    if bundle.post is None:
        return {}
    data: Object = {"resource.customizations.health.argoproj.io_Application": template("argocd/health.lua")}
    if status:
        data["resource.customizations.health.ConfigMap"] = template("argocd/status.lua")
    return {PATCH: to_yaml({"data": data}, _PATCH_COMMENT)}


def order(bundle: Bundle, release: Release) -> Object:
    """Return the annotations that order an Application among the others."""
    wave: Object = {WAVE: str(release.step - 1)}
    if bundle.post is None:
        return wave
    # An ordinary Job continues after the operation, if its pod runs. So does a controller.
    by_health = release.name == bundle.post.name and (bundle.without_job or not bundle.hook)
    return {**wave, COMPLETE_BY: BY_HEALTH if by_health else "operation"}


def application(name: str, annotations: Object, source: Object, namespace: str) -> Object:
    """Return an Application."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        "spec": {
            "project": "default",
            "source": source,
            "destination": {"server": SERVER, "namespace": namespace},
            "syncPolicy": POLICY,
        },
    }


def source(bundle: Bundle, release: Release) -> Object:
    """Return the source of a release's chart."""
    chart = release.chart
    if isinstance(chart, Copied):
        git = bundle.git_for("Argo CD")
        return {"repoURL": git.url, "path": git.folder(f"{release.folder}/chart"), "targetRevision": git.revision}
    # Argo CD recognizes a registry by the missing scheme; oci:// would name another kind of source.
    return {"repoURL": chart.registry or chart.repository, "chart": chart.name, "targetRevision": chart.version}


def _parent(git: Git) -> Object:
    directory = {"recurse": True, "include": "*/application.yaml"}
    source = {"repoURL": git.url, "path": git.path or ".", "targetRevision": git.revision, "directory": directory}
    return application(PARENT, {}, source, NAMESPACE)
