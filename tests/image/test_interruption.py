"""What happens to a container on a node: eviction, lack of memory, deletion, and a probe without an answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Self

from tests.e2e.lab import NAMESPACE, NEW, NEW_CHART, OLD
from tests.image.node import HOME, PODS, NodeLab

GREED = """
import os, sys
folder, victim = sys.argv[1:]
open(folder + "/cgroup.procs", "w").write(str(os.getpid()))
held = []
while os.path.exists("/proc/" + victim):
    held.append(bytearray(2**20))
"""
"""Uses up the memory of a container from within its cgroup. The kernel then ends the process that the kubelet marked
as the first to go: the container's own; with cgroup v2 all of the container, this too."""


def test_evicted_out_of_memory_deleted(boot: Callable[[int], NodeLab]) -> None:
    """Evictions do not count as failures; memory and deletion do, and are retried; the last pod does the job."""
    # With two retries allowed and three pods lost, that only works because the Job ignores disruptions.
    lab = boot(2)
    lab.fleet(nodes=2)
    hook = lab.start_post(expect__driverVersion=NEW, backoffLimit=2)

    evicted = lab.next_judging()
    with lab.kept(evicted):
        _evict(lab, evicted)
    starved = lab.next_judging(evicted)
    _starve(lab, starved)
    deleted = lab.next_judging(evicted, starved)
    with lab.kept(deleted):
        _delete(lab, deleted)
    lab.next_judging(evicted, starved, deleted)
    assert lab.restarts() == []

    lab.operator(chart=NEW_CHART, driver=NEW)
    lab.succeeded(hook)
    assert lab.job()["status"]["failed"] == 2
    lab.assert_clean(["gpu-0", "gpu-1"])
    lab.assert_on_the_real_node()


def _evict(lab: NodeLab, pod: str) -> None:
    """Evict a pod as a drain does; assert that it gets a signal to stop, and marked as disrupted."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": HOME}}
    lab.cluster.create(f"{PODS}/{pod}/eviction", eviction)
    lab.until(lambda: pod in lab.ends(), "the evicted container has ended")
    assert lab.ends()[pod]["exitCode"] == 143
    conditions = lab.cluster.get(f"{PODS}/{pod}")["status"]["conditions"]
    reasons = {each["type"]: each.get("reason") for each in conditions if each["status"] == "True"}
    assert reasons.get("DisruptionTarget") == "EvictionByEvictionAPI"


def _starve(lab: NodeLab, pod: str) -> None:
    """Use up the container's memory; assert that the kubelet says what happened."""
    victim = str(lab.process(pod))
    subprocess.run([sys.executable, "-c", GREED, str(lab.cgroup(pod)), victim], check=False, timeout=120)
    lab.until(lambda: pod in lab.ends(), "the container has ended")
    end = lab.ends()[pod]
    assert (137, "OOMKilled") == (end["exitCode"], end["reason"])


def _delete(lab: NodeLab, pod: str) -> None:
    """Delete a pod as `kubectl delete` does; assert that it ends by itself, as told to, with a last word."""
    lab.cluster.delete(f"{PODS}/{pod}")
    lab.until(lambda: pod in lab.ends(), "the kubelet has told the end")
    assert lab.ends()[pod]["exitCode"] == 143
    assert json.loads(lab.ends()[pod]["message"])["reason"] == "Terminated"


PATIENCE: Final = 240
"""Seconds: a kubelet asks six times before it restarts a container, and a Lease has a term."""
POLICY: Final = "clusterpolicy/cluster-policy"


def test_a_controller_that_hangs_and_is_deleted(boot: Callable[[int], NodeLab]) -> None:
    """The kubelet restarts what does not answer its probe; another pod takes over from one that is deleted."""
    lab = boot(1)
    lab.fleet(nodes=1)
    lab.deploy(controller__enabled=True)
    lab.until(lambda: _shown(lab)[0], "the controller is Ready", PATIENCE)
    _patch(lab, NEW, ["gpu-0"])
    (pod,) = lab.controller_pods()
    name = pod["metadata"]["name"]
    with Held(lab.process(name)):
        lab.until(lambda: _shown(lab)[1] > 0, "the kubelet has restarted what did not answer", PATIENCE)
    lab.until(lambda: _shown(lab)[0], "it is Ready again", PATIENCE)
    _patch(lab, OLD, ["gpu-0", "gpu-0"])
    lab.assert_on_the_real_node()
    with lab.kept(name):
        lab.cluster.delete(f"{PODS}/{name}")
        lab.until(lambda: name in lab.ends(lab.controller_pods()), "its container has ended", PATIENCE)
        assert lab.ends(lab.controller_pods())[name]["exitCode"] == 143
    lab.until(
        lambda: [each["metadata"]["name"] for each in lab.controller_pods()] != [name] and _shown(lab)[0],
        "another pod takes over", PATIENCE,
    )  # fmt: skip


def _patch(lab: NodeLab, version: str, restarts: Sequence[str]) -> None:
    """Ask for a driver without any release, and wait until every plugin serves on it."""
    patch = f'{{"spec": {{"driver": {{"version": "{version}"}}}}}}'
    lab.cluster.kubectl("patch", POLICY, "--type=merge", "-p", patch, "-n", NAMESPACE)
    lab.until(lambda: len(lab.restarts()) >= len(restarts), f"every plugin was restarted for {version}", PATIENCE)
    lab.until(lambda: lab.serving_on() == set(lab.truth.nodes), "every plugin serves", PATIENCE)
    assert {version} == set(lab.truth.loaded_now().values())
    lab.assert_clean(sorted(restarts))


def _shown(lab: NodeLab) -> tuple[bool, int]:
    """Return of the only pod whether its container is ready, and how often it was restarted."""
    statuses: list[dict[str, Any]] = [
        each for pod in lab.controller_pods() for each in pod["status"].get("containerStatuses", [])
    ]
    return len(statuses) == 1 and statuses[0]["ready"], sum(each["restartCount"] for each in statuses)


class Held:
    """Stops a process until it is let go."""

    def __init__(self, pid: int) -> None:
        self._handle = os.pidfd_open(pid)

    def __enter__(self) -> Self:
        signal.pidfd_send_signal(self._handle, signal.SIGSTOP)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGCONT)
        os.close(self._handle)
