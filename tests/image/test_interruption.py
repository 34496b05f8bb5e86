"""What befalls a container on a node: eviction, lack of memory, deletion, and a token that is replaced."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.lab import NEW, NEW_CHART
from tests.image.node import HOME, PODS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.image.node import NodeLab

pytestmark = pytest.mark.e2e

STOP_SECONDS = 2
"""The promise: a pod that is deleted ends within so many seconds."""
STOP_SLACK = 3
"""Times as long on a machine that is busy with other tests; still well below the pod's grace of ten seconds."""

GREED = """
import os, sys
folder, victim = sys.argv[1:]
open(folder + "/cgroup.procs", "w").write(str(os.getpid()))
held = []
while os.path.exists("/proc/" + victim):
    held.append(bytearray(2**20))
"""
"""Uses up the memory of a container from within its cgroup. The kernel then ends the process that the kubelet marked
as the first to go: the container's own."""

REREAD_SECONDS = 60
"""The client library reads the token's file again when its copy is older than this (incluster_config.py)."""


def test_evicted_out_of_memory_deleted(boot: Callable[[int], NodeLab]) -> None:
    """An eviction does not count as a failure; memory and deletion do, and are retried; the last pod does the job.

    With two retries allowed and three pods lost, that only works because the Job ignores disruptions.
    """
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
    done = lab.deployed(hook)
    assert done.code == 0, done.output
    assert lab.job()["status"]["failed"] == 2
    lab.assert_clean(["gpu-0", "gpu-1"])
    lab.assert_on_the_real_node()


def _evict(lab: NodeLab, pod: str) -> None:
    """Evict a pod as a drain does; assert that it is told to stop, and marked as disrupted."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": HOME}}
    lab.cluster.create(f"{PODS}/{pod}/eviction", eviction)
    lab.until(lambda: pod in lab.ends(), "the evicted container has ended")
    assert lab.ends()[pod]["exitCode"] == 143
    conditions = lab.cluster.get(f"{PODS}/{pod}")["status"]["conditions"]
    assert ("DisruptionTarget", "True") in {(each["type"], each["status"]) for each in conditions}


def _starve(lab: NodeLab, pod: str) -> None:
    """Use up the container's memory; assert that the kubelet says what happened."""
    victim = str(lab.process(pod))
    subprocess.run([sys.executable, "-c", GREED, str(lab.cgroup(pod)), victim], check=True, timeout=120)
    lab.until(lambda: pod in lab.ends(), "the container has ended")
    end = lab.ends()[pod]
    assert (137, "OOMKilled") == (end["exitCode"], end["reason"])


def _delete(lab: NodeLab, pod: str) -> None:
    """Delete a pod as `kubectl delete` does; assert that it ends in time, as told to, with a last word."""
    process = Path(f"/proc/{lab.process(pod)}")
    began = time.monotonic()
    lab.cluster.delete(f"{PODS}/{pod}")
    lab.until(lambda: not process.exists(), "the process has ended")
    assert time.monotonic() - began < STOP_SECONDS * STOP_SLACK
    lab.until(lambda: pod in lab.ends(), "the kubelet has told the end")
    assert lab.ends()[pod]["exitCode"] == 143
    assert json.loads(lab.ends()[pod]["message"])["reason"] == "Terminated"


def test_a_new_token_during_a_run(boot: Callable[[int], NodeLab]) -> None:
    """The kubelet puts another token in place, and the run goes on with it: its later writes carry the new one.

    A kubelet does so when four fifths of an hour have passed, or, as here, when it was restarted.
    """
    lab = boot(1)
    lab.fleet(nodes=1)
    hook = lab.start_post(expect__driverVersion=NEW)
    pod = lab.next_judging()
    before, kubelets = lab.token(pod), lab.kubelets()
    lab.restart_kubelet()
    lab.until(lambda: lab.kubelets() not in ([], kubelets), "another kubelet runs")
    lab.until(lambda: lab.token(pod) != before, "the token's file is new", 120)
    (status,) = [each for each in lab.pods() if each["metadata"]["name"] == pod]
    began = datetime.fromisoformat(status["status"]["startTime"]).timestamp()
    lab.until(lambda: time.time() > began + REREAD_SECONDS + 10, "the old copy is too old", REREAD_SECONDS + 20)
    lab.operator(chart=NEW_CHART, driver=NEW)
    done = lab.deployed(hook)
    assert done.code == 0, done.output
    lab.assert_clean(["gpu-0"])
    assert len(lab.pods()) == 1
    used = [(each["objectRef"]["resource"], _credential(each)) for each in lab.audited()]
    first, last = used[0][1], used[-1][1]
    assert first != last
    assert ("pods", last) in used
    assert ("pods", first) not in used


def _credential(event: dict[str, Any]) -> str:
    """Give the identifier of the token that a request carried (its ``jti`` claim)."""
    (identifier,) = event["user"]["extra"]["authentication.kubernetes.io/credential-id"]
    return str(identifier)
