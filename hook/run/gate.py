"""The gate of ``helm test``: wait until the status object shows that a run has succeeded.

An earlier success never counts. A Job's run has an id, and the object must name this one. A controller without a Job
has no runs, so only a state counts that it wrote after the gate began.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from hook.errors import ThrottledError, UnreachableError
from hook.format import printable, timestamp
from hook.kube.requests import CONFIG_MAPS, Request
from hook.run.job import EXIT_DEADLINE, EXIT_FAILED
from hook.run.statusobject import READ_SECONDS, StatusPhase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hook.kube.client import Api

LOOK_SECONDS: Final = 2.0
"""Time between two reads of the status object."""
GOOD: Final = frozenset({StatusPhase.SUCCEEDED, StatusPhase.SKIPPED})
BAD: Final = frozenset({StatusPhase.FAILED, StatusPhase.TIMED_OUT})


def wait(api: Api, where: tuple[str, str], run_id: str, seconds: float, report: Callable[[str], None]) -> int:
    """Wait until the run has succeeded or failed, at most `seconds` without a change, and return the exit code.

    A run that a controller continues may last much longer than its Job. Report each change of the state. Raises
    ClusterError if the status object may not be read, or does not exist.
    """
    request = Request("get", CONFIG_MAPS, *where)
    end, began, shown = time.monotonic() + seconds, "", ""
    while True:
        code = None
        try:
            answer = api.send(request, READ_SECONDS)
        except (UnreachableError, ThrottledError) as error:
            state = printable(str(error))
        else:
            began = began or timestamp(api.now())
            data = answer.get("data") or {}
            code, state = _evaluate(data, run_id, began), _text(data)
        if state != shown:
            shown, end = state, time.monotonic() + seconds
            report(state)
        if code is not None:
            return code
        if time.monotonic() >= end:
            missing = f"{f'run {run_id}' if run_id else 'the controller'} has not succeeded"
            report(f"the time is up: {missing}, and nothing changed for {int(seconds)} s")
            return EXIT_DEADLINE
        time.sleep(LOOK_SECONDS)


def _evaluate(data: Mapping[str, str], run_id: str, began: str) -> int | None:
    """Return the exit code that a state means, or None if the gate must wait."""
    phase = data.get("phase", "")
    current = data.get("startedRunId") == run_id if run_id else data.get("updatedAt", "") > began
    if not current:
        return None
    if phase in BAD:
        return EXIT_FAILED
    return 0 if phase in GOOD and run_id in {"", data.get("succeededRunId")} else None


def _text(data: Mapping[str, str]) -> str:
    known = (f"{key}={data[key]}" for key in ("phase", "reason", "progress", "driverVersion") if data.get(key))
    return printable(" ".join((*known, data.get("message", "")))) or "nothing has been written yet"
