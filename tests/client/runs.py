"""Runs of the Job in this process, and restarts that a decision asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from hook.decide.reasons import Reason
from hook.decide.result import Decision, Phase, StalePlugin
from hook.kube import retry
from hook.kube.cache import Cache
from hook.kube.events import EventRecorder, ObjectReference
from hook.kube.own import Job
from hook.objects import read_pod
from hook.run.clock import Clock
from hook.run.job import Outcome, Runner
from hook.settings import Settings
from tests.client.server import PATIENCE, Server, until
from tests.fixtures.cluster import LATER
from tests.fixtures.objects import obj

JOB: Final = ObjectReference("batch/v1", "Job", "gpu-operator", "post", "job-uid")
PLUGIN: Final = ObjectReference("apps/v1", "DaemonSet", "dra", "plugin", "ds")
DONE: Final = Decision(Phase.DONE, Reason.NOTHING_STALE, "all is well")
FAIL: Final = Decision(Phase.FAIL, Reason.DRIVER_FAILING, "it crashes")
LATE: Final = Decision(Phase.DEADLINE, Reason.TIME_UP, "the time is up")
PASSED: Final = Settings().timeout.total_seconds() + 1
"""Age of a Job whose time is up."""


def runner(server: Server, settings: Settings | None = None, ago: float = 0.0, *, silent: bool = True) -> Runner:
    """Return a run whose Job started so many seconds ago."""
    asked = settings or Settings()
    cache = Cache(server.api, asked, retry.Patience(PATIENCE))
    own = Job(JOB, LATER - timedelta(seconds=ago))
    recorder = EventRecorder(server.api, JOB.uid, silent=silent or asked.dry_run)
    return Runner(server.api, cache, asked, recorder, own, clock=Clock(LATER))


def passes(run: Runner, seconds: float = PASSED) -> None:
    """Let time pass for a run."""
    run._clock._origin += timedelta(seconds=seconds)


@contextmanager
def reading(server: Server) -> Iterator[Runner]:
    """Begin a run, and stop it in the end. It has read everything."""
    run = runner(server)
    run._cache.start()
    until(run._loop.observe, "all is read")
    try:
        yield run
    finally:
        run._cache.stop()


def ended(run: Runner) -> Outcome:
    """Run to the end."""
    outcome = run.run()
    run._cache.stop()
    return outcome


def stale_pods(*names: str) -> list[StalePlugin]:
    """Ask for restarts of stale plugins, each on a node of its own."""
    places = ({"namespace": "dra", "name": name, "uid": f"uid-{name}", "resourceVersion": "7"} for name in names)
    pods = [read_pod(obj("plugin-pod", {"metadata": metadata})) for metadata in places]
    return [StalePlugin(f"gpu-{pod.name}", pod, "ds", because="it is stale", load="driver-uid/0") for pod in pods]
