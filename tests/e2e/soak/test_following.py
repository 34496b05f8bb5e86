"""How the soak keeps a follower running and what it makes of its ends, with small commands in the follower's place."""

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
    cluster.state.mkdir(exist_ok=True)
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


def test_one_that_dies_is_a_broken_promise(tmp_path: Path) -> None:
    """Whatever ends it but its Lease: its last words are told, and the soak does not wait for what cannot come."""
    broken = "\n".join(soak(tmp_path, DIES).run([CYCLE]).broken())
    assert "a follower ended by itself, with 1" in broken
    assert "an answer that nobody understands" in broken


def test_one_that_loses_its_lease_is_started_again(tmp_path: Path) -> None:
    """That is what the program does on purpose; and the next one serves."""
    found = soak(tmp_path, LOSES_IT).run([CYCLE])
    assert [] == found.broken()
    assert 1 == found.followers[0]
    assert len(found.followers) == len(found.lives) == 2
    assert found.report(time.time())["memoryPeakMiB"] > 0


def test_one_that_leaks_is_not_hidden_by_one_that_lives_longer(tmp_path: Path) -> None:
    """A leak that ends in a loss of the Lease is a leak."""
    found = soak(tmp_path, LEAKS).run([CYCLE])
    (told,) = found.broken()
    assert "grew by" in told
    assert found.growth() > GROWTH_MEBIBYTES


def test_one_that_is_struck_runs(tmp_path: Path) -> None:
    """One that had lost its Lease just before is not the one that is killed."""
    found = soak(tmp_path, LOSES_IT).run([Cycle(0, Upgrade.NONE, Fault.KILL, after=2.0)])
    assert [] == found.broken()
    assert KILLED in found.followers


@pytest.mark.parametrize(
    ("version", "loaded"),
    [
        pytest.param("580.100.01", 2 * NEGLECTED_SECONDS, id="the-driver-is-not-the-one-that-was-asked-for"),
        pytest.param("580.101.01", 1.0, id="the-plugin-is-stale-for-a-moment"),
    ],
)
def test_a_slow_world_is_no_broken_promise(version: str, loaded: float, tmp_path: Path) -> None:
    """What has not come in time is tried again, and no follower is left behind."""
    found = soak(tmp_path, SLEEPS, version=version, loaded=loaded)
    found.cycle_seconds = 1
    with pytest.raises(TooSlowError):
        found.run([CYCLE])


def test_a_death_is_told_although_the_world_is_slow(tmp_path: Path) -> None:
    """Another try must not hide it."""

    def hurry(line: str) -> None:
        """Give the second cycle no time; the first one ends with that death."""
        if line.startswith("cycle 2"):
            found.cycle_seconds = 1

    found = soak(tmp_path, DIES_ONCE, say=hurry)
    assert "a follower ended by itself, with 1" in "\n".join(found.run([CYCLE, Cycle(1, Upgrade.NONE)]).broken())


def test_a_plugin_that_is_forgotten_is_a_broken_promise(tmp_path: Path) -> None:
    """Stale for minutes on the driver that was asked for, and nobody came."""
    found = soak(tmp_path, SLEEPS, loaded=NEGLECTED_SECONDS + 1)
    found.cycle_seconds = 1
    assert "cycle 0: ended with 1, not 0" in found.run([CYCLE]).broken()


@pytest.mark.parametrize(
    ("said", "lost"),
    [
        pytest.param(
            f"12:00:00 ERROR {LOST}\nLeaseLost: what to do\nexit code 1, plugins restarted: 0\n", True, id="so"
        ),
        pytest.param("", False, id="nothing-said"),
        pytest.param("12:00:00 ERROR Fail (ApiUnreachable): no answer for ten minutes\n", False, id="another-reason"),
        pytest.param("hook.errors.LeaseLostError: the Lease a/b is held by b\n", False, id="nobody-caught-it"),
        pytest.param(f"Traceback (most recent call last):\nKeyError: 1\n{LOST}\n", False, id="its-thread-died"),
    ],
)
def test_a_lost_lease_is_told_by_the_last_words(*, said: str, lost: bool) -> None:
    """The exit code alone says nothing."""
    assert lost is lost_its_lease(said)
