"""Options of the command line, and where settings come from: flags, above a file or the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from hook.errors import SettingsError
from hook.kube.client import SERVICE_ACCOUNT_DIR
from hook.objects.names import OWN_NAME
from hook.objects.stacks import StackName
from hook.settings import Duration, LogFormat, Settings, duration, settings_from

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VARIABLE: Final = "GPU_OPERATOR_POST_CONFIG"
"""Environment variable with the settings as a JSON object. The chart sets it in the pod."""


class DurationType(click.ParamType["Duration"]):
    """A duration with units, like those of Helm and Kubernetes."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Duration:  # noqa: ANN401
        """Parse ``25m``, ``90s`` or ``1h30m``; refuse a number without a unit, and no time at all."""
        try:
            found = duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return found or self.fail("it must be longer than 0s", param, ctx)


KUBECONFIG: Final = (
    click.option(
        "--kubeconfig",
        default="",
        help="Kubeconfig file; default: KUBECONFIG, else the pod's ServiceAccount, else ~/.kube/config.",
    ),
    click.option("--context", default="", help="Context in the kubeconfig."),
)
WHERE: Final = (
    *KUBECONFIG,
    click.option(
        "--service-account-dir",
        default=SERVICE_ACCOUNT_DIR,
        show_default=True,
        help="Folder with the pod's token, ca.crt and namespace.",
    ),
)
WHAT: Final = (
    click.option(
        "--config",
        default="",
        metavar="FILE",
        help=f"YAML or JSON file with the program's settings, which have the names of the chart's values; default: the "
        f"variable {VARIABLE}. Flags override it.",
    ),
    click.option(
        "--stack",
        type=click.Choice([name.value for name in StackName]),
        help="Driver stack whose plugins are refreshed. Default: gpu.",
    ),
    click.option(
        "--plugin-name",
        "plugin_names",
        multiple=True,
        help="DaemonSet of a plugin, instead of the known names of the stack's plugins. Repeatable.",
    ),
)
NAMESPACE: Final = (click.option("--plugin-namespace", help="Namespace of the plugins. Default: any namespace."),)
RUN: Final = (
    click.option(
        "--timeout",
        type=DurationType(),
        metavar="DURATION",
        help="Limit of the whole run, from the start of the Job. Default: 25m.",
    ),
    click.option("--dry-run", is_flag=True, help="Evaluate once and report, write nothing."),
    click.option(
        "--job-name", default="", help="Name of this program's Job: the timeout begins at its start, Events go there."
    ),
)
CONTROLLER: Final = (
    click.option("--lease-name", default=OWN_NAME, show_default=True, help="Name of the controller's Lease."),
    click.option("--identity", default="", help="Leader-election identity; default: host name and a random part."),
    click.option(
        "--workload-name",
        default="",
        help="Name of the controller's Deployment: Events go there.",
    ),
    click.option(
        "--listen",
        default=":8080",
        show_default=True,
        metavar="[HOST]:PORT",
        help="Address of metrics and health checks.",
    ),
)
POD: Final = (
    click.option(
        "--release-namespace",
        default="",
        help="Namespace of the objects that these flags name; default: the ServiceAccount's.",
    ),
    click.option(
        "--release-name",
        default=OWN_NAME,
        show_default=True,
        help="Name of the release's objects. Its device taint rules carry it, and belong to its ClusterRole "
        "NAMESPACE:NAME:device-taints:job, or :controller.",
    ),
    click.option("--status-name", default="", help="ConfigMap to write the state to."),
    click.option(
        "--termination-log",
        default="/dev/termination-log",
        show_default=True,
        help="File for the termination message; skipped if it does not exist.",
    ),
)
VERBOSE: Final = (
    click.option("-v", "--verbose", is_flag=True, flag_value="debug", default=None, help="Enable debug logging."),
)
LOGGING: Final = (
    click.option(
        "--log-format",
        type=click.Choice([choice.value for choice in LogFormat]),
        help="Format of the log. Default: text.",
    ),
    *VERBOSE,
)


SET_BY_THE_CHART: Final = frozenset(
    {
        "job_name",
        "lease_name",
        "identity",
        "workload_name",
        "listen",
        "release_name",
        "release_namespace",
        "status_name",
        "termination_log",
        "service_account_dir",
        "log_format",
    }
)
"""Options that people need only to replace the chart."""


class Command(click.Command):
    """A command whose help shows apart what the chart sets."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options."""
        found = [(each, record) for each in self.get_params(ctx) if (record := each.get_help_record(ctx))]
        for title, by_chart in (("Options", False), ("Set by the chart", True)):
            with formatter.section(title):
                formatter.write_dl([record for each, record in found if (each.name in SET_BY_THE_CHART) is by_chart])


class Program(click.Group):
    """A program with such commands."""

    command_class = Command


def examples(program: str, *lines: str) -> str:
    """Return the end of a command's help. The first character keeps click from wrapping it."""
    return "\n".join(["\b", "Examples:", *(f"  {program} {line}" for line in lines)])


def flags(*groups: tuple[Callable[[Any], Any], ...]) -> Callable[[Any], Any]:
    """Add groups of flags to a command, in this order."""

    def add(command: Any) -> Any:  # noqa: ANN401 - click's decorators are typed so
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return add


OVERRIDES: Final = {
    "stack": "stack",
    "timeout": "timeout",
    "dry_run": "dryRun",
    "log_format": "logFormat",
    "verbose": "logLevel",
}
OVERRIDES_OF_PLUGIN: Final = {"plugin_namespace": "namespace", "plugin_names": "names"}
"""Flags, and the settings that they override."""


def settings_of(values: Mapping[str, Any], *, controller: bool = False) -> Settings:
    """Return the settings: those of the file or else of the environment, and flags above both. Raises SettingsError."""
    source = f"--config {values['config']}" if values["config"] else VARIABLE
    tree = _file(values["config"]) if values["config"] else _variable()
    settings = _checked(source, tree, controller=controller)
    given: dict[str, Any] = {key: values[flag] for flag, key in OVERRIDES.items() if values.get(flag)}
    plugin = {key: values[flag] for flag, key in OVERRIDES_OF_PLUGIN.items() if values.get(flag)}
    if plugin:
        given["plugin"] = {**msgspec.to_builtins(settings.plugin), **plugin}
    return _checked("the flags", {**tree, **given}, controller=controller) if given else settings


def _checked(source: str, tree: Any, *, controller: bool) -> Settings:  # noqa: ANN401 - plain values of any kind
    try:
        return settings_from(tree, controller=controller)
    except SettingsError as error:
        raise SettingsError(f"{source}: {error}") from error


def _variable() -> Any:  # noqa: ANN401 - JSON of any kind
    text = os.environ.get(VARIABLE, "")
    try:
        return msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise SettingsError(f"{VARIABLE} is not JSON: {error}") from error


def _file(path: str) -> Any:  # noqa: ANN401 - YAML of any kind
    import yaml  # noqa: PLC0415 - only for people

    try:
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise SettingsError(f"--config {path} cannot be read: {' '.join(str(error).split())}") from error
    except (TypeError, LookupError, AttributeError, ArithmeticError) as error:
        # The library raises all of these for a tag that does not fit its value.
        raise SettingsError(f"--config {path} is not valid YAML: a tag does not fit its value") from error
    return {} if found is None else found
