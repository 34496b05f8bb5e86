"""One controller through upgrade after upgrade, with what goes wrong in between: what only shows with time.

The model (`tests/properties`) tries far more histories. Here one process, one cluster and their real memory last.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from devcluster.journal import Entry
from tests.e2e import acts
from tests.e2e.controllers import STOPPED, Controller, ControllerLab
from tests.e2e.lab import NAMESPACE
from tests.promises import promised

NODES, LAB = 6, ControllerLab
SEED: Final = 1
"""Draws in which order things happen, where and when. Another one draws another history."""
WARM_CYCLES: Final = 3
"""Until then a process fills its caches, and Python its arenas."""
GROWTH_MEBIBYTES: Final = 2.0
"""What it may take on top of that. It took a quarter of one when this was written."""
SILENT_SECONDS: Final = 4.0
"""The API server stands still for so long: longer than a decision, shorter than a Lease."""
RACE_SECONDS: Final = 3.0
"""The API does not show yet what happened so shortly before: no program can know of it."""


class Soak:
    """What happens to the fleet of a laboratory, and when."""

    def __init__(self, lab: ControllerLab) -> None:
        self._lab = lab
        self._versions = itertools.count(200)
        self._races: list[tuple[float, float]] = []
        """From when to when no program can know what has just happened."""
        self.version = ""
        """The driver that was asked for last."""
        self.before: Final = (self.nothing, self.reboot, self.crash, self.broken_drivers, self.another_node)
        """What may happen while every plugin is fresh."""
        self.meanwhile: Final = (self.nothing, self.upgrade, self.another_operator, self.silent_api_server)
        """What may happen during an upgrade."""

    def wrong_restarts(self) -> list[Entry]:
        """Return the restarts of plugins that were fresh, or whose node was not settled, but for races."""
        truth, since = self._lab.truth, self._lab.began
        wrong = [*truth.early_restarts(since=since), *truth.needless_restarts(since=since)]
        return [each for each in wrong if not any(begin <= each.t < end for begin, end in self._races)]

    def nothing(self, _nodes: list[str]) -> None:
        """Let nothing happen."""

    def upgrade(self, _nodes: list[str]) -> None:
        """Ask for another driver, and wait until the operator has rendered it."""
        self.version = f"580.{next(self._versions)}.01"
        with self._race():
            self._lab.patch_driver(self.version)
            self._lab.until(lambda: self._lab.rendered(self.version), f"{self.version} is rendered", acts.PATIENCE)

    def reboot(self, nodes: list[str]) -> None:
        """Reboot nodes; each plugin waits for its driver then."""
        with self._race():
            for node in nodes:
                self._lab.annotate(node, "reboot", str(time.time()))

    def crash(self, nodes: list[str]) -> None:
        """Let drivers restart in place."""
        with self._race():
            for node in nodes:
                self._lab.annotate(node, "restart-driver-container", str(time.time()))

    def broken_drivers(self, nodes: list[str]) -> None:
        """Let no other driver start on these nodes, until it is fixed."""
        for node in nodes:
            self._lab.annotate(node, "driver-fault", "image-pull")

    def fix_drivers(self) -> None:
        """Let drivers start again."""
        for node in self._lab.nodes:
            self._lab.annotate(node, "driver-fault", None)

    def another_node(self, nodes: list[str]) -> None:
        """Replace a node by one of another name."""
        gone, new = nodes[0], f"gpu-{time.time():.0f}"
        with self._race():
            acts.remove_node(self._lab, gone)
            acts.add_node(self._lab, new)
        self._lab.nodes[self._lab.nodes.index(gone)] = new

    def another_operator(self, _nodes: list[str]) -> None:
        """Delete the operator's pod: another one leads, and renders again."""
        selector = "app.kubernetes.io/component=gpu-operator"
        with self._race():
            self._lab.cluster.kubectl("delete", "pod", "-n", NAMESPACE, "-l", selector, "--wait=false")

    def silent_api_server(self, _nodes: list[str]) -> None:
        """Stop the API server for a moment."""
        (server,) = [each for each in self._lab.cluster.status() if each.name == "kube-apiserver"]
        os.kill(server.pid, signal.SIGSTOP)
        try:
            time.sleep(SILENT_SECONDS)
        finally:
            os.kill(server.pid, signal.SIGCONT)

    @contextmanager
    def _race(self) -> Iterator[None]:
        began = time.time()
        yield
        self._races.append((began, time.time() + RACE_SECONDS))


@pytest.mark.nightly
def test_a_long_life_breaks_no_promise(lab: ControllerLab) -> None:
    """The controller refreshes every plugin in each cycle, restarts none needlessly, and does not grow.

    A run that comes afterwards finds nothing to do.
    """
    one = lab.leading()
    soak, chance = Soak(lab), random.Random(SEED)  # noqa: S311 - it draws a history
    sizes: list[float] = []
    cycles = list(itertools.product(soak.before, soak.meanwhile))
    chance.shuffle(cycles)
    for before, meanwhile in cycles:
        nodes = chance.sample(lab.nodes, 2)
        before(nodes)
        soak.upgrade(nodes)
        time.sleep(chance.uniform(0.0, 6.0))  # A reload takes three to four seconds.
        meanwhile(nodes)
        soak.fix_drivers()
        lab.await_refreshed(soak.version)
        # A plugin that it has not verified it would restart only after a pause.
        lab.until(lambda: one.metric("nodes", state="Verified") == NODES, "it has verified each", acts.PATIENCE)
        sizes.append(_mebibytes(one))
    with promised():
        assert lab.truth.stale_now() == ()
        assert soak.wrong_restarts() == []
    assert max(sizes[WARM_CYCLES:]) - sizes[WARM_CYCLES] <= GROWTH_MEBIBYTES, sizes
    acts.run(lab).assert_phase("Done", "NothingStale")
    one.assert_ends(STOPPED)


def _mebibytes(controller: Controller) -> float:
    """Return the memory of a controller that still runs."""
    assert not controller.over, controller.said
    status = Path(f"/proc/{controller.process.pid}/status").read_text()
    (kibibytes,) = re.findall(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    return int(kibibytes) / 1024
