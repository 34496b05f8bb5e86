"""The command line of the bundler: ``trigger`` and ``bundle``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bundler import bundle as bundles
from bundler import documents, output, plan, recipe, trigger
from bundler.documents import to_yaml
from bundler.recipe import DRA, OPERATOR, POST
from bundler.values import merged
from hook import __version__

if TYPE_CHECKING:
    from bundler.documents import Mapping

EXIT_DIVERGED: Final = 1
CONTEXT: Final = {"help_option_names": ["-h", "--help"]}
"""Without environment variables: what is written depends on the arguments alone, and the same names mean the run."""
COMPONENTS: Final = (OPERATOR, POST, DRA)

_FILE: Final = click.Path(path_type=Path)
_RECIPE: Final = click.option("--recipe", "recipe_file", type=_FILE, required=True, help="A resolved AICR recipe.")
_QUALIFIED: Final = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


def _version(_ctx: click.Context, _param: click.Parameter, version: str) -> str:
    """Refuse what a recipe could not have as a version either."""
    if version and not recipe.is_version(version):
        raise click.BadParameter(f"{version!r} is no version")
    return version


def _qualified(_ctx: click.Context, _param: click.Parameter, key: str) -> str:
    """Refuse what Kubernetes does not take for the key of an annotation."""
    if _QUALIFIED.fullmatch(key) is None:
        raise click.BadParameter(f"{key!r} is no annotation key")
    return key


_KEY: Final = click.option(
    "--key",
    callback=_qualified,
    default=trigger.KEY,
    show_default=True,
    help=f"The annotation. Older AICR bundles carry {trigger.OLDER_KEY}.",
)


class Assignment(click.ParamType[tuple[str, str]]):
    """``COMPONENT=SOMETHING``."""

    name = "component=…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:  # noqa: ANN401
        """Split it, and refuse a component that no bundle has."""
        component, equals, rest = str(value).partition("=")
        if component not in COMPONENTS or not equals or not rest:
            self.fail(f"{value!r} is not COMPONENT=… with one of {', '.join(COMPONENTS)}", param, ctx)
        return component, rest


@click.group(context_settings=CONTEXT)
@click.version_option(__version__)
def main() -> None:
    """Make a resolved AICR recipe into files for a deployment tool.

    Exit codes: 0 done, 1 values that diverge from the recipe, or a disk or Helm that failed, 2 wrong input or usage.
    """


@main.group("trigger", context_settings=CONTEXT)
def trigger_group() -> None:
    """Derive the annotation that re-rolls the DRA driver's pods with each chart version of the GPU operator."""


@trigger_group.command(context_settings=CONTEXT)
@_RECIPE
@click.option("--values", "values_files", type=_FILE, multiple=True, help="Values of the DRA driver; repeatable.")
@_KEY
def derive(recipe_file: Path, values_files: tuple[Path, ...], key: str) -> None:
    """Print the values to lay over the DRA driver's, as the last --values of all.

    Prints nothing where the recipe switches one of the two components off. With --values the pods' other
    annotations of those files are printed as well, for tools that replace mappings instead of merging them.
    """
    overlay = trigger.annotated(recipe.read(recipe_file), key, _layered(values_files), _names(values_files))
    if overlay:
        click.echo(to_yaml(overlay), nl=False)


@trigger_group.command(context_settings=CONTEXT)
@_RECIPE
@click.option(
    "--values", "values_files", type=_FILE, multiple=True, required=True, help="Values of the DRA driver; repeatable."
)
@_KEY
def check(recipe_file: Path, values_files: tuple[Path, ...], key: str) -> None:
    """Exit 1 where the values' annotations are not what the recipe says, and name both."""
    given = _layered(values_files)
    found = trigger.divergences(recipe.read(recipe_file), key, given, _names(values_files))
    for divergence in found:
        click.echo(f"{_names(values_files)}: {divergence}", err=True)
    if found:
        click.echo("Lay the output of `gpu-operator-post-bundler trigger derive` over these values.", err=True)
        sys.exit(EXIT_DIVERGED)


@main.command(context_settings=CONTEXT)
@_RECIPE
@click.option("--deployer", type=click.Choice(bundles.NAMES), required=True, help="Who will deploy it.")
@click.option("--output", "target", type=_FILE, required=True, help="Directory to write.")
@click.option("--force", is_flag=True, help="Replace an earlier bundle, all of it.")
@click.option("--timeout", default="", help="Time of the run, such as 25m; default: its values', else the chart's.")
@click.option("--hook/--no-hook", default=True, show_default=True, help="A hook, or a plain Job with its own name.")
@click.option(
    "--values", "values", type=Assignment(), multiple=True, help="COMPONENT=FILE: values over the recipe's; repeatable."
)
@click.option("--data", type=_FILE, help="Directory that the recipe's valuesFile paths begin in.")
@click.option(
    "--chart",
    "charts",
    type=Assignment(),
    multiple=True,
    help="COMPONENT=SOURCE: a chart's repository (oci://, https://), gpu-operator-post's above all, which recipes do "
    "not name; or a chart's directory to copy; repeatable.",
)
@click.option(
    "--post-version",
    callback=_version,
    default="",
    help="Chart version of gpu-operator-post; default: this program's.",
)
@click.option("--git-url", default="", help="Repository that the bundle will be committed to.")
@click.option("--git-revision", default="main", show_default=True, help="Its branch.")
@click.option("--git-path", default="", help="The bundle's folder in it; default: its root.")
@click.option("--helm", "helm_name", default="helm", show_default=True, help="Helm that renders plain manifests.")
@_KEY
def bundle(recipe_file: Path, deployer: str, target: Path, force: bool, helm_name: str, **values: Any) -> None:  # noqa: ANN401 - click passes parsed flags
    """Write a complete, ordered set for a deployer: GPU operator, gpu-operator-post, DRA driver."""
    found = recipe.read(recipe_file)
    made = plan.make(found, bundles.request(found, deployer, values))
    files = bundles.files(made, deployer, helm_name)
    output.write(files, target, force=force)
    for note in made.notes:
        click.echo(f"note: {note}")
    click.echo(f"{len(files.contents)} files in {target}")


def _layered(files: tuple[Path, ...]) -> Mapping:
    return merged(*(documents.read(file) for file in files))


def _names(files: tuple[Path, ...]) -> str:
    return " + ".join(documents.name_of(file) for file in files)
