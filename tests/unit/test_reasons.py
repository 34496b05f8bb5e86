"""The table of reasons: one row per reason, with traits that do not contradict each other."""

from __future__ import annotations

import re

import pytest

from hook.decide.explain import Row, Trait
from hook.decide.reasons import EventReason, Reason


def having(trait: Trait) -> set[Reason]:
    """Return the reasons that have a trait."""
    return {reason for reason in Reason if trait in reason.traits}


def test_a_reason_cannot_lack_its_row() -> None:
    """A code alone is refused on import."""
    with pytest.raises(TypeError, match="explanation"):

        class Bare(Row):
            NEW = "New"


def test_a_reason_is_its_code() -> None:
    """It is written into Events, metrics and JSON as it is, in CamelCase as the reasons of Kubernetes are."""
    codes = [f"{reason}" for reason in (*Reason, *EventReason)]
    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"([A-Z][a-z]+)+", code) for code in codes)
    assert "PluginStale" == str(Reason.PLUGIN_STALE)


@pytest.mark.parametrize("trait", Trait)
def test_every_trait_has_reasons(trait: Trait) -> None:
    """A trait that no reason has would hide that a branch of the program is dead."""
    assert having(trait)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(Trait.STALE, Trait.FRESH, id="a-plugin-is-not-both"),
        pytest.param(Trait.STALE, Trait.PLUGIN_DOWN, id="a-stale-plugin-counts-as-down-only-if-its-pod-is-not-ready"),
        pytest.param(Trait.BLOCKED, Trait.DRIVER_RELOADING, id="a-driver-that-reloads-is-progress"),
        pytest.param(Trait.BLOCKED, Trait.PLUGIN_DOWN, id="a-plugin-on-its-way-is-progress"),
        pytest.param(Trait.BLOCKED, Trait.PASSING, id="what-is-blocked-does-not-pass-within-seconds"),
        pytest.param(Trait.FAILING, Trait.PASSING, id="a-failure-is-logged"),
    ],
)
def test_traits_that_exclude_each_other(one: Trait, other: Trait) -> None:
    """A row with both would make two parts of the program act against each other."""
    assert not having(one) & having(other)


def test_traits_that_include_each_other() -> None:
    """What waits or fails is blocked, and a fresh plugin that is not verified is down."""
    assert having(Trait.WAITS_FOR_TURN) | having(Trait.FAILING) <= having(Trait.BLOCKED)
    assert having(Trait.FRESH) - {Reason.VERIFIED} <= having(Trait.PLUGIN_DOWN)
