"""Check the workflows with actionlint, which is built once from its pinned sources.

python -m tools.actionlint [FILE…]   exit 1 where a workflow is wrong; all workflows unless files are named
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devcluster.build import binaries

if TYPE_CHECKING:
    from collections.abc import Sequence

WORKFLOWS: Final = Path(__file__).parents[1] / ".github" / "workflows"
OPTIONS: Final = (
    # Two programs that some machines have and others do not: the same verdict everywhere is worth more.
    "-shellcheck=",
    "-pyflakes=",
    "-oneline",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it and pass its verdict on."""
    files = list(sys.argv[1:] if arguments is None else arguments) or sorted(map(str, WORKFLOWS.glob("*.yaml")))
    program = binaries.ensure(["actionlint"])["actionlint"]
    return subprocess.run([program, *OPTIONS, *files], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
