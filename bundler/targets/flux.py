"""Flux: HelmReleases that depend on one another, with their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bundler.charts import Remote, fingerprint
from bundler.documents import to_yaml
from bundler.recipe import POST
from bundler.values import duration, has_null

if TYPE_CHECKING:
    from bundler.output import Files
    from bundler.releases import Bundle, Release

Object = dict[str, Any]
NAMESPACE: Final = "flux-system"
INTERVAL: Final = "10m"
GIT_SOURCE: Final = "gpu-stack"
_NO_WAIT: Final = """\
disableWait: Flux would wait for every pod of every DaemonSet, so that one node that is down would stop all later
releases. The run before the DRA driver evaluates each node separately."""
_NULLS: Final = """\
A text, because Flux loses nulls in the values of a HelmRelease when it updates them. The name changes with the values,
so that Flux notices a change."""
_TIMEOUT: Final = "timeout: Flux's default of 5 minutes would end before the run does."


def files(bundle: Bundle) -> Files:
    """Return the files for Flux."""
    resources = {
        f"sources/{release.name}.yaml": to_yaml(_helm_repository(release.name, release.chart))
        for release in bundle.releases
        if isinstance(release.chart, Remote)
    }
    if bundle.chart_files():
        git = bundle.git_for("Flux")
        repository = {"interval": INTERVAL, "url": git.url, "ref": {"branch": git.revision}}
        resources[f"sources/{GIT_SOURCE}.yaml"] = to_yaml(_object("source", "GitRepository", GIT_SOURCE, repository))
    for release in bundle.releases:
        if has_null(release.values):
            resources[f"{release.folder}/values.yaml"] = to_yaml(_values(release), _NULLS)
        comment = f"{bundle.comment(release)}\n{_TIMEOUT if release.component == POST else _NO_WAIT}"
        resources[f"{release.folder}/helmrelease.yaml"] = to_yaml(_helm_release(bundle, release), comment)
    kustomization: Object = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(resources),
    }
    return {**bundle.chart_files(), **resources, "kustomization.yaml": to_yaml(kustomization)}


def _object(api: str, kind: str, name: str, spec: Object) -> Object:
    return {
        "apiVersion": f"{api}.toolkit.fluxcd.io/{'v2' if api == 'helm' else 'v1'}",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def _helm_repository(name: str, chart: Remote) -> Object:
    kind = {"type": "oci"} if chart.registry else {}
    return _object("source", "HelmRepository", name, {"interval": INTERVAL, "url": chart.repository, **kind})


def _helm_release(bundle: Bundle, release: Release) -> Object:
    wait: Object = {} if release.component == POST else {"disableWait": True}
    spec: Object = {
        "interval": INTERVAL,
        "releaseName": release.name,
        "targetNamespace": release.namespace,
        "chart": {"spec": _chart(bundle, release)},
        "install": {"createNamespace": True, **wait},
    }
    if wait:
        spec["upgrade"] = wait
    if release.component == POST:
        spec["timeout"] = duration(bundle.limit_seconds)
    if before := bundle.before(release):
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


def _chart(bundle: Bundle, release: Release) -> Object:
    if isinstance(release.chart, Remote):
        source = {"kind": "HelmRepository", "name": release.name}
        return {"chart": release.chart.name, "version": release.chart.version, "sourceRef": source}
    folder = bundle.git_for("Flux").folder(f"{release.folder}/chart")
    # By revision, because a copied chart may change without a new version.
    return {
        "chart": f"./{folder}",
        "reconcileStrategy": "Revision",
        "sourceRef": {"kind": "GitRepository", "name": GIT_SOURCE},
    }
