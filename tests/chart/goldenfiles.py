"""Write the golden files: what the chart renders by default and in four variants.

A review sees in them what a change does to the objects of users. ``make golden`` writes them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from devcluster import binaries
from tests.chart.rendering import ROOT, Helm

FOLDER: Final = Path(__file__).parent / "golden"
VARIANTS: Final[dict[str, tuple[str, ...]]] = {
    "default": (),
    "controller": (
        "--set=job.enabled=false,controller.enabled=true",
        "--set=controller.podMonitor.enabled=true,controller.prometheusRule.enabled=true",
    ),
    "delegate": ("--set=job.mode=delegate,controller.enabled=true", "--set=drivers={gpu,network}"),
    "custom": (f"--values={Path(__file__).parent / 'custom.yaml'}",),
    "hardened": (f"--values={ROOT / 'examples' / 'values' / 'hardened.yaml'}",),
}


def text(helm: Helm, variant: str) -> str:
    """Return what Helm renders for a variant, as text."""
    done = helm.template({}, *VARIANTS[variant])
    assert done.returncode == 0, done.stderr
    return done.stdout


def main() -> None:
    """Write each golden file."""
    helm = Helm(binaries.ensure(["helm4"])["helm4"])
    for variant in VARIANTS:
        (FOLDER / f"{variant}.yaml").write_text(text(helm, variant))


if __name__ == "__main__":
    main()
