"""What the core makes of each recording: which plugins it restarts, and when the run is done.

Usage: ``PYTHONPATH=. python tests/replay/baseline.py`` writes ``tests/fixtures/recordings/baseline.json`` anew.

Times are seconds since the recording began. Compare each change of the core with it: a difference is a
decision, never an accident. Reasons and messages are left out, so that they can be reworded.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from hook.config import Settings
from tests.replay.recording import FOLDER
from tests.replay.replaying import EVERY, Replay, play

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE: Final = FOLDER / "baseline.json"
HELM_RETURNS: Final = 0.2
"""Seconds after T0."""
APPROACHES: Final[Mapping[str, Mapping[str, Any]]] = {
    "from T0": {"delay": 0.0},
    "from helm's return": {"delay": HELM_RETURNS},
    "from helm's return, operator not found": {"delay": HELM_RETURNS, "operator_seen": False},
    "from helm's return, manual upgrades reported": {"delay": HELM_RETURNS, "settings": Settings()},
}
"""How a recording is replayed, by name."""


def outcome(replay: Replay) -> dict[str, Any]:
    """Return how a replay ended, and what it restarted on the way."""
    ended, last = replay.decisions[-1]
    return {
        "verdict": str(last.phase),
        "at": round(ended, 3),
        "restarts": [f"{node} at {at:.3f}" for at, node in replay.plugins.restarts],
    }


def outcomes(name: str) -> dict[str, Any]:
    """Return how each replay of a recording ended."""
    return {words: outcome(play(name, **how)) for words, how in APPROACHES.items()}


def main() -> None:
    """Write the baseline anew."""
    found = {name: outcomes(name) for name in EVERY}
    FILE.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
