"""Write examples/: what `gpu-operator-post-bundler bundle` makes of examples/recipe.yaml, one folder for each deployer.

python -m tools.examples           write them
python -m tools.examples --check   exit 1 if they are not what the program writes
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from bundler.cli import main as program

EXAMPLES: Final = Path(__file__).parent.parent / "examples"
RECIPE: Final = EXAMPLES / "recipe.yaml"
CHART: Final = ("--chart", "gpu-operator-post=oci://registry.example/charts")
"""No registry is the project's own: readers put in the one that they take releases from."""
GIT: Final = ("--git-url", "https://git.example/clusters.git", "--git-path", "gpu-stack")
ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "helm": CHART,
    "helmfile": CHART,
    "flux": CHART,
    "argocd": (*CHART, *GIT),
    "argocd-helm": CHART,
}
"""By deployment tool, in addition to the recipe and the output: the flags in examples/README.md."""


def write(target: Path) -> None:
    """Write all examples below a directory."""
    for deployer, more in ARGUMENTS.items():
        arguments = ["--recipe", str(RECIPE), "--deployer", deployer, "--output", str(target / deployer), "--force"]
        done = CliRunner().invoke(program, ["bundle", *arguments, *more])
        if done.exit_code != 0:
            raise SystemExit(done.output)


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the files of the examples' folders, by path: their bytes, and whether they can be run."""
    return {
        file.relative_to(folder).as_posix(): (file.read_bytes(), file.stat().st_mode & 0o100)
        for deployer in ARGUMENTS
        for file in sorted((folder / deployer).rglob("*"))
        if file.is_file()
    }


def main() -> None:
    """Write or check the examples."""
    parser = argparse.ArgumentParser(description="Write examples/ with the program itself.")
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    if not parser.parse_args().check:
        write(EXAMPLES)
        return
    with tempfile.TemporaryDirectory() as workspace:
        write(Path(workspace))
        if contents(Path(workspace)) != contents(EXAMPLES):
            sys.exit("examples/ is not what the program writes; run: make docs")


if __name__ == "__main__":
    main()
