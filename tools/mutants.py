"""Break hook/decide, kube and run in one place after the other, and see that a test notices each time.

python -m tools.mutants                          a seeded sample of 500 mutants, continued where it was interrupted
python -m tools.mutants --sample 50 --seed 7     another one

mutmut makes the mutants and runs the unit and client tests that reach the function of each, in mutants/. It tries none
again that failed a test there: delete that folder to begin anew. A mutant that survives must be named in
docs/dev/testing.md with the reason; the exit code is 1 if one is not.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "dev" / "testing.md"
FEW: Final = "hook.decide.result.*"
"""A module with few mutants: running these makes all others, too."""
NOTICED: Final = ("killed", "timeout")
"""A test failed, or the tests did not end in time: on a busy machine that may hide a survivor, so it is tried again."""


def mutmut(*arguments: str) -> str:
    """Return what mutmut prints. Raise CalledProcessError where it fails."""
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def statuses() -> dict[str, str]:
    """Return all mutants, each with its status."""
    return dict(re.findall(r"^ *(hook\.\S+): (.+)$", mutmut("results", "--all", "true"), re.MULTILINE))


def chosen(names: Iterable[str], most: int, seed: int) -> list[str]:
    """Return a sample of the mutants, the same for the same names and seed."""
    ordered = sorted(names)
    return sorted(random.Random(seed).sample(ordered, min(most, len(ordered))))  # noqa: S311 - a sample, not a secret


def described(mutant: str, diff: str) -> str:
    """Return a mutant as the page names it: its function, and the line that was changed as it is in the mutant."""
    added = next(line[1:].strip() for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++"))
    function = re.sub(r"__mutmut_\d+$", "", mutant).removeprefix("hook.")
    return f"`{re.sub(r'[.]x_|[.]xǁ|ǁ', '.', function)}` | `{added}`"


def main() -> int:
    """Run the sample; print the survivors that the page does not name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=500, help="mutants to try (default 500)")
    parser.add_argument("--seed", type=int, default=1, help="draws the sample (default 1)")
    given = parser.parse_args()
    workers = f"--max-children={os.cpu_count() or 1}"
    mutmut("run", workers, FEW)
    found = statuses()
    sample = chosen(found, given.sample, given.seed)
    # mutmut runs each mutant that is named, whatever it knows of it.
    if left := [name for name in sample if found[name] != "killed"]:
        mutmut("run", workers, *left)
        found = statuses()
    survived = [name for name in sample if found[name] not in NOTICED]
    page = PAGE.read_text(encoding="utf-8")
    unnamed = []
    for name in survived:
        diff = mutmut("show", name)
        if described(name, diff) not in page:
            unnamed.append(name)
            sys.stdout.write(f"{name}: {found[name]}\n| {described(name, diff)} |\n{diff}\n")
    late = sum(found[name] == "timeout" for name in sample)
    counts = f"{len(sample)} mutants of {len(found)}, {late} took too long, {len(survived)} survived"
    sys.stdout.write(f"{counts}, {len(unnamed)} of them not in {PAGE.name}\n")
    return 1 if unnamed else 0


if __name__ == "__main__":
    sys.exit(main())
