"""Helm, by itself and by helmfile: a script for each release, or one state file with the releases chained by needs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

from bundler.documents import to_yaml
from bundler.output import Files
from bundler.plan import Copied, Remote, duration
from bundler.recipe import OPERATOR, POST

if TYPE_CHECKING:
    from bundler.plan import Plan, Release

HELM: Final = """\
```console
sh install.sh
```

installs or upgrades the releases in their order, and stops at the first that fails. What is written after
`install.sh` goes to every `helm`, such as `--kube-context=NAME`; `HELM=/path/to/helm` names another Helm (3.18 or
later, or 4). Of two values files and of two limits those of the bundle win; `--set` would defeat what is derived.
Running it again is always safe.
"""

_ALL: Final = """\
#!/bin/sh
# Installs or upgrades all releases, in this order; the arguments go to every helm.
set -eu
cd "$(dirname "$0")"
for step in {steps}; do
  sh "$step/install.sh" "$@"
done
"""
_ONE: Final = """\
#!/bin/sh
{comment}\
set -eu
cd "$(dirname "$0")"
"${{HELM:-helm}}" upgrade --install {arguments}
"""
_COMMENT: Final = """\
# Helm's own limit of 5 minutes would end before the run does.
"""
_JOB_COMMENT: Final = """\
# A plain Job is waited for only if Helm is told so; and Helm's own limit of 5 minutes would end before the run does.
"""
HELMFILE: Final = """\
```console
helmfile apply   # or: helmfile sync
```

With Helm 4 and helm-diff 3.9 set `HELM_DIFF_USE_UPGRADE_DRY_RUN=true` for `apply` and `diff`: without it helm-diff
calls Helm with two flags that Helm 4 does not take together. `sync` needs no helm-diff.

`apply` runs the hook only where its diff shows a change, which the tracked `trigger` makes sure of. **After a failed
hook use `helmfile sync`**: a second, unchanged `apply` sees no difference, runs nothing and returns 0.
"""
_HELMFILE_COMMENT: Final = """\
needs: GPU operator, then the run that keeps the DRA kubelet plugins fresh, then the DRA driver.
timeout: helmfile and Helm would give up after 5 minutes, before the run does.
disableValidationOnInstall: the diff of a first apply cannot know the kinds that the operator's chart brings along.
Helm 4 with helm-diff 3.9: set HELM_DIFF_USE_UPGRADE_DRY_RUN=true in the environment of helmfile apply."""


def _with_values(plan: Plan) -> Files:
    """Begin with what both need: copied charts, and a file of values per release."""
    result = Files.with_charts(plan)
    for release in plan.releases:
        result.add(f"{release.folder}/values.yaml", to_yaml(release.values, plan.note(release)))
    return result


def helm(plan: Plan) -> Files:
    """Return the files for Helm."""
    result = _with_values(plan)
    steps = " ".join(release.folder for release in plan.releases)
    result.add("install.sh", _ALL.format(steps=steps), executable=True)
    for release in plan.releases:
        result.add(f"{release.folder}/install.sh", _script(plan, release), executable=True)
    return result


def _script(plan: Plan, release: Release) -> str:
    # Helm would take values that are not given again from the last release: a stale trigger or expectation.
    groups = [
        ["--namespace", release.namespace, "--create-namespace"],
        ["--reset-values", "--values", "values.yaml"],
    ]
    comment = ""
    if release.name == POST:
        waits = [] if plan.hook else ["--wait", "--wait-for-jobs"]
        groups.append([*waits, "--timeout", duration(plan.outer)])
        comment = _COMMENT if plan.hook else _JOB_COMMENT
    # The user's arguments come first, because of two values files and of two limits Helm takes the later one.
    lines = [shlex.join([release.name, *_chart(release)]), '"$@"', *(shlex.join(group) for group in groups)]
    return _ONE.format(comment=comment, arguments=" \\\n  ".join(lines))


def _chart(release: Release) -> list[str]:
    chart = release.chart
    return ["./chart"] if isinstance(chart, Copied) else chart_arguments(chart)


def chart_arguments(chart: Remote) -> list[str]:
    """Return the arguments that name a chart in a repository."""
    if chart.registry:
        return [f"{chart.repository}/{chart.name}", "--version", chart.version]
    return [chart.name, "--repo", chart.repository, "--version", chart.version]


def helmfile(plan: Plan) -> Files:
    """Return the files for helmfile."""
    result = _with_values(plan)
    state: dict[str, Any] = {"repositories": repositories} if (repositories := _repositories(plan)) else {}
    releases = [_release(plan, release) for release in plan.releases]
    state |= {"helmDefaults": {"createNamespace": True}, "releases": releases}
    result.add("helmfile.yaml", to_yaml(state, _HELMFILE_COMMENT))
    return result


def _repositories(plan: Plan) -> list[dict[str, Any]]:
    charts = ((release.name, release.chart) for release in plan.releases)
    return [
        {"name": name, "url": chart.registry, "oci": True}
        if chart.registry
        else {"name": name, "url": chart.repository}
        for name, chart in charts
        if isinstance(chart, Remote)
    ]


def _release(plan: Plan, release: Release) -> dict[str, Any]:
    chart = release.chart
    found: dict[str, Any] = {"name": release.name, "namespace": release.namespace}
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
