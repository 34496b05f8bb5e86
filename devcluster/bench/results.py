"""One measure's figures as a file, so that a page can be made of many: what was run, on what, and what came of it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from devcluster.layout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FOLDER: Final = Path("build/bench")
"""Where figures are written by default."""
EVERYTHING: Final = "everything"
"""The name of what is measured of all measures together: how long they take."""
GIB: Final = 2**30


def machine() -> dict[str, Any]:
    """Describe what this runs on, as far as it matters."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / GIB),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def commit() -> str:
    """Return the commit that this runs, marked as dirty if files differ from it; empty outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    return done.stdout.strip()


@dataclass(frozen=True, slots=True)
class Result:
    """One measure."""

    name: str
    """Unique; the file's name."""
    measure: str
    """Its kind: measures of a kind stand in one table."""
    command: str
    """The command that measures this again."""
    seconds: float
    """How long that took."""
    given: Mapping[str, Any]
    figures: Mapping[str, Any]
    machine: Mapping[str, Any] = field(default_factory=machine)
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    commit: str = field(default_factory=commit)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Result:
        """Return a result that was written before. Older ones name no commit."""
        return cls(**{"commit": "", **stored})

    @property
    def source(self) -> tuple[str, Mapping[str, Any]]:
        """Return what was measured, and on what. Only figures of one source compare."""
        return self.commit, self.machine

    def write(self, folder: Path) -> Path:
        """Write the file, whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.name}.json"
        unfinished = file.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        return unfinished.rename(file)


def read(files: Iterable[Path]) -> list[Result]:
    """Read what was written, in the order of the names."""
    found = (Result.of(json.loads(file.read_text(encoding="utf-8"))) for file in files)
    return sorted(found, key=lambda one: one.name)
