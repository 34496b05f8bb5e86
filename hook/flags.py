"""Command-line flags, and where settings come from: flags, a file or the environment."""

from __future__ import annotations

import os
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import click
import msgspec

from hook.checks import settings_from
from hook.config import DEFAULTS, LogFormat, Settings
from hook.errors import SettingsError
from hook.format import as_text
from hook.kube.client import SERVICE_ACCOUNT_DIR
from hook.objects.drivers import StackName
from hook.objects.names import OWN_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VARIABLE: Final = "GPU_OPERATOR_POST_CONFIG"
"""Environment variable with the settings as a JSON object. The chart sets it in the pod."""
OVERRIDES: Final = {
    "stack": "stack",
    "plugin_namespace": "plugin.namespace",
    "plugin_names": "plugin.names",
    "timeout": "timeout",
    "dry_run": "dryRun",
    "log_format": "logFormat",
    "verbose": "logLevel",
}
"""Flags that override a setting."""


def setting(*names: str, **options: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - click's options
    """Return a flag that overrides a setting. Its help and its default are those of the setting."""
    name = options.pop("name", names[-1].removeprefix("--").replace("-", "_"))
    block: Any = Settings
    default: Any = DEFAULTS
    for key in OVERRIDES[name].split("."):
        field = next(field for field in msgspec.structs.fields(block) if field.encode_name == key)
        block, default = field.type, getattr(default, field.name)
    description = next(part.description for part in get_args(block)[1:] if part.description).replace("`", "")
    text = as_text(default) if isinstance(default, timedelta) else ", ".join(default or ())
    text = str(default) if isinstance(default, StrEnum) else text
    notes = [description, "Repeatable." if options.get("multiple") else "", f"Default: {text}." if text else ""]
    return click.option(*names, name, help=" ".join(filter(None, notes)), **options)


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
    setting("--stack", type=click.Choice([name.value for name in StackName])),
    setting("--plugin-name", name="plugin_names", multiple=True),
)
NAMESPACE: Final = (setting("--plugin-namespace"),)
RUN: Final = (
    setting("--timeout", metavar="DURATION"),
    setting("--dry-run", is_flag=True),
    click.option(
        "--job-name", default="", help="Name of this program's Job: the timeout begins at its start, Events go there."
    ),
    click.option("--job-namespace", default="", help="Namespace of that Job; default: the ServiceAccount's."),
)
CONTROLLER: Final = (
    click.option("--lease-name", default=OWN_NAME, show_default=True, help="Name of the controller's Lease."),
    click.option("--lease-namespace", default="", help="Namespace of the Lease; default: the ServiceAccount's."),
    click.option("--identity", default="", help="Leader-election identity; default: host name and a random part."),
    click.option(
        "--workload-name",
        default="",
        help="Name of the controller's Deployment, in the namespace of the Lease: Events go there.",
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
    click.option("--status-name", default="", help="ConfigMap to write the state to, next to the Job or the Lease."),
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
LOGGING: Final = (setting("--log-format", type=click.Choice([choice.value for choice in LogFormat])), *VERBOSE)


def flags(*groups: tuple[Callable[[Any], Any], ...]) -> Callable[[Any], Any]:
    """Add groups of flags to a command, in this order."""

    def add(command: Any) -> Any:  # noqa: ANN401 - click's decorators are typed so
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return add


def settings_of(values: Mapping[str, Any], *, controller: bool = False) -> Settings:
    """Return the settings: those of the file or else of the environment, and flags above both. Raises SettingsError."""
    tree = _file(values["config"]) if values["config"] else _variable()
    return settings_from(_overridden(tree, values), controller=controller)


def _variable() -> object:
    text = os.environ.get(VARIABLE, "")
    try:
        return msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError) as error:
        raise SettingsError(f"{VARIABLE} is not JSON: {error}") from error


def _file(path: str) -> object:
    import yaml  # noqa: PLC0415 - only for people

    try:
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise SettingsError(f"--config {path} cannot be read: {' '.join(str(error).split())}") from error
    return {} if found is None else found


def _overridden(tree: object, values: Mapping[str, Any]) -> object:
    """Return the settings with those that flags name."""
    for flag, path in OVERRIDES.items():
        if not isinstance(tree, dict):
            return tree
        if value := values.get(flag):
            tree = _with(tree, path.split("."), value)
    return tree


def _with(tree: dict[str, Any], path: list[str], value: object) -> dict[str, Any]:
    """Return a copy of the tree with a value at a path. Where the path leads through no block, nothing changes."""
    first, *rest = path
    if not rest:
        return {**tree, first: value}
    block = tree.get(first, {})
    return {**tree, first: _with(block, rest, value)} if isinstance(block, dict) else tree
