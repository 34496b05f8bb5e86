"""Argo CD with a parent chart: the Applications are its templates, so that values can still be given at install time.

What is derived is laid over such values while the parent is rendered, and the trigger is computed there, because it
must change with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bundler.argocd import NAMESPACE, PARENT, RESOURCE, SERVER, Object, add_patch, application, order, source
from bundler.documents import to_yaml
from bundler.output import Files
from bundler.plan import KNOWN_PLUGINS, REGARDING, Copied, fingerprint
from bundler.recipe import DRA, OPERATOR, POST
from hook import __version__

if TYPE_CHECKING:
    from bundler.documents import Mapping
    from bundler.plan import Plan, Release

NAME: Final = "argocd-helm"
USE: Final = """\
A chart whose templates are the Applications. Commit this folder and name it in an Application of your own, or render
it by hand; values for a release go below its name:

```console
helm template gpu-stack . --set gpu-operator.driver.version=580.126.20 | kubectl apply -f -
```

What is derived (`trigger`, `expect`, `podAnnotations`) is laid over such values, and `trigger` changes with them.

**The order needs a patch, once**: `kubectl -n argocd patch configmap argocd-cm --type merge --patch-file
argocd-cm.patch.yaml` tells Argo CD when an Application is through. Without it waves order nothing, and the DRA driver's
pods may be re-rolled before drivers are reloaded, and once more after. It judges the Applications of this bundle by
their last operation, and all others by their own health.

**A failed run is to be found in the operation, not in the status**: the Application shows Synced and Healthy beside
an operation that failed. Node and cause are in the Application's Events, in the namespace that `argocd.namespace`
names:

```console
kubectl --namespace argocd describe applications.argoproj.io gpu-operator-post
```

They are told on what the value `gpu-operator-post.regarding` names. With an `argocd.server` of another cluster it is
left out: what runs there cannot reach the Application.
"""

_HELPERS: Final = """\
{{/*
Lays one mapping over another, in place: mappings merge, all else is replaced, empty values too.
Takes a dict of below and above.
*/}}
{{- define "gpu-stack.lay" -}}
{{- range $key, $value := .above -}}
{{- $old := get $.below $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $old) -}}
{{- include "gpu-stack.lay" (dict "below" $old "above" $value) -}}
{{- else -}}
{{- $_ := set $.below $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The values of a release as JSON: those of the bundle, over them those of this installation, over them the derived.
The bundle's are in a file of their own, because Helm 4 drops nulls from a chart's values.yaml.
Takes a dict of root and name.
*/}}
{{- define "gpu-stack.values" -}}
{{- $values := .root.Files.Get (printf "static/%s.yaml" .name) | fromYaml -}}
{{- include "gpu-stack.lay" (dict "below" $values "above" (index .root.Values .name | default dict)) -}}
{{- $derived := .root.Files.Get (printf "derived/%s.yaml" .name) | fromYaml -}}
{{- include "gpu-stack.lay" (dict "below" $values "above" $derived) -}}
{{- toJson $values -}}
{{- end -}}
"""
_HEAD: Final = """\
{{- /* COMMENT */ -}}
{{- $values := include "gpu-stack.values" (dict "root" . "name" "NAME") | fromJson -}}
"""
_TRIGGER: Final = """\
{{- $operator := include "gpu-stack.values" (dict "root" . "name" "OPERATOR") | fromJson -}}
{{- $fingerprint := printf "IDENTITY %s" (toJson $operator) | sha256sum | trunc 12 -}}
{{- $_ := set $values "trigger" (list "VERSION" $fingerprint (get $values "trigger") | compact | join "-") -}}
{{- $driver := get $operator "driver" | default dict -}}
{{- $version := get $driver "version" | default "" | toString -}}
{{- $crd := get (get $driver "nvidiaDriverCRD" | default dict) "enabled" -}}
{{- if not (or (empty $version) (hasPrefix "sha256:" $version) $crd (eq (get $driver "enabled" | toString) "false")) -}}
{{- include "gpu-stack.lay" (dict "below" $values "above" (dict "expect" (dict "driverVersion" $version))) -}}
{{- end -}}
{{- $plugin := include "gpu-stack.values" (dict "root" . "name" "PLUGIN") | fromJson -}}
{{- $name := get $plugin "nameOverride" | default "CHART" -}}
{{- if not (or (has $name (list KNOWN)) (get (get $values "consumer" | default dict) "names")) -}}
{{- $names := list (printf "%s-kubelet-plugin" ($name | trunc 63 | trimSuffix "-")) -}}
{{- include "gpu-stack.lay" (dict "below" $values "above" (dict "consumer" (dict "names" $names))) -}}
{{- end -}}
{{- $scope := get (get $values "rbac" | default dict) "scope" -}}
{{- if and (eq .Values.argocd.server "SERVER") (ne $scope "namespace") (not (hasKey $values "REGARDING")) -}}
{{- $ours := dict "resource" "RESOURCE" "namespace" .Values.argocd.namespace "name" "OURS" -}}
{{- $_ := set $values "REGARDING" (list $ours) -}}
{{- end -}}
"""
_VALUES_NOTE: Final = (
    "Below the name of a release: values of its chart, over those in static/ and below those in derived/."
)
INSTALLED: Final = ("timeout", "trigger", "consumer", REGARDING)
"""Derived values that depend on those of the installation."""
_VALUES_HERE: Final = "      values: VALUES\n"
_VALUES: Final = "      values: |\n        {{- toYaml $values | nindent 8 }}\n"


def files(plan: Plan) -> Files:
    """Return the files, without the `Chart.yaml`."""
    plan = plan.reporting_on(RESOURCE, NAMESPACE)
    result = Files.with_charts(plan)
    result.add("values.yaml", to_yaml(_values(plan), _VALUES_NOTE))
    result.add("templates/_helpers.tpl", _HELPERS)
    for release in plan.releases:
        result.add(f"static/{release.name}.yaml", to_yaml(_static(release)))
        result.add(f"derived/{release.name}.yaml", to_yaml(_derived(release)))
        result.add(f"templates/{release.name}.yaml", _template(plan, release))
    add_patch(result, plan)
    return result


def add_chart(files: Files, plan: Plan) -> None:
    """Add the `Chart.yaml`, when all else is there."""
    chart: Object = {
        "apiVersion": "v2",
        "name": PARENT,
        "description": f"Argo CD Applications: {', '.join(release.name for release in plan.releases)}",
        "type": "application",
        # A registry keeps what it has under a version, so another content needs another one.
        "version": f"{__version__}-b{fingerprint(Copied(files.contents), {})}",
    }
    files.add("Chart.yaml", to_yaml(chart))


def _values(plan: Plan) -> Object:
    values: Object = {"argocd": {"namespace": NAMESPACE, "project": "default", "server": SERVER}}
    if any(isinstance(release.chart, Copied) for release in plan.releases):
        git = plan.git_for("Argo CD")
        values["git"] = {"url": git.url, "revision": git.revision, "path": git.path}
    return {**values, **{release.name: {} for release in plan.releases}}


def _static(release: Release) -> Mapping:
    """Return the values that may be changed at install time: Argo CD has no limit that the run's must fit in."""
    return {**release.given, **({"timeout": release.derived["timeout"]} if release.name == POST else {})}


def _derived(release: Release) -> Mapping:
    """Return the derived values that do not depend on values given at install time."""
    derived = {key: value for key, value in release.derived.items() if key not in INSTALLED}
    if release.name == POST and isinstance(expect := derived["expect"], dict):
        derived["expect"] = {"chartVersion": expect["chartVersion"]}
    return derived


def _template(plan: Plan, release: Release) -> str:
    head = _HEAD.replace("COMMENT", plan.note(release)).replace("NAME", release.name)
    if release.name == POST:
        head += _trigger(plan, release)
    found = application(release.name, order(plan, release), _source(plan, release), release.namespace)
    found["metadata"]["namespace"] = "{{ .Values.argocd.namespace }}"
    found["spec"]["project"] = "{{ .Values.argocd.project }}"
    found["spec"]["destination"]["server"] = "{{ .Values.argocd.server }}"
    return head + to_yaml(found).replace(_VALUES_HERE, _VALUES)


def _trigger(plan: Plan, release: Release) -> str:
    operator, plugin = (next(other for other in plan.releases if other.name == name) for name in (OPERATOR, DRA))
    expect = release.derived["expect"]
    version = str(expect["chartVersion"]) if isinstance(expect, dict) else ""
    return (
        _TRIGGER.replace("OPERATOR", operator.name)
        .replace("IDENTITY", fingerprint(operator.chart, operator.chart.identity))
        .replace("VERSION", version)
        .replace("PLUGIN", plugin.name)
        .replace("CHART", plugin.chart.name)
        .replace("KNOWN", " ".join(f'"{name}"' for name in KNOWN_PLUGINS))
        .replace("SERVER", SERVER)
        .replace("REGARDING", REGARDING)
        .replace("RESOURCE", RESOURCE)
        .replace("OURS", release.name)
    )


def _source(plan: Plan, release: Release) -> Object:
    found = source(plan, release)
    if isinstance(release.chart, Copied):
        path = f"{{{{ with .Values.git.path }}}}{{{{ . }}}}/{{{{ end }}}}{release.folder}/chart"
        found = {"repoURL": "{{ .Values.git.url }}", "path": path, "targetRevision": "{{ .Values.git.revision }}"}
    return {**found, "helm": {"releaseName": release.name, "values": "VALUES"}}
