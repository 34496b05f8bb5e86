"""The main job in a cluster that is not this project's: a fleet visits it, and the hook's pods run there for real.

``--kubeconfig FILE`` names a cluster that may be thrown away, such as kind's.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from devcluster.boot.layout import SYSTEM_NODE
from devcluster.demo.visit import PLACEMENT, Visit
from tests.certify.site import image_flags
from tests.e2e.lab import ALL_AT_ONCE, NEW, NEW_CHART, OLD, QUICK, RELEASE
from tests.evidence import keep
from tests.image.node import DEFAULT, HOME, PODS, NodeLab

THREE: Final = ["gpu-0", "gpu-1", "gpu-2"]
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


@pytest.fixture
def visit(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[VisitLab]:
    """Bring three nodes of a fleet to the cluster of ``--kubeconfig``; skip where none is named."""
    image: str = request.getfixturevalue("test_extra_info").get("image", "")
    kubeconfig = request.config.getoption("kubeconfig")
    if not kubeconfig:
        pytest.skip("make test-visit names a cluster that may be thrown away")
    with Visit(tmp_path_factory.mktemp("guest") / "c") as guest:
        guest.attach(Path(kubeconfig).resolve(), nodes=3)
        yield VisitLab(guest, tuple(image_flags(image)) if image else ())
        keep(guest, request.node.name)


def test_skips_fails_and_completes_and_a_lost_pod(visit: VisitLab) -> None:
    """A run without a plugin, one out of time, its completion; then a way back whose pod is deleted half-way."""
    lab = visit
    _skip_and_time_out(lab)
    lab.began = time.time()
    hook = lab.start_post(expect__driverVersion=OLD, expect__chartVersion="")
    lost = lab.next_judging()
    with lab.kept(lost):
        lab.cluster.delete(f"{PODS}/{lost}")
        lab.until(lambda: lost in lab.ends(), "the deleted container has ended")
        assert lab.ends()[lost]["exitCode"] == 143
    lab.next_judging(lost)
    lab.operator()
    done = lab.succeeded(hook)
    lab.assert_clean(THREE)
    lab.assert_told(done.output, 3)
    lab.assert_on_the_real_node()

    again = lab.deploy(hook__deletePolicy=DEFAULT)
    lab.assert_clean(THREE)
    lab.assert_nothing_is_left(again.output)


def _skip_and_time_out(lab: NodeLab) -> None:
    """Assert that a run without a plugin does nothing, and says why in every place.

    Then an upgrade that does not finish exits 124, and the next run completes it.
    """
    done = lab.deploy()
    assert "NoPlugin" in done.output
    assert ("Skip", "NoPlugin", 0) == tuple(lab.story()[key] for key in ("phase", "reason", "exitCode"))
    assert lab.events("Job", "NoPlugin")
    lab.assert_untouched()

    lab.fleet(nodes=3, **ALL_AT_ONCE)
    lab.annotate("gpu-1", "driver-fault", "image-pull")
    lab.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE)
    # What reloads take is not the run's time: it has enough to wait for.
    lab.until(lambda: lab.truth.running(NEW) == {"gpu-0", "gpu-2"}, "two nodes have reloaded their driver", 120)
    late = lab.post(timeout="90s")
    assert late.code != 0
    assert lab.restarts() == ["gpu-0", "gpu-2"]
    assert [124] == [end["exitCode"] for end in lab.ends().values()]
    story = lab.story()
    (node,) = story["nodes"]
    told = (story["phase"], story["reason"], node["node"], node["reason"])
    assert told == ("Deadline", "TimeUp", "gpu-1", "DriverFailing")
    assert "gpu-1" in late.output
    assert "TimeUp" in lab.cluster.kubectl("describe", "job", RELEASE, "-n", HOME).stdout
    assert {"Failed", "FailureTarget"} & {each["type"] for each in lab.job()["status"]["conditions"]}

    lab.annotate("gpu-1", "driver-fault", None)
    lab.deploy()
    lab.assert_clean(THREE)
    lab.assert_on_the_real_node()
