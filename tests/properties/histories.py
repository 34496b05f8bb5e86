"""Random histories: anything at all, and families that keep coming back to one unlucky course of things."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from tests.properties.observation import PLUGIN_KINDS
from tests.properties.pods import Pace, Side
from tests.properties.rollout import Image, Site
from tests.properties.story import NOTHING, OF_A_NODE, OF_THE_CLUSTER, History, Step

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

KINDS: Final = (
    "policies", "daemonsets", "revisions", "nodes", "driver_pods", "plugin_pods", "slices",
    "deployments", "replicasets", "leases",
)  # fmt: skip
EVENTS: Final = (*OF_THE_CLUSTER, *OF_A_NODE)
TIMES: Final = (1, 3, 5, 10, 20, 40, 80, 160, 300, 1200, 3100)
"""Tenths of a second: within one second of the API's clock, a few seconds, longer than every quiet time and grace."""
WHICH: Final = st.integers(0, 40)

PACES: Final = st.builds(
    Pace,
    goes=st.sampled_from([1, 10, 30]),
    unload=st.sampled_from([1, 4, 20]),
    install=st.sampled_from([1, 4, 40]),
    notice=st.sampled_from([1, 4, 30, 90]),
    poll=st.sampled_from([1, 5, 20]),
    begin=st.sampled_from([1, 5, 20]),
    rises=st.sampled_from([1, 10, 40]),
    renders=st.sampled_from([5, 50, 100]),
)

SITES: Final = st.one_of(
    st.just(Site()),
    st.builds(Site, side=st.sampled_from(Side), image=st.sampled_from(Image), touched=st.sampled_from([0, 0, 30])),
)


def _step(what: str) -> SearchStrategy[Step]:
    if what in ("time", "work", "watch"):
        return st.builds(Step, st.just(what), st.sampled_from(TIMES), st.just(NOTHING))
    if what in ("look", "hear"):
        some = st.one_of(st.just(NOTHING), st.just(PLUGIN_KINDS), st.sets(st.sampled_from(KINDS)).map(frozenset))
        return st.builds(Step, st.just(what), WHICH, some)
    return st.builds(Step, st.just(what), WHICH, st.just(NOTHING))


@st.composite
def anything(draw: st.DrawFn) -> History:
    """Draw a history in which some kinds of events happen often, and others never: they meet more often so."""
    kinds = draw(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=8, unique=True))
    usual = ["time", "look", "work", "watch", "hear", "killed", "edits_version", "operator_renders",
             "daemonset_controller", "upgrade_controller"]  # fmt: skip
    steps = draw(st.lists(st.sampled_from([*kinds, *usual]).flatmap(_step), max_size=30))
    return History(
        tuple(steps),
        nodes=draw(st.integers(1, 3)),
        runs=draw(st.integers(1, 2)),
        pace=draw(PACES),
        at_once=draw(st.integers(0, 1)),
        mended=draw(st.booleans()),
        site=draw(SITES),
    )
