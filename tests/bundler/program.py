"""Run the bundling commands in this process, and change recipes for them."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from click.testing import CliRunner

from bundler.cli import main

ROOT: Final = Path(__file__).parents[2]
RECIPES: Final = ROOT / "tests" / "fixtures" / "recipes"
OLD_RECIPE: Final = RECIPES / "recipe-result.yaml"
RECIPE: Final = RECIPES / "recipe.yaml"
OPERATOR: Final = "gpu-operator"
POST: Final = "gpu-operator-post"
DRA: Final = "nvidia-dra-driver-gpu"
KEY: Final = "aicr.run/gpu-operator-chart-version"
TOOLS: Final = ("helm", "helmfile", "flux", "argocd", "argocd-helm")
LOCAL_CHARTS: Final = {
    OPERATOR: ROOT / "devcluster" / "charts" / "gpu-operator",
    POST: ROOT / "charts" / "gpu-operator-post",
    DRA: ROOT / "devcluster" / "charts" / "dra-driver",
}
COPIED: Final = (
    *(f"--chart={name}={folder}" for name, folder in LOCAL_CHARTS.items()),
    "--git-url=https://git.example/stack.git",
)
"""Charts that need no network, copied into the bundle."""
SOURCE: Final = "oci://registry.example/charts"
OURS: Final = f"--chart={POST}={SOURCE}"
"""Where our chart comes from, which the program does not know by itself."""
IMAGE: Final = {"image": {"repository": "registry.example/gpu-operator-post"}}
"""A chart from the sources names no image by itself."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def run(*arguments: str | Path, ours: str = OURS) -> Ended:
    """Run the program; raise anything but an exit code. A bundle gets the source of our chart."""
    given = [str(each) for each in arguments]
    if given[0] == "bundle" and ours and not any(each.startswith(f"--chart={POST}=") for each in given):
        given.append(ours)
    done = CliRunner().invoke(main, given)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ended(done.exit_code, done.stdout, done.stderr)


def bundle(tool: str, target: Path, *more: str | Path, recipe: Path = RECIPE, ours: str = OURS) -> Path:
    """Write a bundle, which must succeed, and return its folder."""
    done = run("bundle", "--recipe", recipe, "--deployer", tool, "--output", target, *more, ours=ours)
    assert done.code == 0, done.err
    assert done.err == ""
    return target


def refuse(  # noqa: PLR0913 - what varies
    tool: str, target: Path, complaint: str, *more: str | Path, recipe: Path = RECIPE, ours: str = OURS, code: int = 2
) -> None:
    """Try to write a bundle, which must be refused for this reason and leave what was there."""
    before = contents(target)
    done = run("bundle", "--recipe", recipe, "--deployer", tool, "--output", target, *more, ours=ours)
    assert (done.code, done.out) == (code, ""), f"{tool}: {more}"
    assert complaint in done.err, f"{tool}: {more}: {done.err}"
    assert contents(target) == before, f"{tool}: {more}"


def recipe(file: Path = RECIPE) -> Document:
    """Read a recipe, to change it."""
    found: Document = yaml.safe_load(file.read_text())
    return found


def component(document: Document, name: str) -> Document:
    """Return one component of a recipe."""
    found: Document = next(ref for ref in document["componentRefs"] if ref["name"] == name)
    return found


def changed(target: Path, name: str, **fields: object) -> Path:
    """Write the recipe with other fields of one component; ``None`` removes a field."""
    document = copy.deepcopy(recipe())
    ref = component(document, name)
    ref.update(fields)
    for key in [key for key, value in fields.items() if value is None]:
        del ref[key]
    return write(target, document)


def write(target: Path, document: object) -> Path:
    """Write a document, as JSON, which every YAML reader reads the same way."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document))
    return target


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder."""
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
