"""More than one who could act: followers that die, are cut off, sleep, or do not know each other; hooks beside them."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

import pytest

from tests.e2e.acts import PATIENCE
from tests.e2e.controller.ground import LOST, STOPPED
from tests.e2e.faults.cluster.doorway import Moment
from tests.e2e.lab import NEW, OLD

if TYPE_CHECKING:
    from tests.e2e.controller.ground import Controller, Field
    from tests.e2e.faults.cluster.doorway import Doorway, Stop

pytestmark = pytest.mark.e2e

NODES = 3
DELETED: Final = ("delete pods", Moment.AFTER)


def _stand_by(field: Field, identity: str) -> Controller:
    """Start a follower that has somebody before it, and wait until it says that it is well."""
    controller = field.follow(identity)
    field.until(lambda: controller.asked("/readyz")[0] == 200, f"follower {identity} stands by", PATIENCE)
    assert not field.leader().startswith(identity)
    return controller


def _all_served(field: Field, version: str, by: Controller) -> None:
    """Wait until every plugin was restarted, once, and assert who leads now."""
    field.until(lambda: set(field.restarts()) == set(field.nodes), "every plugin was restarted", PATIENCE)
    field.await_served(version)
    field.assert_clean(field.nodes)
    assert field.leader().startswith(by.identity)


def test_killed_between_a_restart_and_its_answer(field: Field, door: Doorway) -> None:
    """Nobody remembers what it asked for: the one that stood by takes its Lease over, and serves the rest."""
    one = field.leading("one", kubeconfig=door.kubeconfig())
    two = _stand_by(field, "two")

    def stops(now: Stop) -> bool:
        if now == DELETED and not one.over:
            one.signal(signal.SIGKILL)
        return now == DELETED

    door.stops = stops
    # Of what happens within one second the API does not tell the order: a successor that started in the same one as its
    # driver turned Ready is doubted by whoever has not restarted it. Real containers take longer.
    field.knobs(plugin_start_seconds=1.5)
    try:
        field.crash()
        assert one.ended() == -signal.SIGKILL, one.said
        _all_served(field, NEW, two)
    finally:
        field.knobs()
    assert two.stopped() == STOPPED, two.said
    assert field.leader() == ""


def test_partitioned_then_asleep(field: Field, door: Doorway) -> None:
    """One that cannot renew its Lease ends itself, and so does one that wakes up after it was taken over."""
    one = field.leading("one", kubeconfig=door.kubeconfig())
    two = _stand_by(field, "two")
    door.stops = lambda _: True
    door.cut()
    field.crash()
    _all_served(field, NEW, two)
    assert one.ended() == LOST, one.said

    three = _stand_by(field, "three")
    two.signal(signal.SIGSTOP)
    field.patch_driver(OLD)
    field.until(lambda: field.leader().startswith("three"), "another one leads", PATIENCE)
    two.signal(signal.SIGCONT)
    assert two.ended() == LOST, two.said
    field.await_served(OLD)
    field.assert_clean(sorted(field.nodes * 2))
    assert three.stopped() == STOPPED, three.said


def test_two_that_both_lead_and_hooks(field: Field) -> None:
    """Forced by Leases of their own, two followers act at once, and deployers' runs beside them: one restart a node."""
    field.spoil()
    followers = [field.follow("one"), field.follow("two", "--lease-name=another")]
    hooks = [field.begin() for _ in range(2)]
    for controller, lease in zip(followers, ("gpu-operator-post", "another"), strict=True):
        field.await_leader(controller, lease)
    for hook in hooks:
        told = hook.told()
        assert told.code == 0, told.said
    field.assert_clean(field.nodes)

    hook = field.begin(f"expect.driverVersion={OLD}")
    field.patch_driver(OLD)
    told = hook.told()
    assert told.code == 0, told.said
    field.await_served(OLD)
    field.assert_clean(sorted(field.nodes * 2))
    for controller in followers:
        assert controller.stopped() == STOPPED, controller.said
