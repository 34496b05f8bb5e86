"""Argo CD with a parent chart: the Applications are its templates, so that users can set values at install time.

The chart lays the derived values over such values when Argo CD renders it. The templates compute the trigger, because
it must change with the values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bundler.charts import Copied, fingerprint
from bundler.documents import to_yaml
from bundler.output import template
from bundler.recipe import POST
from bundler.targets.argocd import (
    BY_HEALTH,
    COMPLETE_BY,
    NAMESPACE,
    PARENT,
    SERVER,
    Object,
    application,
    order,
    patch,
    source,
)
from bundler.values import look_up
from hook import __version__

if TYPE_CHECKING:
    from bundler.documents import Mapping
    from bundler.output import Files
    from bundler.releases import Bundle, Release

_COMMENT: Final = (
    "Values for the chart of a release go below its name. They override those in static/; derived/ overrides them."
)
_INSTALL_TIME: Final = ("timeout", "trigger", "plugin")
"""Derived values that the templates compute, or that users may change at install time."""
_CHART_VERSION: Final = ("expect", "chartVersion")
_BY_MODE: Final = (
    "{{ eq (get (get $values `job` | default dict) `enabled` | toString) `false` "
    f"| ternary `{BY_HEALTH}` `operation` }}}}"
)
_NO_VALUES: Final = '      values: ""\n'
_VALUES: Final = "      values: |\n        {{- toYaml $values | nindent 8 }}\n"


def files(bundle: Bundle) -> Files:
    """Return the files for Argo CD with a parent chart."""
    result = {**bundle.chart_files(), **patch(bundle, status=True)}
    settings: Object = {"argocd": {"namespace": NAMESPACE, "project": "default", "server": SERVER}}
    values = {**settings, **{release.name: {} for release in bundle.releases}}
    result["values.yaml"] = to_yaml(values, _COMMENT)
    result["templates/_helpers.tpl"] = template("argocd-helm/_helpers.tpl")
    for release in bundle.releases:
        result[f"static/{release.name}.yaml"] = to_yaml(_static(release))
        result[f"derived/{release.name}.yaml"] = to_yaml(_derived(release))
        result[f"templates/{release.name}.yaml"] = _template(bundle, release)
    contents = {name: text.encode() if isinstance(text, str) else text for name, text in result.items()}
    chart: Object = {
        "apiVersion": "v2",
        "name": PARENT,
        "description": f"Argo CD Applications: {', '.join(release.name for release in bundle.releases)}",
        "type": "application",
        # A registry keeps the content of a version, so other content needs another version.
        "version": f"{__version__}-b{fingerprint(Copied(contents), {})}",
    }
    return {**result, "Chart.yaml": to_yaml(chart)}


def _static(release: Release) -> Mapping:
    """Return the values that users may change at install time. The timeout is one: Argo CD has none of its own."""
    return {**release.given, **({"timeout": release.derived["timeout"]} if release.component == POST else {})}


def _derived(release: Release) -> Mapping:
    """Return the derived values that do not depend on values of the installation."""
    derived = {key: value for key, value in release.derived.items() if key not in _INSTALL_TIME}
    if release.component == POST:
        derived["expect"] = {"chartVersion": look_up(release.derived, _CHART_VERSION, str, POST)}
    return derived


def _template(bundle: Bundle, release: Release) -> str:
    where = {**source(bundle, release), "helm": {"releaseName": release.name, "values": ""}}
    found = application(release.name, order(bundle, release), where, release.namespace)
    found["metadata"]["namespace"] = "{{ .Values.argocd.namespace }}"
    if release.name == POST and bundle.hook:
        found["metadata"]["annotations"][COMPLETE_BY] = _BY_MODE
    found["spec"]["project"] = "{{ .Values.argocd.project }}"
    found["spec"]["destination"]["server"] = "{{ .Values.argocd.server }}"
    return template(
        "argocd-helm/application.tpl",
        note=bundle.comment(release),
        name=release.name,
        derived=_install_time_values(bundle, release) if release.component == POST else "",
        application=to_yaml(found).replace(_NO_VALUES, _VALUES).rstrip(),
    )


def _install_time_values(bundle: Bundle, post: Release) -> str:
    """Return the lines that derive values of gpu-operator-post from those of the installation."""
    operator, _, dra = bundle.releases
    return template(
        "argocd-helm/derived.tpl",
        fingerprint=fingerprint(operator.chart, operator.chart.identity),
        version=look_up(post.derived, _CHART_VERSION, str, POST),
        chart=dra.chart.name,
    )
