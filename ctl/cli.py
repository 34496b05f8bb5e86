"""The command line of ``kubectl gpu-operator-post``. No command writes to the cluster."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from click.shell_completion import ShellComplete

from ctl.page import page
from ctl.plan.plan import Options, make_plan
from ctl.plan.table import table
from ctl.reading import passthrough_claims, removed_pods
from ctl.watch import watch
from hook import __version__
from hook.cli import EXIT_CODE, OUTPUTS, ending, opened, show
from hook.errors import OutputError, SettingsError
from hook.flags import KUBECONFIG, VERBOSE, WHAT, DurationType, examples, flags
from hook.log import write
from hook.run.status import Viewer, read_cache

PROGRAM: Final = "kubectl gpu-operator-post"
CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
NO_FILES, OR_FILES = ":4", ":0"
"""Directives of Cobra's completion: whether the shell may complete file names."""
COMMON: Final = (
    click.option("-n", "--namespace", "plugin_namespace", help="Namespace of the plugins. Default: any namespace."),
    *KUBECONFIG,
    *WHAT,
    *VERBOSE,
)


def start() -> None:
    """Start the program under the name by which kubectl knows it."""
    main(prog_name=PROGRAM)


def complete() -> None:
    """Print the words that may follow those of the command line, in the form that kubectl's own completion asks for."""
    *before, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(main, {}, PROGRAM, "").get_completions(before, incomplete)
    words = [item.value for item in found if item.type == "plain"]
    click.echo("\n".join([*words, NO_FILES if words else OR_FILES]))


@click.group(context_settings=CONTEXT)
def main() -> None:
    """Look at GPU driver upgrades: before, during and after them.

    No command writes to the cluster.
    """


@main.command(short_help="Print the version.", epilog=examples(PROGRAM, "version"))
def version() -> None:
    """Print the version of this program."""
    click.echo(__version__)


@main.command(
    short_help="Show the state of each node.",
    epilog=examples(PROGRAM, "status", "status --context=prod --watch", "status -o json --exit-code"),
)
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default=OUTPUTS[0], show_default=True)
@click.option("-w", "--watch", is_flag=True, help="Show the table again whenever it changes, until Ctrl-C (exit 130).")
@EXIT_CODE
@flags(COMMON)
def status(**values: Any) -> None:  # noqa: ANN401 - click passes parsed flags
    """Show the state of each node, with the same evaluation as the Job and the controller."""
    with ending():
        if values["watch"] and (values["output"] != OUTPUTS[0] or values["exit_code"]):
            raise SettingsError("--watch has no end: it goes with neither --exit-code nor another --output than table")
        viewer = Viewer(*opened(values))
        if values["watch"]:
            watch(viewer)
        view = viewer.look()
        viewer.stop()
        show(view, values)


@main.command(
    short_help="Write a page of HTML about each node, for a ticket.",
    epilog=examples(PROGRAM, "report > report.html", "report --stack=network -o network.html"),
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="-",
    help="File to write; default: standard output.",
)
@flags(COMMON)
def report(output: str, **values: Any) -> None:  # noqa: ANN401 - click passes parsed flags
    """Write one page of HTML, without other files: nodes, timelines, affected pods, and what to do."""
    with ending():
        api, settings = opened(values)
        viewer = Viewer(api, settings)
        view = viewer.look()
        viewer.stop()
        html = page(view, passthrough_claims(api, view.fleet.snapshot))
        if output == "-":
            write(html)
        else:
            _write_file(Path(output), f"{html}\n")


def _write_file(file: Path, text: str) -> None:
    """Write a file. Raises OutputError."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(str(file), error) from None


@main.command(
    short_help="Show how long an upgrade takes, and what will block it.",
    epilog=examples(PROGRAM, "plan", "plan --target-window=2h"),
)
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default=OUTPUTS[0], show_default=True)
@click.option(
    "--target-window",
    type=DurationType(),
    metavar="DURATION",
    help="Also show how many nodes at once finish within this time.",
)
@flags(COMMON)
def plan(**values: Any) -> None:  # noqa: ANN401 - click passes parsed flags
    """Show how long an upgrade takes, which capacity it needs, and what will block it."""
    with ending():
        api, settings = opened(values)
        cache = read_cache(api, settings)
        cache.stop()
        snapshot = cache.snapshot()
        pods, claims = removed_pods(api, settings, snapshot), passthrough_claims(api, snapshot)
        made = make_plan(snapshot, settings, datetime.now(UTC), Options(values["target_window"], pods, claims))
        as_json = values["output"] == "json"
        write(json.dumps(msgspec.to_builtins(made), indent=2) if as_json else "\n".join(table(made)))
