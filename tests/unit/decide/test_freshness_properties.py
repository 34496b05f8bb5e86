"""Freshness for any history of a plugin and its driver."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

from hypothesis import assume, given
from hypothesis import strategies as st

from hook.decide import freshness
from hook.decide.freshness import Freshness
from hook.objects import readers
from hook.objects.drivers import DRA_PLUGIN, GPU_OPERATOR
from tests.fixtures.objects import driver_pod, plugin_pod

if TYPE_CHECKING:
    from tests.fixtures.objects import Object

moments = st.floats(-100, 100, allow_nan=False)
gaps = st.floats(0, 30, allow_nan=False)


def freshness_of(plugin: Object, driver: Object) -> Freshness:
    """Return what is concluded from a plugin and a driver pod."""
    return freshness.evaluate(readers.pod(plugin), DRA_PLUGIN, readers.pod(driver), GPU_OPERATOR).freshness


@given(unloaded=moments, waited=moments, rest=st.tuples(gaps, gaps, gaps, gaps))
def test_a_plugin_that_started_on_the_old_driver_is_never_fresh(
    unloaded: float, waited: float, rest: tuple[float, float, float, float]
) -> None:
    """Whole seconds hide the order of events within one, and the proofs hold all the same.

    The old driver works until it is unloaded, the new one from some moment between the start of its container and its
    being ready. The plugin's init container ends only while a driver works.
    """
    started = unloaded + rest[0]
    loaded = started + rest[1]
    ready, running = loaded + rest[2], waited + rest[3]
    assume(waited < unloaded or waited >= loaded)
    driver = driver_pod(started=floor(started), ready=floor(ready), unloaded=floor(unloaded))
    found = freshness_of(plugin_pod(waited=floor(waited), started=floor(running)), driver)
    assert waited >= loaded or running > ready or found is Freshness.STALE


@given(started=moments, loading=gaps, waited=moments, begun=gaps)
def test_after_a_crash_in_place_only_the_start_of_the_plugin_counts(
    started: float, loading: float, waited: float, begun: float
) -> None:
    """No unloader ran, so a plugin that started before the driver was ready may hold the old root."""
    begin, ready = floor(started), started + loading
    driver = driver_pod(started=begin, ready=floor(ready), unloaded=begin - 50, ended_before=begin - 1, restarts=1)
    found = freshness_of(plugin_pod(waited=floor(waited), started=floor(waited + begun)), driver)
    assert found is Freshness.STALE or waited + begun >= ready
