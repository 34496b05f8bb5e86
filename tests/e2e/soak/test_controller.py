"""How the soak keeps a controller running and evaluates its ends, with small programs in the controller's place."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

from devcluster.cluster import Cluster
from devcluster.happening import JOURNAL, encode
from devcluster.patience import TooSlowError
from devcluster.soak.following import NEGLECTED_SECONDS, FollowerSoak, lost_its_lease
from devcluster.soak.judge import GROWTH_MEBIBYTES
from devcluster.soak.plan import Cycle, Fault, Upgrade
from devcluster.soak.processes import KILLED
from devcluster.soak.stage import DAEMONSET, Stage
from hook.decide.reasons import Reason
from hook.decide.result import Decision, Phase, headline

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CYCLE: Final = Cycle(0, Upgrade.NONE)
NODE: Final = "gpu-0"
LOST: Final = headline(Decision(Phase.FAIL, Reason.LEASE_LOST, "the Lease a/b was not renewed in time"))
"""The last words of the real program."""
BEGIN: Final = """
import json, pathlib, sys, time
journal, line, number = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[-1].partition("soak-")[2])
def serve():
    with journal.open("a") as file:
        file.write(line)
    time.sleep(600)
def lose():
    sys.exit(print(sys.argv[3]) or 1)
"""
SLEEPS: Final = "time.sleep(600)"
DIES: Final = "raise ValueError('an answer that nobody understands')"
DIES_ONCE: Final = f"if number == 0: {DIES}\n{SLEEPS}"
LOSES_IT: Final = "lose() if number == 0 else time.sleep(1) or serve()"
LEAKS: Final = """
hoard = []
for _step in range(40 if number == 0 else 0):
    hoard.append(b"x" * 2_000_000)
    time.sleep(0.1)
lose() if number == 0 else time.sleep(6) or serve()
"""
"""The first life leaks, the second is longer and does not."""


def soak(
    folder: Path,
    program: str,
    *,
    loaded: float = 2.0,
    version: str = "580.101.01",
    say: Callable[[str], None] | None = None,
) -> FollowerSoak:
    """Give a soak of one node: its driver was loaded anew so many seconds ago, and its plugin is of before."""
    cluster = Cluster(folder)
    cluster.state.mkdir(parents=True, exist_ok=True)
    plugin = {"stack": "gpu", "uid": "u", "daemonset": DAEMONSET, "namespace": "ns", "version": version}
    now = time.time()
    lines = (
        encode("driver-loaded", NODE, now - loaded - 100, stack="gpu", load=1, version=version),
        encode("plugin-started", NODE, now - loaded - 90, load=1, **plugin),
        encode("driver-loaded", NODE, now - loaded, stack="gpu", load=2, version=version),
        encode("driver-ready", NODE, now - loaded, stack="gpu"),
    )
    (folder / JOURNAL).write_text("".join(lines))
    served = encode("plugin-gone", NODE, now, **plugin) + encode("plugin-started", NODE, now, load=2, **plugin)
    command = (sys.executable, "-c", BEGIN + program, str(folder / JOURNAL), served, LOST)
    found = FollowerSoak(Stage(cluster, 1), 1, command, say)
    found.sample_seconds = 0.05
    return found


def test_a_controller_that_dies_is_a_broken_promise(tmp_path: Path) -> None:
    """Its last words are reported, and the soak does not wait for what cannot come, nor for a slow world."""
    broken = "\n".join(soak(tmp_path / "one", DIES).run([CYCLE]).broken())
    assert "a follower ended by itself, with 1" in broken
    assert "an answer that nobody understands" in broken

    def hurry(line: str) -> None:
        """Give the second cycle no time; the first one ends with that death."""
        if line.startswith("cycle 2"):
            found.cycle_seconds = 1

    found = soak(tmp_path / "two", DIES_ONCE, say=hurry)
    assert "a follower ended by itself, with 1" in "\n".join(found.run([CYCLE, Cycle(1, Upgrade.NONE)]).broken())


def test_a_controller_that_loses_its_lease_is_started_again(tmp_path: Path) -> None:
    """The program ends on purpose then, and the next one refreshes; the one that runs is the one that is killed."""
    found = soak(tmp_path / "one", LOSES_IT).run([CYCLE])
    assert [] == found.broken()
    assert 1 == found.followers[0]
    assert len(found.followers) == len(found.lives) == 2
    assert found.report(time.time())["memoryPeakMiB"] > 0

    killed = soak(tmp_path / "two", LOSES_IT).run([Cycle(0, Upgrade.NONE, Fault.KILL, after=2.0)])
    assert [] == killed.broken()
    assert KILLED in killed.followers


def test_a_leak_is_not_hidden_by_a_controller_that_lives_longer(tmp_path: Path) -> None:
    """A leak that ends in a loss of the Lease is a leak."""
    found = soak(tmp_path, LEAKS).run([CYCLE])
    (told,) = found.broken()
    assert "grew by" in told
    assert found.growth() > GROWTH_MEBIBYTES


def test_a_forgotten_plugin_is_a_broken_promise_and_a_slow_world_is_none(tmp_path: Path) -> None:
    """Stale for minutes on the driver that was asked for; another driver, or a moment, is tried again."""
    for number, (version, loaded) in enumerate((("580.100.01", 2 * NEGLECTED_SECONDS), ("580.101.01", 1.0))):
        found = soak(tmp_path / str(number), SLEEPS, version=version, loaded=loaded)
        found.cycle_seconds = 1
        with pytest.raises(TooSlowError):
            found.run([CYCLE])
    found = soak(tmp_path / "forgotten", SLEEPS, loaded=NEGLECTED_SECONDS + 1)
    found.cycle_seconds = 1
    assert "cycle 0: ended with 1, not 0" in found.run([CYCLE]).broken()


def test_a_lost_lease_is_known_by_the_last_words() -> None:
    """The exit code alone proves nothing."""
    assert lost_its_lease(f"12:00:00 ERROR {LOST}\nLeaseLost: what to do\nexit code 1, plugins restarted: 0\n")
    for said in (
        "",
        "12:00:00 ERROR Fail (ApiUnreachable): no answer for ten minutes\n",
        "hook.errors.LeaseLostError: the Lease a/b is held by b\n",
        f"Traceback (most recent call last):\nKeyError: 1\n{LOST}\n",
    ):
        assert not lost_its_lease(said), said
