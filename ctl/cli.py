"""The command line of ``kubectl gpu-operator-post``. No command writes to the cluster."""

from __future__ import annotations

import json
import sys
from typing import Any, Final, TextIO

import click

from ctl import pods
from ctl.page import page
from ctl.plan import plan as plans
from ctl.watch import watch
from hook import __version__
from hook.cli import EXIT_CODE, OUTPUTS, connect, ending, show, viewer_of
from hook.errors import SettingsError
from hook.flags import KUBECONFIG, VERBOSE, WHAT, DurationType, flags, settings_of
from hook.kube.client import SERVICE_ACCOUNT_DIR
from hook.log import configure
from hook.run import lookup

PROGRAM: Final = "kubectl gpu-operator-post"
CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
COMMON: Final = (
    click.option("-n", "--namespace", "plugin_namespace", help="Namespace of the plugins. Default: any namespace."),
    *KUBECONFIG,
    *WHAT,
    *VERBOSE,
)
IN_A_POD: Final = {"service_account_dir": SERVICE_ACCOUNT_DIR}
"""Where the credentials are if there is no kubeconfig."""


def examples(*lines: str) -> str:
    """Return the end of a command's help. The first character keeps click from wrapping it."""
    return "\n".join(["\b", "Examples:", *(f"  {PROGRAM} {line}" for line in lines)])


def start() -> None:
    """Start the program under the name by which kubectl knows it."""
    main(prog_name=PROGRAM)


@click.group(context_settings=CONTEXT)
def main() -> None:
    """Look at GPU driver upgrades: before, during and after them.

    No command writes to the cluster.
    """


@main.command(short_help="Print the version.")
def version() -> None:
    """Print the version of this program."""
    click.echo(__version__)


@main.command(
    short_help="Show the state of each node.",
    epilog=examples("status", "status --context=prod --watch", "status -o json --exit-code"),
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
        viewer = viewer_of({**values, **IN_A_POD})
        if values["watch"]:
            watch(viewer)
        view = viewer.look()
        viewer.stop()
    show(view, values)


@main.command(
    short_help="Write a page of HTML about each node, for a ticket.",
    epilog=examples("report > report.html", "report --stack=network -o network.html"),
)
@click.option(
    "-o", "--output", type=click.File("w", "utf-8"), default="-", help="File to write; default: standard output."
)
@flags(COMMON)
def report(output: TextIO, **values: Any) -> None:  # noqa: ANN401 - click passes parsed flags
    """Write one page of HTML, without other files: nodes, timelines, affected pods, and what to do."""
    with ending():
        viewer = viewer_of({**values, **IN_A_POD})
        view = viewer.look()
        viewer.stop()
    output.write(page(view) + "\n")


@main.command(
    short_help="Show how long an upgrade takes, and what will block it.",
    epilog=examples("plan", "plan --target-window=2h"),
)
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default=OUTPUTS[0], show_default=True)
@click.option(
    "--target-window",
    type=DurationType(),
    metavar="DURATION",
    help="Also show how many nodes at once finish within this time.",
)
@click.option(
    "--pods/--no-pods",
    default=True,
    show_default=True,
    help="Read all pods, to find those with GPUs that cannot be evicted.",
)
@flags(COMMON)
def plan(**values: Any) -> None:  # noqa: ANN401 - click passes parsed flags
    """Show how long an upgrade takes, which capacity it needs, and what will block it."""
    with ending():
        settings = settings_of(values)
        configure(settings.log_format, settings.log_level, sys.stderr)
        api = connect({**values, **IN_A_POD})
        snapshot = lookup.read_once(api, settings)
        found = pods.read(api, settings, snapshot, wanted=values["pods"])
        made = plans.make_plan(snapshot, settings, api.now(), plans.Options(values["target_window"], found))
    click.echo(
        json.dumps(plans.as_json(made), indent=2) if values["output"] == "json" else "\n".join(plans.table(made))
    )
