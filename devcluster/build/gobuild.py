"""Build Go programs into a cache: one process at a time, all or nothing, with visible progress."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from devcluster.build.gotoolchain import find_go

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from devcluster.build.programs import Program

FLAGS = ("-mod=readonly", "-trimpath", "-gcflags=all=-dwarf=false")
"""readonly: what is built is what go.sum pins, or nothing. What debuggers want is not made: the linker throws it away,
and without it etcd takes a tenth less CPU to build (114 instead of 127 s), and a fifth less memory and cache."""

ENVIRONMENT = {
    "GOFLAGS": "-buildvcs=false",  # the sources come from modules, not from this checkout
    "GOTOOLCHAIN": "local",  # find_go found the one that all modules need
    "GOWORK": "off",
    "CGO_ENABLED": "0",  # no C compiler or headers needed
    # The compiler spends less on collecting its garbage: a third less CPU for the largest packages, and the same
    # programs. 400 holds 700 MB for the largest of them, where none at all would hold 1.1 GB.
    "GOGC": "400",
}

TAIL_LINES = 25
"""How much of a build log is shown before the name of the file."""

STEP_SECONDS = 0.2
"""How often a running build is looked at."""

REPORT_SECONDS = 30.0
"""Between two lines of progress."""


class BuildError(Exception):
    """A program could not be built; the message ends with the tail of the log."""


@dataclass(frozen=True, slots=True)
class Job:
    """One program to build."""

    program: Program
    source: Path
    """Folder with go.mod and go.sum."""
    target: Path
    """The executable; appears only when it is complete."""

    @property
    def name(self) -> str:
        """Name and version, for people."""
        return f"{self.program.name} {self.program.version}"


def build_all(jobs: Sequence[Job], cache: Path, out: TextIO | None = None) -> None:
    """Build what is still missing once no other process builds."""
    out = out or sys.stderr
    with only_builder(cache, out):
        missing = [job for job in jobs if not job.target.is_file()]
        if not missing:
            return
        go = find_go(cache, out)
        _say(out, f"building {len(missing)} programs from source; the first time takes some minutes")
        done = 0
        for _, group in groupby(missing, key=_recipe):
            together = list(group)
            numbers = f"{done + 1} to {done + len(together)}" if len(together) > 1 else f"{done + 1}"
            done += len(together)
            names = ", ".join(job.name for job in together)
            _build(together, go, cache, Progress(out, f"{names} ({numbers} of {len(missing)})"))


def _recipe(job: Job) -> tuple[object, ...]:
    """Return which jobs one command builds. One program is then linked while the next one is compiled."""
    program = job.program
    by_name = program.file_name == program.package.rpartition("/")[2]
    return (job.source, program.linker_flags, program.tags, program.uses_c, "" if by_name else job.name)


def _build(jobs: Sequence[Job], go: Path, cache: Path, progress: Progress) -> None:
    """Build programs of one recipe under temporary names, then move them into place."""
    first = jobs[0]
    log = cache / "log" / f"{first.target.parent.name}.log"
    unfinished = cache / "bin" / f".unfinished.{os.getpid()}"
    for folder in (log.parent, unfinished, *(job.target.parent for job in jobs)):
        folder.mkdir(parents=True, exist_ok=True)
    program = first.program
    constraints = ["-tags", ",".join(program.tags)] if program.tags else []
    output = str(unfinished / first.target.name) if len(jobs) == 1 else f"{unfinished}/"
    options = [*FLAGS, *constraints, "-ldflags", program.linker_flags, "-o", output]
    try:
        with log.open("w") as lines:
            code = _run([str(go), "build", *options, *(job.program.package for job in jobs)], first, lines, progress)
        if code != 0:
            raise BuildError(_explanation(jobs, code, log))
        for job in jobs:
            _copy_files(job, go)
            (unfinished / job.target.name).rename(job.target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    progress.done()


def _copy_files(job: Job, go: Path) -> None:
    """Put the release's files next to the program, so that the cache alone is enough from then on."""
    program = job.program
    if not program.files:
        return
    answer = subprocess.run(
        [go, "list", *FLAGS[:1], "-m", "-f", "{{.Dir}}", program.release],
        cwd=job.source,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    folder = answer.stdout.strip()
    found = [file for pattern in program.files for file in sorted(Path(folder).glob(pattern))] if folder else []
    if not found:
        raise BuildError(
            f"{program.release} of {job.name} has no {' or '.join(program.files)}: {answer.stderr.strip()}"
        )
    for each in found:
        for file in (inner for inner in (each, *each.rglob("*")) if inner.is_file()):
            target = job.target.parent / file.relative_to(each.parent)
            target.parent.mkdir(parents=True, exist_ok=True)  # not with the mode of the module cache's, read-only
            shutil.copyfile(file, target)


def _run(command: list[str], job: Job, log: TextIO, progress: Progress) -> int:
    """Run a build to its end and end it if we are interrupted."""
    process = subprocess.Popen(
        command,
        cwd=job.source,
        env={**os.environ, **ENVIRONMENT, **({"CGO_ENABLED": "1"} if job.program.uses_c else {})},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        while True:
            try:
                return process.wait(STEP_SECONDS)
            except subprocess.TimeoutExpired:
                progress.tick()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _explanation(jobs: Sequence[Job], code: int, log: Path) -> str:
    """Report what failed, show why, and where the rest is."""
    tail = "\n".join(f"    {line}" for line in log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
    return (
        f"building {', '.join(job.name for job in jobs)} failed: "
        f"`go build {' '.join(job.program.package for job in jobs)}` in {jobs[0].source} ended with {code}\n"
        f"{tail}\n"
        f"  whole log: {log}\n"
        "  the build needs the Go module proxy (GOPROXY) and about 3 GB of disk, the deployers 10 GB more; "
        "a program of a fitting version in PATH or KUBEBUILDER_ASSETS is used instead of a build"
    )


@contextmanager
def only_builder(cache: Path, out: TextIO) -> Iterator[None]:
    """Hold the cache's lock; the kernel drops it even if we are killed."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(out, "waiting for another process that builds into the same cache")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Progress:
    """Shows that a build is alive: a line now and then."""

    def __init__(self, out: TextIO, label: str) -> None:
        self._out = out
        self._label = label
        self._started = self._shown = time.monotonic()
        self._show()

    def tick(self) -> None:
        """Show the elapsed time if it is time to."""
        now = time.monotonic()
        if now - self._shown >= REPORT_SECONDS:
            self._shown = now
            self._show()

    def done(self) -> None:
        """Show the end."""
        self._show(" done")

    def _show(self, end: str = "") -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        _say(self._out, f"building {self._label}  {minutes}:{seconds:02d}{end}")


def _say(out: TextIO, text: str) -> None:
    print(f"devcluster: {text}", file=out, flush=True)
