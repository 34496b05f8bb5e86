"""The command status as a process: the exit code for scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.shown import showing
from tests.fixtures.cluster import Cluster, cluster, stale
from tests.process.program import documented, reaching, run


@pytest.mark.parametrize(
    ("found", "words", "state", "code"),
    [
        pytest.param(cluster("a"), ["--exit-code"], "Verified", 0, id="verified"),
        pytest.param(stale("a"), ["--exit-code"], "Stale", 3, id="stale"),
        pytest.param(stale("a"), [], "Stale", 0, id="not asked for"),
    ],
)
def test_the_exit_code_shows_whether_something_is_wrong(
    tmp_path: Path, found: Cluster, words: list[str], state: str, code: int
) -> None:
    """If a script asks for that, in any output. What is wrong is in tests/unit/run/test_status.py."""
    with showing(found) as server:
        flag = reaching(tmp_path, server.api.host)
        done = run(tmp_path, "status", flag, "--output=json", *words)
    assert done.code == code, done.said
    (node,) = documented("status", done.out)["nodes"]
    assert node["state"] == state
