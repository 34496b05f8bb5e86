"""``python -m devcluster.bench``: compare this program with what people use instead, and measure what it costs.

A measurement is a kind and a number of nodes, such as `no-op-15000`. Without a name: all that are in the list `USUAL`.
Each prints a table, and writes its figures as rows into a CSV file, in the place of earlier ones of the same name.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devcluster.bench import costs, exposed, figures, reaction, upgrade
from devcluster.bench.tables import table

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: Final[dict[str, Callable[[Path, int], figures.Found]]] = {
    "upgrade": upgrade.measure,
    "exposed": exposed.measure,
    "no-op": costs.nothing_to_do,
    "controller": costs.controller,
    "reaction": reaction.measure,
}
USUAL: Final = ("upgrade-100", "exposed-12", "no-op-5000", "controller-5000", "reaction-5000")


def main() -> None:
    """Measure what was asked for, each on clusters of its own."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.bench", description=__doc__)
    parser.add_argument("name", nargs="*", type=_known, help=f"such as {', '.join(USUAL)}, or no-op-15000")
    parser.add_argument("--out", type=Path, default=figures.FILE, help="the CSV file")
    given = parser.parse_args()
    for name in given.name or USUAL:
        print(f"measuring {name}", file=sys.stderr, flush=True)  # noqa: T201 - progress on the terminal
        kind, _, nodes = name.rpartition("-")
        with tempfile.TemporaryDirectory(prefix="gpu-operator-post-bench-") as folder:
            found = figures.rows(name, KINDS[kind](Path(folder) / "cluster", int(nodes)))
        figures.write(given.out, found)
        print("\n".join(table(found, [name])), flush=True)  # noqa: T201 - this is the command's result


def _known(name: str) -> str:
    kind, _, nodes = name.rpartition("-")
    if kind not in KINDS or not nodes.isdecimal():
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(f'{each}-NODES' for each in KINDS)}")
    return name


if __name__ == "__main__":
    main()
