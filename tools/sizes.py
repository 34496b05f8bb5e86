"""Print how long each part of the project is: python -m tools.sizes. For information: nothing limits a total."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path, PurePath
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PYTHON: Final = ("hook", "ctl", "bundler", "devcluster", "tests", "tools")
TEMPLATES: Final = PurePath("charts/gpu-operator-post/templates")


def main() -> None:
    """Print a table: files, lines, and lines that are neither blank nor only a comment."""
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    code: Counter[str] = Counter()
    listed = subprocess.run(("git", "ls-files", "-z"), cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if (part := part_of(PurePath(name))) and path.is_file():
            text = path.read_text().splitlines()
            comment = "#" if path.suffix == ".py" else "{{/*"
            files[part] += 1
            lines[part] += len(text)
            code[part] += sum(not line.lstrip().startswith(comment) for line in text if line.strip())
    sys.stdout.write(f"{'':32}{'files':>8}{'lines':>8}{'code':>8}\n")
    for part in sorted(files):
        sys.stdout.write(f"{part:32}{files[part]:>8,}{lines[part]:>8,}{code[part]:>8,}\n")


def part_of(path: PurePath) -> str | None:
    """Return the part of the project to which a file counts: a package, the chart's templates, or documents."""
    top = path.parts[0]
    if path.suffix == ".py" and top in PYTHON:
        return str(path.parent) if top == "hook" else top
    if path.is_relative_to(TEMPLATES):
        return "chart templates"
    return "documents" if path.suffix == ".md" else None


if __name__ == "__main__":
    main()
