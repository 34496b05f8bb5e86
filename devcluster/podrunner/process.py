"""One start of one container, as a process group with its output in a file.

A container is forked from this process, which has imported its program before: a new interpreter would take half a
second of processor time for that, and a test starts a dozen.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import logging
import multiprocessing
import os
import runpy
import signal
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from devcluster.boot.layout import CHECKOUT
from devcluster.boot.processes import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.context import ForkProcess
    from pathlib import Path

    from devcluster.podrunner.images import Program

FORK = multiprocessing.get_context("fork")

ENDING = (signal.SIGTERM, signal.SIGINT)
"""Signals that this process handles itself. One for a container must not meet it before it has its own handlers: the
loop, which both share until then, would take it for one for this process."""

FIRST_FREE = 3
"""The first file descriptor after the standard streams."""

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


@dataclass(frozen=True, slots=True)
class Command:
    """What is run."""

    program: Program
    arguments: Sequence[str]
    variables: Mapping[str, str]
    """The whole environment."""


class ContainerProcess:
    """A running container."""

    def __init__(self, process: ForkProcess, record: Record, records: Path) -> None:
        self.started = datetime.now(UTC)
        self._process = process
        self._record = record
        self._records = records
        self._ended = asyncio.get_running_loop().create_future()
        self._watched = os.pidfd_open(self.pid)
        asyncio.get_running_loop().add_reader(self._watched, self._see_end)

    @classmethod
    def start(cls, name: str, command: Command, files: Files, records: Path) -> ContainerProcess:
        """Start a command under a name for its record, at the head of a process group of its own."""
        files.rotate()
        importlib.import_module(command.program.imports)
        with files.log.open("ab") as output:
            process = FORK.Process(target=become, args=(command, output.fileno(), output.fileno()), daemon=True)
            before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
            try:
                process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        pid = process.pid or 0  # which a process that was started has
        _lead_group(pid)
        record = Record.of(name, pid)
        record.write(records)
        return cls(process, record, records)

    @property
    def pid(self) -> int:
        """Process id, and id of the group."""
        return self._record.pid

    async def wait(self) -> int:
        """Wait for the end; whatever the process has left running ends with it, as in a container."""
        try:
            code: int = await asyncio.shield(self._ended)
        finally:
            self.signal(signal.SIGKILL)
        self._record.forget(self._records)
        return code

    async def stop(self, grace: float) -> None:
        """Ask the process to end, and end it when the grace period is over."""
        self.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.shield(self._ended), grace)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await asyncio.shield(self._ended)

    def _see_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._watched)
        os.close(self._watched)
        self._process.join()
        self._ended.set_result(self._process.exitcode)

    def signal(self, number: signal.Signals) -> None:
        """Signal the whole group; the id stays taken while the group has members."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def become(command: Command, out: int, err: int) -> None:
    """Run a program as ``python -m`` does, in a process that was forked for it, with these file descriptors."""
    _lead_group(0)
    gc.freeze()  # so that no object of the parent closes its file again, which may be another one by then
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    os.dup2(out, sys.stdout.fileno())
    os.dup2(err, sys.stderr.fileno())
    os.closerange(FIRST_FREE, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(command.variables)
    os.chdir(CHECKOUT)
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)
    sys.argv = [command.program.module, *command.arguments]
    runpy.run_module(command.program.module, run_name="__main__", alter_sys=True)


def _lead_group(pid: int) -> None:
    """Make a process lead a process group. Both it and its parent do so: a signal to the group may come at once."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpgid(pid, pid)
