"""Write the golden files: what the chart renders by default and in three variants.

A review sees in them what a change does to the objects of users. ``make golden`` writes them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from devcluster import binaries
from tests.chart.rendering import Helm

if TYPE_CHECKING:
    from tests.chart.rendering import Values

FOLDER: Final = Path(__file__).parent / "golden"
VARIANTS: Final[dict[str, Values]] = {
    "default": {},
    "controller": {
        "job.enabled": False,
        "controller.enabled": True,
        "controller.podMonitor.enabled": True,
        "controller.prometheusRule.enabled": True,
    },
    "delegate": {"job.mode": "delegate", "controller.enabled": True, "drivers": ["gpu", "network"]},
    "hardened": {
        "rbac.scope": "namespace",
        "rbac.namespaces": ["gpu-operator", "nvidia-dra-driver-gpu"],
        "plugin.namespace": "nvidia-dra-driver-gpu",
        "podNetworkPolicy.enabled": True,
        "podNetworkPolicy.egress": [
            {"to": [{"ipBlock": {"cidr": "192.0.2.10/32"}}], "ports": [{"port": 6443, "protocol": "TCP"}]}
        ],
    },
}


def text(helm: Helm, variant: str) -> str:
    """Return what Helm renders for a variant, as text."""
    done = helm.template(VARIANTS[variant])
    assert done.returncode == 0, done.stderr
    return done.stdout


def main() -> None:
    """Write each golden file."""
    helm = Helm(binaries.ensure(["helm4"])["helm4"])
    for variant in VARIANTS:
        (FOLDER / f"{variant}.yaml").write_text(text(helm, variant))


if __name__ == "__main__":
    main()
