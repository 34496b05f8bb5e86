"""Find the commands in workflows and documents."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import dropwhile
from pathlib import Path
from typing import Any, Final

import yaml

from tests.chart.rendering import ROOT

WORKFLOWS: Final = tuple(sorted((ROOT / ".github" / "workflows").glob("*.yaml")))
RELEASE: Final = ROOT / ".github" / "workflows" / "release.yaml"
CONSOLE: Final = re.compile(r"^```(?:console|sh|bash|shell)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SEPARATORS: Final = frozenset({"&&", "||", ";", "|", "(", ")", "{", "}", "do", "then"})
"""What ends one command and begins the next."""

Step = dict[str, Any]


@cache
def workflow(path: Path) -> dict[str, Any]:
    """Read a workflow."""
    return dict(yaml.safe_load(path.read_text()))


def steps(path: Path) -> Iterator[Step]:
    """Yield every step of every job; a job that calls a workflow has none."""
    for job in workflow(path)["jobs"].values():
        yield from job.get("steps", ())


def commands(script: str) -> Iterator[list[str]]:
    """Split a script into its commands: only what comes first is one, as in `make chart` but not in `echo make`."""
    for line in script.replace("\\\n", " ").splitlines():
        words: list[str] = []
        for word in _words(line):
            if word in SEPARATORS:
                yield words
                words = []
            else:
                words.append(word)
        yield words


def _words(line: str) -> list[str]:
    """Split as a shell does; what a program printed, which documents show as well, may hold a lone quote."""
    split = shlex.shlex(line, posix=True, punctuation_chars=";&|(){}")
    split.whitespace_split = True
    split.commenters = "#"
    try:
        return list(split)
    except ValueError:
        return line.split()


def verbs(script: str) -> list[str]:
    """Return the targets that a script makes, also as another user or in another environment."""
    found = []
    for command in commands(script):
        own = dropwhile(lambda word: "=" in word, command[2:]) if command[:2] == ["sudo", "env"] else iter(command)
        if next(own, "") == "make":
            found += [word for word in own if not word.startswith(("-", "$")) and "=" not in word]
    return found


def defined_verbs() -> set[str]:
    """Return the targets of the Makefile."""
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def scripts() -> Iterator[tuple[str, str]]:
    """Yield each place with commands for a reader or CI, and its script: workflows, CI and documents."""
    for path in WORKFLOWS:
        yield path.name, "\n".join(step["run"] for step in steps(path) if "run" in step)
    for script in (".ci/run", "tools/test.sh"):
        yield script, (ROOT / script).read_text()
    for path in documents():
        yield str(path.relative_to(ROOT)), "\n".join(CONSOLE.findall(path.read_text()))


def documents() -> list[Path]:
    """Return the project's own documents, without those in folders that git ignores."""
    places = (ROOT.glob("*.md"), *(ROOT.joinpath(name).rglob("*.md") for name in ("docs", "charts", "examples")))
    return sorted(path for place in places for path in place)
