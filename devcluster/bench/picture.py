"""Draw the stale node-seconds of each approach: ``python -m devcluster.bench.picture [FIGURES.csv [PICTURE.svg]]``.

It needs requirements/bench.txt, which `make bench` installs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib import pyplot as plt

from devcluster.bench import figures
from devcluster.bench.ledger import STALE
from devcluster.bench.tables import shown

UPGRADE: Final = "upgrade-100"
OURS_COLOR, OTHER_COLOR = "#0b6e4f", "#8a5a83"


def draw(source: Path, target: Path) -> None:
    """Draw a bar for each approach, the first one at the top; nothing where no upgrade was measured."""
    found = [row for row in figures.read(source) if row.measurement == UPGRADE and row.figure == STALE]
    if not found:
        return
    # Text stays text, and equal figures make equal files.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": UPGRADE})
    figure, axes = plt.subplots(figsize=(9, 2.5), layout="constrained")
    colors = [OURS_COLOR if row.approach == figures.OURS else OTHER_COLOR for row in found]
    bars = axes.barh([row.approach for row in found], [float(row.value) for row in found], color=colors)
    axes.bar_label(bars, [shown(row.value) for row in found], padding=4)
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("simulated node-seconds with a stale DRA plugin; less is better")
    axes.set_title("Stale node-seconds in a simulated upgrade of 100 nodes, one by one")
    figure.savefig(target, metadata={"Date": None})


def main() -> None:
    """Draw the figures of a file next to it, or where it is asked for."""
    source = Path(sys.argv[1]) if sys.argv[1:] else figures.FILE
    draw(source, Path(sys.argv[2]) if sys.argv[2:] else source.with_suffix(".svg"))


if __name__ == "__main__":
    main()
