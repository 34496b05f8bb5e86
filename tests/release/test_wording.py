"""Plain English: no prose matches an expression of `wording.txt`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from tests.chart.rendering import ROOT
from tests.release.prose import prose

OTHER: Final = frozenset({".svg", ".png", ".html", ".jsonl", ".sum", ".lock"})
"""Pictures, and files that programs write."""
LIST: Final = Path(__file__).with_name("wording.txt")
LINES: Final = LIST.read_text().splitlines()
WORST: Final = re.compile("|".join(line for line in LINES if line and not line.startswith("#")), re.IGNORECASE)


def _files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in listed if Path(name).suffix not in OTHER and (ROOT / name).is_file()]


def test_prose_is_plain_english() -> None:
    """No file matches."""
    found = ((path, line, text) for path in _files() if path != LIST for line, text in prose(path))
    assert [f"{path}:{line}: {match[0]}" for path, line, text in found for match in WORST.finditer(text)] == []
