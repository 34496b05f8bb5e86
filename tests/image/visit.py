"""The same laboratory in a cluster that was not made for it: the fleet visits it, the hook's pods run over there."""

from __future__ import annotations

import subprocess
from typing import Any, Final

from devcluster.layout import SYSTEM_NODE
from devcluster.visit import PLACEMENT, Visit
from tests.e2e.lab import QUICK
from tests.image.node import NodeLab

SIMULATED: Final = (SYSTEM_NODE, "gpu-")


class VisitLab(NodeLab):
    """A visiting fleet; of the cluster that it visits, it knows what any of its users could."""

    def __init__(self, cluster: Visit, image: tuple[str, ...]) -> None:
        super().__init__(cluster)
        self._image = image

    def operator(self, **values: Any) -> None:  # noqa: ANN401 - chart values
        """Install or upgrade the simulated operator, which must not land on a node where pods run for real."""
        super().operator(**PLACEMENT, **values)

    def start_post(
        self, *, args: tuple[str, ...] = QUICK, helm: tuple[str, ...] = (), **values: object
    ) -> subprocess.Popen[str]:
        """Install or upgrade our chart, with the image that this cluster has."""
        return super().start_post(args=args, helm=(*self._image, *helm), **values)

    def assert_on_the_real_node(self) -> None:
        """Assert that every pod of ours ran as a container, on no node of ours."""
        for pod in self.pods():
            assert not pod["spec"]["nodeName"].startswith(SIMULATED)
            (status,) = pod["status"]["containerStatuses"]
            assert status["containerID"].startswith("containerd://")
