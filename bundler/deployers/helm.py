"""Helm by itself: a script for each release, and one that runs them in their order."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from bundler import timing
from bundler.charts import Copied
from bundler.deployers.common import values_file
from bundler.output import Files
from bundler.recipe import POST

if TYPE_CHECKING:
    from bundler.plan import Plan, Release

USE: Final = """\
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


def files(plan: Plan) -> Files:
    """Give the files."""
    result = Files()
    result.add_script("install.sh", _ALL.format(steps=" ".join(release.folder for release in plan.releases)))
    for release in plan.releases:
        if isinstance(release.chart, Copied):
            result.add_tree(f"{release.folder}/chart", release.chart.files)
        result.add(f"{release.folder}/values.yaml", values_file(plan, release))
        result.add_script(f"{release.folder}/install.sh", _script(plan, release))
    return result


def _script(plan: Plan, release: Release) -> str:
    # Values that are not said again would be taken from the last release: a stale trigger or expectation.
    groups = [
        ["--namespace", release.namespace, "--create-namespace"],
        ["--reset-values", "--values", "values.yaml"],
    ]
    comment = ""
    if release.name == POST:
        waits = [] if plan.hook else ["--wait", "--wait-for-jobs"]
        groups.append([*waits, "--timeout", timing.text(plan.outer)])
        comment = _COMMENT if plan.hook else _JOB_COMMENT
    # The user's arguments come first, because of two values files and of two limits Helm takes the later one.
    lines = [shlex.join([release.name, *_chart(release)]), '"$@"', *(shlex.join(group) for group in groups)]
    arguments = " \\\n  ".join(lines)
    return _ONE.format(comment=comment, arguments=arguments)


def _chart(release: Release) -> list[str]:
    chart = release.chart
    if isinstance(chart, Copied):
        return ["./chart"]
    if chart.registry:
        return [f"oci://{chart.registry}/{chart.name}", "--version", chart.version]
    return [chart.name, "--repo", chart.repository, "--version", chart.version]
