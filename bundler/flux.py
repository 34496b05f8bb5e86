"""Flux: HelmReleases that depend on one another, with their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bundler.documents import to_yaml
from bundler.output import Files
from bundler.plan import Copied, Remote, duration, fingerprint
from bundler.recipe import POST
from bundler.values import has_null

if TYPE_CHECKING:
    from bundler.plan import Git, Plan, Release

Object = dict[str, Any]

USE: Final = """\
Commit this folder where a Flux Kustomization reads it, or apply it by hand:

```console
kubectl apply -k .
```

A failed run shows as `Ready=False` on the HelmRelease gpu-operator-post, whose condition names the Job alone: Flux
keeps no hook logs. Node and cause are in its Events. To read them, and to run it again without any change:

```console
kubectl --namespace flux-system describe helmrelease gpu-operator-post
flux reconcile helmrelease gpu-operator-post --namespace flux-system --force
```

The run writes them on what `regarding` names. If you change the HelmRelease's name, its namespace or its cluster,
change `regarding` too, or turn it off (`[]`), in a file of values for
`gpu-operator-post-bundler bundle --values gpu-operator-post=FILE`.
"""
NAMESPACE: Final = "flux-system"
RESOURCE: Final = "helmreleases.helm.toolkit.fluxcd.io"
INTERVAL: Final = "10m"
GIT_SOURCE: Final = "gpu-stack"
_UNWAITED: Final = """\
disableWait: Flux would wait for every pod of every DaemonSet, so that one node that is down would hold up all
releases that come after. Whether nodes are ready is judged node by node, by the run in between."""
_NULLS: Final = """\
A text, because nulls in the values of a HelmRelease are lost when it is updated. The name changes with the values, so
that Flux sees a change."""
_TIMEOUT: Final = "timeout: Flux would give up after 5 minutes, before the run does."


def files(plan: Plan) -> Files:
    """Return the files."""
    plan = plan.reporting_on(RESOURCE, NAMESPACE)
    result = Files.with_charts(plan)
    resources: dict[str, str] = {}
    for release in plan.releases:
        if isinstance(release.chart, Remote):
            resources[f"sources/{release.name}.yaml"] = to_yaml(_repository(release.name, release.chart))
    if any(isinstance(release.chart, Copied) for release in plan.releases):
        resources[f"sources/{GIT_SOURCE}.yaml"] = to_yaml(_git_repository(plan.git_for("Flux")))
    for release in plan.releases:
        if has_null(release.values):
            resources[f"{release.folder}/values.yaml"] = to_yaml(_values(release), _NULLS)
        note = f"{plan.note(release)}\n{_TIMEOUT if release.name == POST else _UNWAITED}"
        resources[f"{release.folder}/helmrelease.yaml"] = to_yaml(_helm_release(plan, release), note)
    for path, text in resources.items():
        result.add(path, text)
    kind = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    result.add("kustomization.yaml", to_yaml({**kind, "resources": list(resources)}))
    return result


def _object(api: str, kind: str, name: str, spec: Object) -> Object:
    return {
        "apiVersion": f"{api}.toolkit.fluxcd.io/{'v2' if api == 'helm' else 'v1'}",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def _repository(name: str, chart: Remote) -> Object:
    spec: Object = {"interval": INTERVAL, "url": chart.repository}
    if chart.registry:
        spec["type"] = "oci"
    return _object("source", "HelmRepository", name, spec)


def _git_repository(git: Git) -> Object:
    return _object(
        "source",
        "GitRepository",
        GIT_SOURCE,
        {"interval": INTERVAL, "url": git.url, "ref": {"branch": git.revision}},
    )


def _helm_release(plan: Plan, release: Release) -> Object:
    waits: Object = {} if release.name == POST else {"disableWait": True}
    spec: Object = {
        "interval": INTERVAL,
        "releaseName": release.name,
        "targetNamespace": release.namespace,
        "chart": {"spec": _chart(plan, release)},
        "install": {"createNamespace": True, **waits},
    }
    if waits:
        spec["upgrade"] = waits
    if release.name == POST:
        spec["timeout"] = duration(plan.outer)
    if before := plan.before(release):
        spec["dependsOn"] = [{"name": before.name}]
    if has_null(release.values):
        spec["valuesFrom"] = [{"kind": "ConfigMap", "name": _values_name(release)}]
    elif release.values:
        spec["values"] = release.values
    return _object("helm", "HelmRelease", release.name, spec)


def _values(release: Release) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _values_name(release), "namespace": NAMESPACE},
        "data": {"values.yaml": to_yaml(release.values)},
    }


def _values_name(release: Release) -> str:
    return f"{release.name}-values-{fingerprint(release.chart, release.values)}"


def _chart(plan: Plan, release: Release) -> Object:
    if isinstance(release.chart, Remote):
        source = {"kind": "HelmRepository", "name": release.name}
        return {"chart": release.chart.name, "version": release.chart.version, "sourceRef": source}
    folder = plan.git_for("Flux").folder(f"{release.folder}/chart")
    # By revision, because a copied chart may change without a new version.
    return {
        "chart": f"./{folder}",
        "reconcileStrategy": "Revision",
        "sourceRef": {"kind": "GitRepository", "name": GIT_SOURCE},
    }
