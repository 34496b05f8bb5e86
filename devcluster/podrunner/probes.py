"""HTTP probes, by a kubelet's rules: startup first, then liveness, which restarts, and readiness, which is shown."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, Self

import aiohttp

from devcluster.podrunner import ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from devcluster.client import Object

KINDS: Final = ("startupProbe", "livenessProbe", "readinessProbe")
GOOD: Final = range(200, 400)
"""Statuses that pass (pkg/probe/http); redirects are not followed here."""


class UnsupportedProbeError(Exception):
    """The container has a probe that we cannot make: it is reported rather than left out."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe, with the API's defaults."""

    url: str
    headers: Mapping[str, str]
    delay: float
    period: float
    timeout: float
    successes: int
    failures: int
    grace: float | None
    """Seconds from SIGTERM to SIGKILL where this probe fails; None is the pod's."""

    @classmethod
    def of(cls, container: Object, kind: str, given: Mapping[int, int]) -> Self | None:
        """Read a container's probe of a kind, if it has one."""
        spec = container.get(kind)
        if spec is None:
            return None
        get = spec.get("httpGet")
        if get is None:
            raise UnsupportedProbeError(f"{kind} of container {container['name']}: only httpGet can be run")
        try:
            port = ports.number(container, get["port"])
        except KeyError as error:
            raise UnsupportedProbeError(f"{kind} of container {container['name']}: it has no port {error}") from error
        scheme, host = get.get("scheme", "HTTP").lower(), get.get("host") or ports.LOOPBACK
        return cls(
            url=f"{scheme}://{host}:{given.get(port, port)}/{get.get('path', '/').lstrip('/')}",
            headers={each["name"]: each["value"] for each in get.get("httpHeaders", [])},
            delay=spec.get("initialDelaySeconds", 0),
            period=spec.get("periodSeconds", 10),
            timeout=spec.get("timeoutSeconds", 1),
            successes=spec.get("successThreshold", 1),
            failures=spec.get("failureThreshold", 3),
            grace=spec.get("terminationGracePeriodSeconds"),
        )

    async def passes(self, session: aiohttp.ClientSession) -> bool:
        """Ask once."""
        limit = aiohttp.ClientTimeout(total=self.timeout)
        try:
            async with session.get(self.url, headers=self.headers, timeout=limit, allow_redirects=False) as answer:
                return answer.status in GOOD
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def verdicts(self, session: aiohttp.ClientSession) -> AsyncIterator[bool]:
        """Ask without an end; yield each verdict once so many answers in a row agree as its threshold says."""
        await asyncio.sleep(self.delay)
        last, same = False, 0
        while True:
            passed = await self.passes(session)
            last, same = passed, same + 1 if passed is last else 1
            if same == (self.successes if passed else self.failures):
                yield passed
            await asyncio.sleep(self.period)


@dataclass(frozen=True, slots=True)
class Probes:
    """The probes of one container."""

    startup: Probe | None = None
    liveness: Probe | None = None
    readiness: Probe | None = None

    @classmethod
    def of(cls, container: Object, given: Mapping[int, int]) -> Self:
        """Read all of them."""
        return cls(*(Probe.of(container, kind, given) for kind in KINDS))

    def __bool__(self) -> bool:
        return any((self.startup, self.liveness, self.readiness))


class Patient(Protocol):
    """Whose probes they are."""

    async def is_started(self) -> None:
        """Hear that the startup probe passed."""

    async def is_ready(self, *, ready: bool) -> None:
        """Hear what the readiness probe says now."""

    def fails(self, kind: str, grace: float | None) -> None:
        """Hear that it is to be restarted, and why."""


async def watch(probes: Probes, patient: Patient) -> None:
    """Probe a container that has just started, until it is to be restarted or we are cancelled."""
    # A kubelet does not verify what it probes.
    connector = aiohttp.TCPConnector(ssl=_unverified(), force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        if probes.startup and not await _starts(probes.startup, session, patient):
            return
        async with asyncio.TaskGroup() as group:
            if probes.liveness:
                group.create_task(_lives(probes.liveness, session, patient))
            if probes.readiness:
                group.create_task(_readies(probes.readiness, session, patient))


async def _starts(probe: Probe, session: aiohttp.ClientSession, patient: Patient) -> bool:
    """Wait for the startup probe's verdict."""
    passed = await anext(probe.verdicts(session))
    if passed:
        await patient.is_started()
    else:
        patient.fails("startup", probe.grace)
    return passed


async def _lives(probe: Probe, session: aiohttp.ClientSession, patient: Patient) -> None:
    """Wait for the liveness probe to fail; one that has is not asked again before the next start."""
    async for passed in probe.verdicts(session):
        if not passed:
            patient.fails("liveness", probe.grace)
            return


async def _readies(probe: Probe, session: aiohttp.ClientSession, patient: Patient) -> None:
    """Pass on what the readiness probe says."""
    async for passed in probe.verdicts(session):
        await patient.is_ready(ready=passed)


def _unverified() -> ssl.SSLContext:
    """Accept any certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
