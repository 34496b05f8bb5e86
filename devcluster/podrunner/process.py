"""One start of one container, as a process group with its output in a file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from devcluster.layout import CHECKOUT
from devcluster.processes import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MESSAGE_BYTES = 4096
"""A termination message is cut here (pkg/kubelet/container, MaxContainerTerminationMessageLength)."""

LOG_MESSAGE_BYTES, LOG_MESSAGE_LINES = 2048, 80
"""With FallbackToLogsOnError a kubelet takes this much of the log's end."""


@dataclass(frozen=True, slots=True)
class Files:
    """What one container leaves behind."""

    log: Path
    previous_log: Path
    message: Path
    """The termination message."""

    @classmethod
    def of(cls, folder: Path, container: str) -> Files:
        """Name the files of a container in its pod's folder."""
        return cls(*(folder / f"{container}.{kind}" for kind in ("log", "previous.log", "message")))

    def rotate(self) -> None:
        """Make room for another start."""
        if self.log.exists():
            self.log.replace(self.previous_log)
        self.message.write_bytes(b"")

    def termination_message(self, policy: str, *, failed: bool) -> str:
        """Read what the container says about its end, falling back to its log if its policy allows that."""
        text = self.message.read_bytes()[:MESSAGE_BYTES]
        if not text and failed and policy == "FallbackToLogsOnError":
            end = self.log.read_bytes()[-LOG_MESSAGE_BYTES:]
            text = b"".join(end.splitlines(keepends=True)[-LOG_MESSAGE_LINES:])
        return text.decode(errors="replace")


class ContainerProcess:
    """A running container."""

    def __init__(self, process: asyncio.subprocess.Process, record: Record, records: Path) -> None:
        self.started = datetime.now(UTC)
        self._process = process
        self._record = record
        self._records = records

    @classmethod
    async def start(
        cls, name: str, command: Sequence[str], variables: Mapping[str, str], files: Files, records: Path
    ) -> ContainerProcess:
        """Start a process under a name for its record, at the head of a group of its own."""
        files.rotate()
        with files.log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=dict(variables),
                cwd=CHECKOUT,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        record = Record.of(name, process.pid)
        record.write(records)
        return cls(process, record, records)

    @property
    def pid(self) -> int:
        """Process id, and id of the group."""
        return self._process.pid

    async def wait(self) -> int:
        """Wait for the end; whatever the process has left running ends with it, as in a container."""
        try:
            code = await self._process.wait()
        finally:
            self.signal(signal.SIGKILL)
        self._record.forget(self._records)
        return code

    async def stop(self, grace: float) -> None:
        """Ask the process to end, and end it when the grace period is over."""
        self.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), grace)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Signal the whole group; the id stays taken while the group has members."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
