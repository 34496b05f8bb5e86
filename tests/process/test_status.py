"""The command status as a process: what it prints, and the exit code for scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.client.fixtured import showing
from tests.fixtures.cluster import Cluster, cluster, labelled, stale
from tests.fixtures.objects import obj
from tests.process.program import Ended, documented, run, write_kubeconfig

UNTOLERATED: Final = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
OUTDATED: Final = {"metadata": {"labels": {"controller-revision-hash": "old"}}}
BY_HAND: Final = {"spec": {"driver": {"upgradePolicy": {"autoUpgrade": False}}}}
STARTING: Final = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}


def statuses(folder: Path, *cases: tuple[Cluster, str]) -> list[Ended]:
    """Look at each of these clusters, with these words."""
    looks: list[Ended] = []
    for found, words in cases:
        with showing(found) as server:
            file = write_kubeconfig(folder / "kubeconfig", server.api.host)
            looks.append(run(folder, "status", f"--kubeconfig={file}", *words.split()))
    return looks


def test_the_exit_code_shows_whether_something_is_wrong(tmp_path: Path) -> None:
    """3 for a stale plugin or a failed node, in any output; what is in progress is not wrong."""
    by_hand = cluster("a").change("driver-pod", OUTDATED).change("policy", BY_HAND)
    unnamed = obj("plugin-daemonset", {"metadata": {"name": "mine"}})
    cases: dict[str, tuple[Cluster, int, str]] = {
        "verified": (cluster("a"), 0, ""),
        "driver starting": (cluster("a").change("driver-pod", STARTING), 0, ""),
        "excluded": (cluster("a", "b").change("node", labelled("b", skip="true"), "b"), 0, ""),
        "to be upgraded by hand": (by_hand, 0, "onManualUpgrade=report"),
        "stale": (stale("a"), 3, "--output=json"),
        "one of two stale": (cluster("a", "b").put("plugin-pod", *stale("a").of("plugin-pod")), 3, ""),
        "stale and not tolerated": (stale("a").change("node", UNTOLERATED), 3, ""),
        "driver upgrade failed": (cluster("a").change("node", labelled("a", state="upgrade-failed")), 3, ""),
        "stale under another name": (stale("a").only("daemonset", obj("driver-daemonset"), unnamed), 3, ""),
        "failed by declaration": (by_hand, 3, "onManualUpgrade=fail"),
    }
    ran = statuses(tmp_path, *((found, f"--exit-code {words}") for found, _code, words in cases.values()))
    for (name, (_found, code, words)), done in zip(cases.items(), ran, strict=True):
        assert done.code == code, (name, done.said)
        if "json" in words:
            assert documented("status", done.out)["nodes"][0]["state"] == "Stale"
    assert "Failed  ManualUpgrade" in ran[-1].out
