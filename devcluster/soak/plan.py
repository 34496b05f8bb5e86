"""What happens in each cycle: drawn from a seed, before anything runs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Upgrade(StrEnum):
    """What a cycle asks of the operator."""

    NONE = "nothing"
    DRIVER = "driver"
    CHART = "chart and driver"


class Fault(StrEnum):
    """What goes wrong in a cycle."""

    KILL = "program killed"
    STOP = "program told to stop"
    TWICE = "program started twice"
    SILENCE = "API server silent"
    OPERATOR = "operator restarted"
    AGAIN = "second upgrade in the middle"
    BROKEN_DRIVER = "drivers that cannot start"


class Before(StrEnum):
    """What happens to nodes before the upgrade, while every plugin is fresh."""

    REBOOT = "nodes rebooted"
    CRASH = "driver containers restarted in place"


LIKELY: Final = 0.6
"""That a cycle has a fault of a kind at all: some must be plain."""
NEVER_WITH: Final = {Upgrade.NONE: {Fault.BROKEN_DRIVER, Fault.AGAIN}}
"""A driver that is loaded already does not start again; nothing was asked for a first time."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """One upgrade and the runs that serve it."""

    number: int
    upgrade: Upgrade
    fault: Fault | None = None
    after: float = 0.0
    """Seconds from the run's start to the fault."""
    before: Before | None = None
    nodes: tuple[int, ...] = field(default_factory=tuple)
    """Numbers of the nodes that suffer, where nodes do."""

    def __str__(self) -> str:
        parts = [self.upgrade, *([self.before] if self.before else []), *([self.fault] if self.fault else [])]
        return ", ".join(parts)


def draw(cycles: int, nodes: int, seed: int) -> list[Cycle]:
    """Draw a number of cycles; the same for the same numbers. The first has an upgrade and no fault."""
    chance = random.Random(seed)
    return [Cycle(0, Upgrade.CHART), *(_cycle(number, nodes, chance) for number in range(1, cycles))][:cycles]


def _cycle(number: int, nodes: int, chance: random.Random) -> Cycle:
    upgrade = chance.choice((Upgrade.DRIVER, Upgrade.DRIVER, Upgrade.CHART, Upgrade.NONE))
    possible = [one for one in Fault if one not in NEVER_WITH.get(upgrade, ())]
    return Cycle(
        number,
        upgrade,
        fault=chance.choice(possible) if chance.random() < LIKELY else None,
        # A reload takes three to four seconds and more where nodes queue: before, during and after it.
        after=chance.uniform(0.5, 6.0),
        before=chance.choice(list(Before)) if chance.random() < LIKELY / 2 else None,
        nodes=tuple(sorted(chance.sample(range(nodes), max(1, nodes // 20)))),
    )
