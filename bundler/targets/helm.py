"""Helm: a script for each release, and one that runs them in order."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from bundler.charts import Copied, Remote
from bundler.documents import to_yaml
from bundler.output import template
from bundler.recipe import POST
from bundler.values import duration

if TYPE_CHECKING:
    from bundler.output import Files
    from bundler.releases import Bundle, Release

_TIMEOUT: Final = "# Helm's default timeout of 5 minutes would end before the run does.\n"
_WAIT: Final = "# Helm waits for an ordinary Job only with --wait-for-jobs.\n"


def files(bundle: Bundle) -> Files:
    """Return the files for Helm."""
    result = with_values(bundle)
    steps = " ".join(release.folder for release in bundle.releases)
    result["install.sh"] = template("helm/install.sh", steps=steps)
    for release in bundle.releases:
        result[f"{release.folder}/install.sh"] = _script(bundle, release)
    return result


def with_values(bundle: Bundle) -> Files:
    """Return the copied charts, and a file of values for each release."""
    values = {
        f"{release.folder}/values.yaml": to_yaml(release.values, bundle.comment(release)) for release in bundle.releases
    }
    return {**bundle.chart_files(), **values}


def _script(bundle: Bundle, release: Release) -> str:
    # Without --reset-values Helm keeps values of the last release: an outdated trigger or expectation.
    groups = [
        ["--namespace", release.namespace, "--create-namespace"],
        ["--reset-values", "--values", "values.yaml"],
    ]
    comment = ""
    if release.component == POST:
        wait = [] if bundle.hook else ["--wait", "--wait-for-jobs"]
        groups.append([*wait, "--timeout", duration(bundle.limit_seconds)])
        comment = _TIMEOUT if bundle.hook else _WAIT + _TIMEOUT
    chart = ["./chart"] if isinstance(release.chart, Copied) else chart_arguments(release.chart)
    # The user's arguments come first: of two values files or timeouts Helm takes the later one.
    lines = [shlex.join([release.name, *chart]), '"$@"', *(shlex.join(group) for group in groups)]
    return template("helm/install-release.sh", comment=comment, arguments=" \\\n  ".join(lines))


def chart_arguments(chart: Remote) -> list[str]:
    """Return Helm's arguments for a chart in a repository."""
    if chart.registry:
        return [f"{chart.repository}/{chart.name}", "--version", chart.version]
    return [chart.name, "--repo", chart.repository, "--version", chart.version]
