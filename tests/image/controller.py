"""The controller as a container: probed by a real kubelet, restarted when it does not answer, and stopped in time."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Final

from tests.e2e.lab import NAMESPACE, OLD
from tests.image.held import Held
from tests.image.node import PODS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.image.node import NodeLab

PATIENCE: Final = 240
"""Seconds: a kubelet asks six times before it restarts a container, and a Lease has a term."""
STOP_SECONDS: Final = 2
"""The promise: a container that is told to stop ends within so many seconds."""
POLICY: Final = "clusterpolicy/cluster-policy"


def exercise(lab: NodeLab, nodes: Sequence[str]) -> None:
    """Patch a driver while a controller runs, freeze it, patch again, and delete its pod; `nodes` are fresh."""
    lab.deploy(controller__enabled=True)
    lab.until(lambda: _shown(lab)[0], "the controller is Ready", PATIENCE)
    before = lab.restarts()
    _patch(lab, OLD, [*before, *nodes])

    (pod,) = lab.controller_pods()
    name = pod["metadata"]["name"]
    with Held(lab.process(name)):
        lab.until(lambda: _shown(lab)[1] > 0, "the kubelet has restarted what did not answer", PATIENCE)
    lab.until(lambda: _shown(lab)[0], "it is Ready again", PATIENCE)
    _patch(lab, "570.195.03", [*before, *nodes, *nodes])
    lab.assert_on_the_real_node()

    with Held(lab.process(name)) as held:
        lab.cluster.delete(f"{PODS}/{name}")
        lab.until(lambda: held.is_told(signal.SIGTERM), "the kubelet tells it to stop", PATIENCE)
        assert held.let_go() < STOP_SECONDS
    lab.until(lambda: _names(lab) != [name] and _shown(lab)[0], "another pod takes over", PATIENCE)


def _patch(lab: NodeLab, version: str, restarts: Sequence[str]) -> None:
    """Ask for a driver without any release, and wait until every plugin serves on it."""
    patch = f'{{"spec": {{"driver": {{"version": "{version}"}}}}}}'
    lab.cluster.kubectl("patch", POLICY, "--type=merge", "-p", patch, "-n", NAMESPACE)
    lab.until(lambda: len(lab.restarts()) >= len(restarts), f"every plugin was restarted for {version}", PATIENCE)
    lab.until(lambda: lab.serving_on() == set(lab.truth.nodes), "every plugin serves", PATIENCE)
    assert {version} == set(lab.truth.loaded_now().values())
    lab.assert_clean(sorted(restarts))


def _names(lab: NodeLab) -> list[str]:
    return [pod["metadata"]["name"] for pod in lab.controller_pods()]


def _shown(lab: NodeLab) -> tuple[bool, int]:
    """Say of the only pod whether its container is ready, and how often it was restarted."""
    statuses: list[dict[str, Any]] = [
        each for pod in lab.controller_pods() for each in pod["status"].get("containerStatuses", [])
    ]
    return len(statuses) == 1 and statuses[0]["ready"], sum(each["restartCount"] for each in statuses)
