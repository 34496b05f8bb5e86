"""One container's life inside its pod: started, restarted, reported, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from devcluster.podrunner import environment, images, status
from devcluster.podrunner.process import ContainerProcess, Files

if TYPE_CHECKING:
    from devcluster.client import Object
    from devcluster.podrunner.pod import PodLife

logger = logging.getLogger(__name__)

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 10.0
"""Between restarts. A kubelet waits from 10 s to 5 min; tests have no time for that."""

CONFIG_RETRY_SECONDS = 2.0
"""Before looking again for a ConfigMap or Secret that was missing."""

WAITING_REASONS: dict[type[Exception], str] = {
    images.UnknownImageError: "ErrImagePull",
    images.UnsupportedCommandError: "RunContainerError",
    environment.ConfigError: "CreateContainerConfigError",
}
"""How a kubelet names what keeps a container from starting."""


class ContainerLife:
    """Runs one container as often as its restart policy says."""

    def __init__(self, pod: PodLife, spec: Object) -> None:
        self.state = status.ContainerState(spec["name"], spec["image"])
        self.files = Files.of(pod.folder, spec["name"])
        self._pod = pod
        self._spec = spec
        self._process: ContainerProcess | None = None
        self._stops: set[asyncio.Task[None]] = set()

    @property
    def runs(self) -> bool:
        """Whether its process runs now."""
        return self._process is not None

    def stop(self, grace: float) -> None:
        """Begin to end it: SIGTERM now, SIGKILL after the grace period."""
        if self._process is not None:
            task = asyncio.create_task(self._process.stop(grace))
            self._stops.add(task)
            task.add_done_callback(self._stops.discard)

    def kill(self) -> None:
        """End it now."""
        if self._process is not None:
            self._process.signal(signal.SIGKILL)

    async def live(self, policy: str) -> None:
        """Start it, and start it again, until its policy or the pod's deletion ends that."""
        backoff = FIRST_BACKOFF
        while not self._pod.deleted.is_set():
            if not await self._run_once():
                continue
            if policy == "Never" or (policy == "OnFailure" and self.state.succeeded):
                break
            if self._pod.deleted.is_set():
                break
            await self._back_off(backoff)
            backoff = min(2 * backoff, LONGEST_BACKOFF)
        self.state.ended_for_good = "terminated" in self.state.now

    async def _back_off(self, seconds: float) -> None:
        """Show the failure, then wait before the next start."""
        await self._pod.publish()
        message = f"back-off {seconds:.0f}s restarting failed container={self.state.name}"
        self.state.last = self.state.now
        self.state.now = status.waiting("CrashLoopBackOff", message)
        await self._pod.publish()
        await self._sleep(seconds)
        self.state.restarts += 1

    async def _run_once(self) -> bool:
        """Run it to its end; False if it could not be started."""
        try:
            command = images.entry_point(self._spec, self._pod.host.images)
            variables = await self._variables()
        except tuple(WAITING_REASONS) as error:
            self.state.now = status.waiting(WAITING_REASONS[type(error)], str(error))
            await self._pod.publish()
            # What an image is does not change; what a ConfigMap holds may.
            await self._sleep(CONFIG_RETRY_SECONDS if isinstance(error, environment.ConfigError) else None)
            return False
        arguments = [environment.expand(argument, variables) for argument in self._spec.get("args", [])]
        await self._execute([*command, *arguments], variables)
        return True

    async def _execute(self, command: list[str], variables: dict[str, str]) -> None:
        """Run a command to its end and keep what a runtime would report of it."""
        record = f"pod-{self._pod.folder.name}-{self.state.name}"
        process = await ContainerProcess.start(record, command, variables, self.files, self._pod.host.state.processes)
        self._process = process
        (self._pod.folder / "pid").write_text(str(process.pid))
        if self._pod.deleted.is_set():
            self.stop(self._pod.grace)
        self.state.now = status.running(process.started)
        await self._pod.publish()
        try:
            code = await process.wait()
        finally:
            self._process = None
        policy = self._spec.get("terminationMessagePolicy", "File")
        message = self.files.termination_message(policy, failed=code != 0)
        self.state.now = status.terminated(code, process.started, datetime.now(UTC), message)
        logger.info("%s %s ended with %s", self._pod.name, self.state.name, self.state.now["terminated"]["exitCode"])

    async def _variables(self) -> dict[str, str]:
        """Return its environment; where it would name paths of the image, they are the pod's own."""
        pod = self._pod
        service_account = str(pod.service_account)
        return {
            **await environment.variables(pod.api, pod.manifest, self._spec, pod.host.variables),
            "HOME": str(pod.folder / "tmp"),
            "TMPDIR": str(pod.folder / "tmp"),
            "GPU_OPERATOR_POST_SERVICE_ACCOUNT_DIR": service_account,
            "DEVCLUSTER_SERVICE_ACCOUNT_DIR": service_account,
            "GPU_OPERATOR_POST_TERMINATION_LOG": str(self.files.message),
        }

    async def _sleep(self, seconds: float | None) -> None:
        """Wait for some time, or for the pod's deletion."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._pod.deleted.wait(), seconds)
