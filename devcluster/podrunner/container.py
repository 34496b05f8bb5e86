"""One container's life inside its pod: started, restarted, reported, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from devcluster.podrunner import environment, images, ports, probes, status
from devcluster.podrunner.process import Command, ContainerProcess, Files

if TYPE_CHECKING:
    from devcluster.client import Object
    from devcluster.podrunner.context import PodContext

logger = logging.getLogger(__name__)

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 10.0
"""Between restarts. A kubelet waits from 10 s to 5 min; tests have no time for that."""

CONFIG_RETRY_SECONDS = 2.0
"""Before looking again for a ConfigMap or Secret that was missing."""

WAITING_REASONS: dict[type[Exception], str] = {
    images.UnknownImageError: "ErrImagePull",
    images.UnsupportedCommandError: "RunContainerError",
    probes.UnsupportedProbeError: "RunContainerError",
    environment.ConfigError: "CreateContainerConfigError",
}
"""How a kubelet names what keeps a container from starting."""


class ContainerLife:
    """Runs one container as often as its restart policy says."""

    def __init__(self, pod: PodContext, spec: Object) -> None:
        self.state = status.ContainerState(spec["name"], spec["image"])
        self.files = Files.of(pod.folder, spec["name"])
        self._pod = pod
        self._spec = spec
        self._ports = ports.assign(spec)
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

    async def is_started(self) -> None:
        """Pass the startup probe."""
        self.state.started = True
        await self._pod.publish()

    async def is_ready(self, *, ready: bool) -> None:
        """Take over what the readiness probe says."""
        if self.state.ready is not ready:
            self.state.ready = ready
            await self._pod.publish()

    def fails(self, kind: str, grace: float | None) -> None:
        """End a container whose probe failed, so that it is started again; one that ends anyway has its own time."""
        if not self._pod.deleted.is_set():
            logger.info("%s %s failed its %s probe and is restarted", self._pod.name, self.state.name, kind)
            self.stop(self._pod.usual_grace if grace is None else grace)

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
            program, command = images.entry_point(self._spec)
            probing = probes.Probes.of(self._spec, self._ports)
            variables = await self._variables()
        except tuple(WAITING_REASONS) as error:
            self.state.now = status.waiting(WAITING_REASONS[type(error)], str(error))
            await self._pod.publish()
            # What an image is does not change; what a ConfigMap holds may.
            await self._sleep(CONFIG_RETRY_SECONDS if isinstance(error, environment.ConfigError) else None)
            return False
        expanded = (environment.expand(argument, variables) for argument in self._spec.get("args", []))
        arguments = [ports.addressed(argument, self._ports) for argument in expanded]
        mounted = images.MOUNTED.get(images.repository_name(self._spec["image"]), {})
        places = {images.ACCOUNT: self._pod.service_account, images.MESSAGE: self.files.message}
        arguments += [f"--{flag}={places[flag]}" for flag in mounted.get("".join(arguments[:1]), ())]
        await self._execute(Command(program, [*command, *arguments], variables), probing)
        return True

    async def _execute(self, command: Command, probing: probes.Probes) -> None:
        """Run a command to its end and keep what a runtime would report of it."""
        record = f"pod-{self._pod.folder.name}-{self.state.name}"
        records = self._pod.host.state.processes
        process = ContainerProcess.start(record, command, self.files, records)
        self._process = process
        (self._pod.folder / "pid").write_text(str(process.pid))
        (self._pod.folder / "ports.json").write_text(json.dumps(self._ports))
        if self._pod.deleted.is_set():
            self.stop(self._pod.grace)
        self.state.run(process.started, started=not probing.startup, ready=not probing.readiness)
        await self._pod.publish()
        watching = asyncio.create_task(probes.watch(probing, self)) if probing else None
        try:
            code = await process.wait()
        finally:
            self._process = None
            if watching:
                watching.cancel()
        policy = self._spec.get("terminationMessagePolicy", "File")
        message = self.files.termination_message(policy, failed=code != 0)
        self.state.now = status.terminated(code, process.started, datetime.now(UTC), message)
        logger.info("%s %s ended with %s", self._pod.name, self.state.name, self.state.now["terminated"]["exitCode"])

    async def _variables(self) -> dict[str, str]:
        """Return its environment; where it would name paths of the image, they are the pod's own."""
        pod = self._pod
        service_account = str(pod.service_account)
        made = await environment.variables(pod.api, pod.manifest, self._spec, pod.host.variables)
        return {
            # As a runtime has it; the machine's own name is that of all pods here.
            "HOSTNAME": pod.manifest["metadata"]["name"],
            **{name: ports.addressed(value, self._ports) for name, value in made.items()},
            "HOME": str(pod.folder / "tmp"),
            "TMPDIR": str(pod.folder / "tmp"),
            "DEVCLUSTER_SERVICE_ACCOUNT_DIR": service_account,
            "DEVCLUSTER_TERMINATION_LOG": str(self.files.message),
        }

    async def _sleep(self, seconds: float | None) -> None:
        """Wait for some time, or for the pod's deletion."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._pod.deleted.wait(), seconds)
