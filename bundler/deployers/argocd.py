"""Argo CD: one Application for each release, ordered by sync waves, with a parent where a repository is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bundler.charts import Copied
from bundler.deployers import argocd_order as order
from bundler.deployers.common import Object, derived_note, git_of, told_on
from bundler.output import Files
from bundler.text import to_yaml

if TYPE_CHECKING:
    from bundler.plan import Git, Plan, Release

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


def files(plan: Plan) -> Files:
    """Give the files."""
    plan = told_on(plan, RESOURCE, NAMESPACE)
    result = Files()
    for release in plan.releases:
        if isinstance(release.chart, Copied):
            result.add_tree(f"{release.folder}/chart", release.chart.files)
        application = _application(plan, release)
        result.add(f"{release.folder}/application.yaml", to_yaml(application, derived_note(plan, release)))
    if plan.git is not None:
        result.add("app-of-apps.yaml", to_yaml(_parent(plan.git)))
    order.add_patch(result, plan)
    return result


def application(name: str, annotations: Object, source: Object, namespace: str) -> Object:
    """Give an Application."""
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
    """Say where a release's chart is."""
    chart = release.chart
    if isinstance(chart, Copied):
        git = git_of(plan, "Argo CD reads a chart that is copied into the bundle from the repository that it is in")
        return {"repoURL": git.url, "path": git.folder(f"{release.folder}/chart"), "targetRevision": git.revision}
    # Without oci://, which would name another kind of source: Argo CD tells a registry by the missing scheme.
    return {"repoURL": chart.registry or chart.repository, "chart": chart.name, "targetRevision": chart.version}


def _application(plan: Plan, release: Release) -> Object:
    # As one text: an object would lose the nulls by which values clear a chart's defaults.
    helm: Object = {"releaseName": release.name}
    if release.values:
        helm["values"] = to_yaml(release.values)
    here = {**source(plan, release), "helm": helm}
    return application(release.name, order.marks(plan, release), here, release.namespace)


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
