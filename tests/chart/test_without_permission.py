"""Take each right away, one at a time, on a real API server: the program says which one is missing.

What nobody may take for done is a run that could not see or could not act. What only tells the story
(events, the Job's start) is not worth failing for, and is warned about once.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from tests.chart.rendering import Helm, Values
from tests.e2e.identity import Right, kubeconfig, rights
from tests.e2e.lab import NAMESPACE, PLUGIN_NAMESPACE
from tests.process.program import Ended, ended, start_logged

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e

WAITING: Final = ("run", "--timeout=2m", "expect.driverVersion=999.1")
"""A run that never ends by itself, so that a watch that is refused is found out; a refusal is tried again for half a
minute, and on a busy machine twenty of these start at once."""
EVENTS: Final = Right("", "events", "create")
OWN_JOB: Final = Right("batch", "jobs", "get")
WITHOUT_NAMESPACE: Final = ("clusterpolicies", "nodes", "resourceslices")
ON_DEMAND: Final = ("nvidiadrivers",)
"""Asked for only where a policy leaves its drivers to objects of that kind."""
ACCOUNTS_AT_ONCE: Final = 8


def _granted(lab: Lab, values: Values) -> set[Right]:
    """Give everything that the chart grants in scope cluster."""
    rendered = Helm(lab.cluster.binary("helm4")).render(values)
    return {right for kind in ("ClusterRole", "Role") for role in rendered.all(kind) for right in rights(role["rules"])}


def _start(lab: Lab, name: str, allowed: Iterable[Right], *args: str) -> subprocess.Popen[str]:
    """Start the program as an account with these rights."""
    return lab.start(*args, kubeconfig=kubeconfig(lab.cluster, name, allowed))


def _named(right: Right) -> str:
    """Spell a right as whoever grants it needs it."""
    return f"{right.verb} {right.resource}{f'.{right.group}' if right.group else ''}"


def _assert_missing(done: Ended, what: str) -> None:
    assert done.code == 3, done.said
    assert "PermissionMissing" in done.out
    assert what in done.out


def test_without_one_read(boot: Callable[..., Lab], subtests: pytest.Subtests) -> None:
    """Exit 3 with verb, resource and namespace, for each kind that the program lists and watches."""
    lab = boot(1)
    lab.fleet(nodes=1)
    granted = _granted(lab, {})
    reads = sorted(right for right in granted if right.verb in ("list", "watch") and right.resource not in ON_DEMAND)
    assert len(reads) == 18

    def attempt(number: int) -> subprocess.Popen[str]:
        return _start(lab, f"without-{number}", granted - {reads[number]}, *WAITING)

    with ThreadPoolExecutor(ACCOUNTS_AT_ONCE) as pool:
        processes = list(pool.map(attempt, range(len(reads))))
    cluster_wide = {right for right in granted if right.resource in WITHOUT_NAMESPACE}
    scoped = _start(lab, "scoped", cluster_wide, *WAITING, f"--namespace={PLUGIN_NAMESPACE}")
    for right, process in zip(reads, processes, strict=True):
        with subtests.test(_named(right)):
            _assert_missing(ended(process), f"{_named(right)} in the whole cluster")
    with subtests.test("one namespace"):
        _assert_missing(ended(scoped), f"in namespace {PLUGIN_NAMESPACE}")
    lab.assert_clean([])


def test_without_one_write(boot: Callable[..., Lab], subtests: pytest.Subtests) -> None:
    """A plugin that cannot be restarted is exit 3; a story that cannot be told is a warning."""
    lab = boot(1)
    lab.stale_fleet(nodes=1)
    delete, patch = Right("", "pods", "delete"), Right("apps", "daemonsets", "patch")
    quick = ("run", "--timeout=2m", "advanced.operatorQuiet=2s")
    job = (f"--job-namespace={NAMESPACE}", "--job-name=gpu-operator-post")
    stale_pods, rollout = _granted(lab, {}), _granted(lab, {"strategy": "rollout-restart"})
    deleting = _start(lab, "without-delete", stale_pods - {delete}, *quick)
    patching = _start(lab, "without-patch", rollout - {patch}, *quick, "strategy=rollout-restart")
    reading = _start(lab, "without-job", stale_pods - {OWN_JOB}, *quick, *job, "--dry-run")
    with subtests.test(_named(delete)):
        _assert_missing(ended(deleting), f"{_named(delete)} in namespace {PLUGIN_NAMESPACE}")
    with subtests.test(_named(patch)):
        _assert_missing(ended(patching), f"{_named(patch)} in namespace {PLUGIN_NAMESPACE}")
    with subtests.test(_named(OWN_JOB)):
        _assert_warned(ended(reading), f"{_named(OWN_JOB)} in namespace {NAMESPACE}")
    lab.assert_untouched()
    telling = _start(lab, "without-events", stale_pods - {EVENTS}, *quick)
    with subtests.test(_named(EVENTS)):
        _assert_warned(ended(telling), f"{_named(EVENTS)} in namespace {PLUGIN_NAMESPACE}")
    lab.assert_clean(["gpu-0"])


FOLLOWER: Final[Values] = {"controller.enabled": True, "job.enabled": False}
OF_A_FOLLOWER: Final = (
    *(Right("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "patch")),
    Right("apps", "deployments", "get"),
    Right("", "nodes", "list"),
)
"""What it needs of its own, and one of the reads, which a follower asks for again for ever."""


def test_a_follower_without_one_right(boot: Callable[..., Lab], tmp_path: Path, subtests: pytest.Subtests) -> None:
    """It says which, in its log, and ends only if it cannot keep its Lease; a person who grants it need not restart."""
    lab = boot(1)
    lab.fleet(nodes=1)
    granted = _granted(lab, FOLLOWER)
    assert set(OF_A_FOLLOWER) <= granted
    following = (
        "controller",
        "--listen=127.0.0.1:0",
        f"--lease-namespace={NAMESPACE}",
        "--workload-name=gpu-operator",
    )
    started = []
    for number, right in enumerate(OF_A_FOLLOWER):
        config = kubeconfig(lab.cluster, f"follower-{number}", granted - {right})
        own = (f"--lease-name=without-{number}", f"--kubeconfig={config}")
        log = tmp_path / f"{number}.log"
        started.append((right, log, lab.cluster.adopt(start_logged(log, *following, *own))))
    for right, log, process in started:
        where = "the whole cluster" if right.resource == "nodes" else f"namespace {NAMESPACE}"
        with subtests.test(_named(right)):
            lab.until(partial(_says, log, f"{_named(right)} in {where}"), f"{right} is named", 120)
            if right.verb == "patch":
                lab.until(partial(_failed, process), "the Lease was lost", 120)
            else:
                assert process.poll() is None
    lab.assert_clean([])


def _says(log: Path, what: str) -> bool:
    return what in log.read_text()


def _failed(process: subprocess.Popen[str]) -> bool:
    return process.poll() == 1


def _assert_warned(done: Ended, what: str) -> None:
    """Assert success, with exactly one warning, which names what is missing."""
    assert done.code == 0, done.said
    (warning,) = [line for line in done.out.splitlines() if " WARNING " in line]
    assert what in warning
