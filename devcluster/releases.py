"""The charts of a simulated fleet and ours, and the words with which Helm installs or upgrades them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from devcluster.boot.layout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Mapping


class Release(NamedTuple):
    """One chart in one namespace."""

    name: str
    chart: str
    namespace: str

    def install(self, values: Mapping[str, object], *flags: str) -> list[str]:
        """Return Helm's words that install it, or upgrade it, with these values and none of before."""
        place = (self.name, self.chart, "--namespace", self.namespace, "--create-namespace")
        return ["upgrade", "--install", *place, "--reset-values", *flags, *sets(values)]


def sets(values: Mapping[str, object]) -> list[str]:
    """Return Helm's flags for values by path: ``driver.version``, or ``driver__version`` as a keyword spells it."""
    return [f"--set-json={path.replace('__', '.')}={json.dumps(value)}" for path, value in values.items()]


OPERATOR: Final = Release("gpu-operator", str(CHECKOUT / "devcluster/charts/gpu-operator"), "gpu-operator")
PLUGIN: Final = Release("dra-driver", str(CHECKOUT / "devcluster/charts/dra-driver"), "nvidia-dra-driver-gpu")
POST: Final = Release("gpu-operator-post", str(CHECKOUT / "charts/gpu-operator-post"), OPERATOR.namespace)

DAEMONSET: Final = "dra-driver-nvidia-gpu-kubelet-plugin"
"""The DRA kubelet plugin that its chart installs."""
IMAGE: Final = "registry.example/gpu-operator-post"
"""Never pulled: by its last part, `devcluster.pods` knows that the program here stands for it."""
