"""``python -m tools.verified ARGUMENTS``: the program, which evaluates the whole fleet besides each decision.

It ends at once with `DIFFERENT` if the incremental decision is another one (``python -m devcluster.soak
--verify-incremental``).
"""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from hook.cli import main as program
from hook.decide.run import decide
from hook.run import loop

if TYPE_CHECKING:
    from collections.abc import Iterator

DIFFERENT: Final = 70
"""Exit code: no other end of the program has it."""


class DifferentError(AssertionError):
    """An incremental decision is not that of a full evaluation."""


def verified(snapshot: Any, memory: Any, settings: Any, now: Any, changed: Any = None) -> Any:  # noqa: ANN401 - as decide
    """Decide as `decide` does. Raises DifferentError if a full evaluation decides otherwise."""
    found = decide(snapshot, memory, settings, now, changed)
    full = decide(snapshot, memory, settings, now)
    if found != full:
        raise DifferentError("; ".join(_differences(found, full)))
    return found


def _differences(found: Any, full: Any) -> Iterator[str]:  # noqa: ANN401 - as decide
    """Yield where two decisions and memories differ."""
    for name, ours, theirs in zip(("decision", "memory"), found, full, strict=True):
        for field in filter(lambda each: each.compare, fields(ours)):
            values = getattr(ours, field.name), getattr(theirs, field.name)
            if values[0] != values[1]:
                yield f"{name}.{field.name}: {values[0]!r:.2000} instead of {values[1]!r:.2000}"


def _or_end(*arguments: Any) -> Any:  # noqa: ANN401 - as decide
    """Decide, or end the process: no handler of the program may catch that."""
    try:
        return verified(*arguments)
    except DifferentError as error:
        sys.stderr.write(f"incremental and full evaluation differ: {error}\n")
        sys.stderr.flush()
        os._exit(DIFFERENT)


if __name__ == "__main__":
    vars(loop)["decide"] = _or_end
    sys.argv[0] = "gpu-operator-post"
    program()
