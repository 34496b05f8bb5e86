"""The main job in a cluster that is not this project's: a fleet visits it, and the hook's pods run there for real.

``--kubeconfig FILE`` names a cluster that may be thrown away, such as kind's.
"""

from __future__ import annotations

import time

from tests.e2e.lab import OLD
from tests.image import scenes
from tests.image.node import DEFAULT, PODS
from tests.image.visit import VisitLab


def test_skips_fails_and_completes_and_a_lost_pod(visit: VisitLab) -> None:
    """A run without a plugin, one out of time, its completion; then a way back whose pod is deleted half-way."""
    lab = visit
    scenes.nothing_to_protect_then_out_of_time(lab)
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
    lab.assert_clean(scenes.THREE)
    scenes.assert_told(lab, done.output, 3)
    lab.assert_on_the_real_node()

    again = lab.deploy(hook__deletePolicy=DEFAULT)
    lab.assert_clean(scenes.THREE)
    scenes.assert_nothing_is_left(lab, again.output)
