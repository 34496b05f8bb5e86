"""What must hold for any history and any damage, tried on many."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

from hypothesis import assume, given
from hypothesis import strategies as st

from hook.decide import freshness
from hook.decide.freshness import Freshness
from hook.decide.result import DeletePod, Phase
from hook.objects import readers
from hook.objects.drivers import DRA_PLUGIN, GPU_OPERATOR
from tests.fixtures.cluster import Cluster, cluster, stale
from tests.fixtures.damage import damaged
from tests.fixtures.objects import driver_pod, plugin_pod

if TYPE_CHECKING:
    from tests.fixtures.objects import Object

moments = st.floats(-100, 100, allow_nan=False)
gaps = st.floats(0, 30, allow_nan=False)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Object, Object, bool]:
    """Give a plugin and a driver pod, and whether the plugin really started on the loaded driver.

    The old driver works until it is unloaded, the new one from some moment between the start of its
    container and its being ready. The plugin's init container ends only while a driver works.
    """
    unloaded = draw(moments)
    started = unloaded + draw(gaps)
    loaded = started + draw(gaps)
    ready = loaded + draw(gaps)
    waited = draw(moments)
    assume(waited < unloaded or waited >= loaded)
    running = waited + draw(gaps)
    driver = driver_pod(started=floor(started), ready=floor(ready), unloaded=floor(unloaded))
    return plugin_pod(waited=floor(waited), started=floor(running)), driver, waited >= loaded or running > ready


@given(history=histories())
def test_fresh_is_never_said_of_a_plugin_that_saw_the_old_driver(history: tuple[Object, Object, bool]) -> None:
    """Whole seconds hide the order of events within one; the proofs hold all the same."""
    plugin, driver, truth = history
    judged = freshness.evaluate(readers.pod(plugin), DRA_PLUGIN, readers.pod(driver), GPU_OPERATOR).freshness
    assert truth or judged is Freshness.STALE


@given(started=moments, loaded=gaps, rest=gaps, waited=moments, begun=gaps)
def test_a_driver_that_crashed_in_place_is_proven_by_time_alone(
    started: float, loaded: float, rest: float, waited: float, begun: float
) -> None:
    """No unloader ran, so a plugin that started before it was ready may hold the old root, whatever it waited for."""
    ready = started + loaded + rest
    driver = driver_pod(
        started=floor(started),
        ready=floor(ready),
        unloaded=floor(started) - 50,
        ended_before=floor(started) - 1,
        restarts=1,
    )
    plugin = plugin_pod(waited=floor(waited), started=floor(waited + begun))
    judged = freshness.evaluate(readers.pod(plugin), DRA_PLUGIN, readers.pod(driver), GPU_OPERATOR).freshness
    assert judged is Freshness.STALE or waited + begun >= ready


@st.composite
def damaged_clusters(draw: st.DrawFn) -> Cluster:
    """Give a cluster with something wrong in one of its objects."""
    found = draw(st.sampled_from([cluster, stale]))("a", "b")
    part = draw(st.sampled_from(sorted(found.parts)))
    objects = found.of(part)
    place = draw(st.integers(0, len(objects) - 1))
    whole = draw(st.composite(damaged)(objects[place]).filter(lambda found: isinstance(found, dict)))
    found.parts[part] = [*objects[:place], whole, *objects[place + 1 :]]
    return found


@given(found=damaged_clusters())
def test_nothing_good_is_concluded_from_damage(found: Cluster) -> None:
    """A decision is always made; with anything unreadable it is neither Done nor Skip."""
    decision, _memory = found.decide()
    malformed = bool(found.seen().malformed)
    assert not malformed or decision.phase not in (Phase.DONE, Phase.SKIP)


@given(found=damaged_clusters())
def test_only_a_pod_that_was_judged_stale_is_ever_deleted(found: Cluster) -> None:
    """Whatever else is wrong."""
    decision, _memory = found.decide()
    judged = {one.stale_pod for one in decision.statuses}
    assert {one.pod for one in decision.actions if isinstance(one, DeletePod)} <= judged
