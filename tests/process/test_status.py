"""The command status as a process: the exit code for scripts, and all that it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from hook.objects import names
from hook.objects.taints import Place, spec_of
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


def test_device_taint_rules_are_shown(tmp_path: Path) -> None:
    """With the place and the reason that the rule itself names."""
    metadata = {"name": "a-5e2c0c8a63d1", "labels": names.OWN_LABELS, "creationTimestamp": "2026-07-01T10:00:00Z"}
    spec = spec_of(Place("gpu.nvidia.com", "a"), "PluginStale")
    with showing(stale("a"), lambda: [{"kind": "DeviceTaintRule", "metadata": metadata, "spec": spec}]) as server:
        done = run(tmp_path, "status", reaching(tmp_path, server.api.host), "--output=json")
    assert documented("status", done.out)["deviceTaints"] == [
        {
            "rule": "a-5e2c0c8a63d1",
            "pool": "a",
            "driver": "gpu.nvidia.com",
            "reason": "PluginStale",
            "createdAt": "2026-07-01T10:00:00Z",
        }
    ]
