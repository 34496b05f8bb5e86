"""Remove each right, one at a time, on a real API server: the program reports which one is missing.

A run that cannot read or cannot restart must not succeed. What is only for reports (Events, the Job's start) is worth
one warning, and no failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import pytest

from devcluster.boot.cluster import Cluster
from tests.chart.rendering import Helm
from tests.e2e.identity import Right, charted, kubeconfig, rights
from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW_CHART, OLD, PLUGIN_NAMESPACE, RELEASE, Lab
from tests.process.program import Ended, Logged

pytestmark = pytest.mark.e2e

WAITING: Final = ("run", "--timeout=2m", "expect.driverVersion=999.1")
"""A run that never ends by itself, so that it reports a refused watch; it retries a refusal for half a minute, and on a
busy machine ten of these start at once."""
EVENTS: Final = Right("", "events", "create")
"""Needed to apply an Event that does not exist, which the audit log calls a patch."""
OWN_JOB: Final = Right("batch", "jobs", "get")
OPTIONAL: Final = ("nvidiadrivers", "resourceclaims")
"""Requested only where a policy leaves its drivers to such objects; and read for a report, without which a run ends."""
ACCOUNTS_AT_ONCE: Final = 8


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Lab:
    """Bring up a fleet of one node; the test that restarts its plugin comes last."""
    started = Lab(cluster)
    started.fleet(nodes=1)
    return started


def _start(lab: Lab, name: str, allowed: Iterable[Right], *args: str) -> Logged:
    return lab.start(*args, kubeconfig=kubeconfig(lab.cluster, name, allowed))


def _named(right: Right) -> str:
    return f"{right.verb} {right.resource}{f'.{right.group}' if right.group else ''}"


def _assert_missing(done: Ended, what: str) -> None:
    assert done.code == 3, done.said
    assert "PermissionMissing" in done.out
    assert what in done.out


def test_without_one_read(lab: Lab, subtests: pytest.Subtests) -> None:
    """Exit 3 with verb, resource and namespace, for each kind that the program lists, and for a watch."""
    granted = charted(lab.cluster)
    lists = sorted(right for right in granted if right.verb == "list" and right.resource not in OPTIONAL)
    assert len(lists) == 9
    reads = [*lists, lists[0]._replace(verb="watch")]

    def attempt(number: int) -> Logged:
        without = {reads[number], reads[number]._replace(verb="watch")}
        return _start(lab, f"without-{number}", granted - without, *WAITING)

    with ThreadPoolExecutor(ACCOUNTS_AT_ONCE) as pool:
        processes = list(pool.map(attempt, range(len(reads))))
    for right, process in zip(reads, processes, strict=True):
        with subtests.test(_named(right)):
            _assert_missing(process.ended(), f"{_named(right)} in the whole cluster")
    lab.assert_clean([])


def test_without_one_write(lab: Lab, subtests: pytest.Subtests) -> None:
    """A plugin that cannot be restarted is exit 3; Events that cannot be written are a warning."""
    lab.stale_fleet(nodes=1)
    delete = Right("", "pods", "delete")
    quick = ("run", "advanced.operatorQuiet=2s")
    job = (f"--release-namespace={NAMESPACE}", "--job-name=gpu-operator-post")
    granted = charted(lab.cluster)
    deleting = _start(lab, "without-delete", granted - {delete}, *quick)
    reading = _start(lab, "without-job", granted - {OWN_JOB}, *quick, *job, "--dry-run")
    with subtests.test(_named(delete)):
        _assert_missing(deleting.ended(), f"{_named(delete)} in namespace {PLUGIN_NAMESPACE}")
    with subtests.test(_named(OWN_JOB)):
        _assert_warned(reading.ended(), f"{_named(OWN_JOB)} in namespace {NAMESPACE}")
    lab.assert_untouched()
    reporting = _start(lab, "without-events", granted - {EVENTS}, *quick)
    with subtests.test(_named(EVENTS)):
        _assert_warned(reporting.ended(), f"{_named(EVENTS)} in namespace {PLUGIN_NAMESPACE}")
    lab.assert_clean(["gpu-0"])


def _assert_warned(done: Ended, what: str) -> None:
    """Assert success, and one warning about a permission: a busy machine has others, such as about a slow watch."""
    assert done.code == 0, done.said
    (warning,) = [line for line in done.out.splitlines() if " WARNING " in line and "permission missing" in line]
    assert what in warning


NEWER: Final = "580.142.01"


def test_each_right_to_write_is_used(lab: Lab, subtests: pytest.Subtests) -> None:
    """The Job refreshes the plugin after one reload, and the controller after the next; nothing is refused."""
    _reload(lab, NEWER)
    lab.deploy(deviceTaints__enabled=True)
    lab.deploy(controller__enabled=True, job__enabled=False, deviceTaints__enabled=True)
    _reload(lab, OLD)
    lab.until(lambda: lab.serving_on() == {"gpu-0"}, "the plugin is fresh again")
    rendered = Helm(lab.cluster.binary("helm4")).render({"controller.enabled": True, "deviceTaints.enabled": True})
    for account in (RELEASE, f"{RELEASE}-controller"):
        granted = rights(rule for role in rendered.roles_of(account) for rule in role["rules"])
        writing = {right for right in granted if right.verb not in {"get", "list", "watch"}} - {EVENTS}
        with subtests.test(account):
            lab.until(
                partial(lambda name, used: _written(lab, name) >= used, account, writing), f"{account}: {writing}"
            )
            assert _written(lab, account) == writing


def _reload(lab: Lab, driver: str) -> None:
    """Change the driver, and wait until it is ready."""
    lab.operator(chart=NEW_CHART, driver=driver, **ALL_AT_ONCE)
    lab.until(lambda: lab.truth.running(driver) == {"gpu-0"}, f"the node runs {driver}", 90)


def _written(lab: Lab, account: str) -> set[Right]:
    """Return the kinds of writes of a ServiceAccount, of which none was refused."""
    writes = [one for one in lab.cluster.audit() if one["user"]["username"].endswith(f":{NAMESPACE}:{account}")]
    assert [one for one in writes if one["responseStatus"]["code"] == 403] == []
    places = ((one["objectRef"], one["verb"]) for one in writes)
    return {Right(place.get("apiGroup", ""), place["resource"], verb) for place, verb in places}
