"""helmfile: one state file with the releases, which depend on one another by ``needs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bundler.charts import Copied, Remote
from bundler.documents import to_yaml
from bundler.recipe import OPERATOR, POST
from bundler.targets.helm import with_values

if TYPE_CHECKING:
    from bundler.output import Files
    from bundler.releases import Bundle, Release

Object = dict[str, Any]
_COMMENT: Final = """\
needs: GPU operator, then the run that keeps the DRA kubelet plugins fresh, then the DRA driver.
timeout: the default of helmfile and Helm, 5 minutes, would end before the run does.
disableValidationOnInstall: the diff of a first apply cannot know the kinds that the operator's chart installs.
Helm 4 with helm-diff 3.9: set HELM_DIFF_USE_UPGRADE_DRY_RUN=true in the environment of helmfile apply."""


def files(bundle: Bundle) -> Files:
    """Return the files for helmfile."""
    repositories = [
        _repository(release.name, release.chart) for release in bundle.releases if isinstance(release.chart, Remote)
    ]
    state: Object = {
        **({"repositories": repositories} if repositories else {}),
        "helmDefaults": {"createNamespace": True},
        "releases": [_release(bundle, release) for release in bundle.releases],
    }
    return {**with_values(bundle), "helmfile.yaml": to_yaml(state, _COMMENT)}


def _repository(name: str, chart: Remote) -> Object:
    return (
        {"name": name, "url": chart.registry, "oci": True}
        if chart.registry
        else {"name": name, "url": chart.repository}
    )


def _release(bundle: Bundle, release: Release) -> Object:
    chart = release.chart
    result: Object = {"name": release.name, "namespace": release.namespace}
    if isinstance(chart, Copied):
        result["chart"] = f"./{release.folder}/chart"
    else:
        result |= {"chart": f"{release.name}/{chart.name}", "version": chart.version}
    result["values"] = [f"./{release.folder}/values.yaml"]
    if before := bundle.before(release):
        result["needs"] = [f"{before.namespace}/{before.name}"]
    if release.name == OPERATOR:
        result["disableValidationOnInstall"] = True
    if release.component == POST:
        result["timeout"] = bundle.limit_seconds
        if not bundle.hook:
            result |= {"wait": True, "waitForJobs": True}
    return result
