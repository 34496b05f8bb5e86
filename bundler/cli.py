"""The command line of the bundler: ``bundle``, ``trigger derive`` and ``trigger check``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bundler import charts, derived, documents, output, recipe, releases, targets
from bundler.documents import to_yaml
from bundler.recipe import COMPONENTS
from bundler.request import Request
from bundler.values import merged
from hook import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from bundler.documents import Mapping

_FILE: Final = click.Path(path_type=Path)
_RECIPE: Final = click.option("--recipe", "recipe_file", type=_FILE, required=True, help="A resolved AICR recipe.")
_VALUES: Final[dict[str, Any]] = {"type": _FILE, "multiple": True, "help": "Values of the DRA driver; repeatable."}
_KEY: Final = click.option(
    "--key",
    default=derived.KEY,
    show_default=True,
    help=f"The annotation. Older AICR bundles use {derived.OLDER_KEY}.",
)


def _examples(*lines: str) -> str:
    """Return the end of a command's help. The first character keeps click from wrapping it."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


class Assignment(click.ParamType[tuple[str, Any]]):
    """A pair ``COMPONENT=SOMETHING``, of which the second part is read."""

    name = "component=…"

    def __init__(self, read: Callable[[str], object]) -> None:
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:  # noqa: ANN401
        """Split the pair, and refuse an unknown component."""
        component, equals, rest = str(value).partition("=")
        if component not in COMPONENTS or not equals or not rest:
            self.fail(f"{value!r} is not COMPONENT=… with one of {', '.join(COMPONENTS)}", param, ctx)
        return component, self._read(rest)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Write files for a deployment tool from a resolved AICR recipe.

    Exit codes: 0 success; 1 values diverge from the recipe, or the disk or Helm failed; 2 wrong input or usage.
    """


@main.group("trigger", short_help="Restart the DRA driver's pods with each operator.")
def trigger_group() -> None:
    """Derive the annotation that restarts the DRA driver's pods with each chart version of the GPU operator."""


@trigger_group.command(
    short_help="Print the values to lay over the DRA driver's.",
    epilog=_examples("gpu-operator-post-bundler trigger derive --recipe recipe.yaml > trigger.yaml"),
)
@_RECIPE
@click.option("--values", "values_files", **_VALUES)
@_KEY
def derive(recipe_file: Path, values_files: tuple[Path, ...], key: str) -> None:
    """Print the values to lay over the DRA driver's. Pass them to Helm as the last --values.

    Prints nothing if the recipe switches one of the two components off. With --values it also prints the pods' other
    annotations of those files, for tools that replace mappings instead of merging them.
    """
    overlay = derived.trigger_over(recipe.read(recipe_file), key, *_layered(values_files))
    if overlay:
        click.echo(to_yaml(overlay), nl=False)


@trigger_group.command(
    short_help="Exit 1 if values differ from the recipe.",
    epilog=_examples("gpu-operator-post-bundler trigger check --recipe recipe.yaml --values dra-driver.yaml"),
)
@_RECIPE
@click.option("--values", "values_files", required=True, **_VALUES)
@_KEY
def check(recipe_file: Path, values_files: tuple[Path, ...], key: str) -> None:
    """Exit 1 if the annotations in the values differ from the recipe, and print both."""
    given, name = _layered(values_files)
    found = derived.divergences(recipe.read(recipe_file), key, given, name)
    for divergence in found:
        click.echo(f"{name}: {divergence}", err=True)
    if found:
        click.echo("Lay the output of `gpu-operator-post-bundler trigger derive` over these values.", err=True)
        sys.exit(1)


@main.command(
    short_help="Write all files for a deployment tool.",
    epilog=_examples(
        "gpu-operator-post-bundler bundle --recipe recipe.yaml --deployer flux --output bundle \\",
        "    --chart gpu-operator-post=oci://registry.example/charts",
    ),
)
@_RECIPE
@click.option("--deployer", type=click.Choice(targets.NAMES), required=True, help="The deployment tool.")
@click.option("--output", "target", type=_FILE, required=True, help="Directory to write.")
@click.option("--force", is_flag=True, help="Replace all files of an earlier bundle.")
@click.option("--timeout", default="", help="Time for the run, such as 25m; default: its values', else the chart's.")
@click.option("--hook/--no-hook", default=True, show_default=True, help="A hook, or an ordinary Job with its own name.")
@click.option(
    "--values",
    "values",
    type=Assignment(lambda file: documents.read(Path(file))),
    multiple=True,
    help="COMPONENT=FILE: values over the recipe's; repeatable.",
)
@click.option("--data", type=_FILE, help="Directory of the recipe's valuesFile paths.")
@click.option(
    "--chart",
    "charts",
    type=Assignment(charts.find),
    multiple=True,
    help="COMPONENT=SOURCE: the repository of a chart (oci://, https://), or a chart's directory to copy; repeatable. "
    "Recipes do not name the one of gpu-operator-post.",
)
@click.option("--post-version", default="", help="Chart version of gpu-operator-post; default: this program's.")
@click.option("--git-url", default="", help="Repository that you will commit the bundle to.")
@click.option("--git-revision", default="main", show_default=True, help="Branch in that repository.")
@click.option("--git-path", default="", help="Folder of the bundle in that repository; default: its root.")
@click.option("--helm", "helm_name", default="helm", show_default=True, help="Helm that renders plain manifests.")
@_KEY
def bundle(recipe_file: Path, deployer: str, target: Path, force: bool, helm_name: str, **flags: Any) -> None:  # noqa: ANN401 - click passes parsed flags
    """Write all files for a deployment tool: GPU operator, gpu-operator-post, DRA driver, in this order."""
    found = recipe.read(recipe_file)
    # Plain manifests are for bundlers that strip hook annotations.
    flags["hook"] &= deployer != targets.MANIFESTS
    made = releases.make(found, Request(**flags))
    files = targets.files(made, deployer, helm_name)
    output.write(files, target, force=force)
    for note in made.notes:
        click.echo(f"note: {note}")
    click.echo(f"{len(files)} files in {target}")


def _layered(files: tuple[Path, ...]) -> tuple[Mapping, str]:
    """Return the values of all files, and a name for them."""
    return merged(*(documents.read(file) for file in files)), " + ".join(file.name for file in files)
