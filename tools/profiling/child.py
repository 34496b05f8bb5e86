"""``python -m tools.profiling.child NAME FOLDER run...``: the program itself, changed or watched as NAME says.

What a watch finds goes into a file of FOLDER, where the ServiceAccount's files are, too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tools.profiling.typed import TYPED, read
from tools.profiling.watching import WATCHES

MOUNT, FOUND = "mount", "found.json"


def main() -> None:
    """Begin to watch before the program is loaded: that costs, too."""
    name, folder, *arguments = sys.argv[1:]
    if name == TYPED:
        read(f"{folder}/{MOUNT}")
        return
    sys.argv = ["gpu-operator-post", *arguments]
    watch = WATCHES[name]() if name in WATCHES else None
    if watch is not None:
        watch.start()
    try:
        _program(name, changed=watch is None)
    finally:
        if watch is not None:
            (Path(folder) / FOUND).write_text(json.dumps(watch.stop()), encoding="utf-8")


def _program(name: str, *, changed: bool) -> None:
    if changed:
        from tools.profiling.variants import change  # noqa: PLC0415 - it loads parts of the program

        change(name)
    from hook.cli import main as program  # noqa: PLC0415 - see above

    program()


if __name__ == "__main__":
    main()
