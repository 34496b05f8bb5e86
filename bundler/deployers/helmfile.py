"""helmfile: one state file with the releases chained by ``needs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bundler.charts import Copied
from bundler.deployers.common import Object, values_file
from bundler.output import Files
from bundler.recipe import OPERATOR, POST
from bundler.text import to_yaml

if TYPE_CHECKING:
    from bundler.plan import Plan, Release

USE: Final = """\
```console
helmfile apply   # or: helmfile sync
```

With Helm 4 and helm-diff 3.9 set `HELM_DIFF_USE_UPGRADE_DRY_RUN=true` for `apply` and `diff`: without it helm-diff
calls Helm with two flags that Helm 4 does not take together. `sync` needs no helm-diff.

`apply` runs the hook only where its diff shows a change, which the tracked `trigger` makes sure of. **After a failed
hook use `helmfile sync`**: a second, unchanged `apply` sees no difference, runs nothing and returns 0.
"""
_COMMENT: Final = """\
needs: GPU operator, then the run that keeps the DRA kubelet plugins fresh, then the DRA driver.
timeout: helmfile and Helm would give up after 5 minutes, before the run does.
disableValidationOnInstall: the diff of a first apply cannot know the kinds that the operator's chart brings along.
Helm 4 with helm-diff 3.9: set HELM_DIFF_USE_UPGRADE_DRY_RUN=true in the environment of helmfile apply."""


def files(plan: Plan) -> Files:
    """Give the files."""
    result = Files()
    for release in plan.releases:
        if isinstance(release.chart, Copied):
            result.add_tree(f"{release.folder}/chart", release.chart.files)
        result.add(f"{release.folder}/values.yaml", values_file(plan, release))
    state: Object = {"repositories": repositories} if (repositories := _repositories(plan)) else {}
    state |= {"helmDefaults": {"createNamespace": True}, "releases": [_release(plan, one) for one in plan.releases]}
    result.add("helmfile.yaml", to_yaml(state, _COMMENT))
    return result


def _repositories(plan: Plan) -> list[Object]:
    found: list[Object] = []
    for release in plan.releases:
        chart = release.chart
        if isinstance(chart, Copied):
            continue
        if chart.registry:
            found.append({"name": release.name, "url": chart.registry, "oci": True})
        else:
            found.append({"name": release.name, "url": chart.repository})
    return found


def _release(plan: Plan, release: Release) -> Object:
    chart = release.chart
    found: Object = {"name": release.name, "namespace": release.namespace}
    if isinstance(chart, Copied):
        found["chart"] = f"./{release.folder}/chart"
    else:
        found |= {"chart": f"{release.name}/{chart.name}", "version": chart.version}
    found["values"] = [f"./{release.folder}/values.yaml"]
    if before := plan.before(release):
        found["needs"] = [f"{before.namespace}/{before.name}"]
    if release.name == OPERATOR:
        found["disableValidationOnInstall"] = True
    if release.name == POST:
        found["timeout"] = plan.outer
        if not plan.hook:
            found |= {"wait": True, "waitForJobs": True}
    return found
