"""Families of histories: each returns to one unlucky order of events, never twice in quite the same way.

Random events alone hardly ever meet within one second, or in the one order that misleads a rule. A family
leads there, and leaves to chance what lies before, between and after.

A history is written as a text of steps. ``takes_driver`` happens to the first node or the cluster,
``takes_driver:1,2`` to one of two others. ``time:5,10`` lets half a second or a second pass, ``work`` the same while
controllers work, ``watch`` while the program looks, too; without numbers any of the first six `TIMES`. ``look:all``
is a look whose watches are behind. ``4*look`` are four steps, ``a|b`` is one of two, and words in capitals stand for
other steps (`SHORT`). 200 tenths of a second exceed the quiet time; in 300, any driver is reloaded and ready.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from tests.properties.observation import KINDS, PLUGIN_KINDS
from tests.properties.pods import SECOND, Pace, Side
from tests.properties.rollout import Image, Site
from tests.properties.story import NOTHING, OF_A_NODE, OF_THE_CLUSTER, History, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hypothesis.strategies import SearchStrategy

    Part = SearchStrategy[Step]

EVENTS: Final = (*OF_THE_CLUSTER, *OF_A_NODE)
TIMES: Final = (1, 3, 5, 10, 20, 40, 80, 160, 300, 1200, 3100)
"""Tenths of a second: within one second of the API's clock, a few seconds, longer than every quiet time and grace."""
BEHIND: Final = {"all": frozenset(KINDS), "plugins": PLUGIN_KINDS, "drivers": frozenset(KINDS) - PLUGIN_KINDS}
SOME_KINDS: Final = st.sets(st.sampled_from(KINDS)).map(frozenset)
SHORT: Final = {
    "UPGRADE": "edits_version time operator_renders",
    "SETTING": "edits_setting time operator_renders",
    "RELOAD": "takes_driver work:300",
    "GONE": "policy_vanishes|kind_vanishes",
    "ORPHANED": "plugins_orphaned|plugins_adopted",
}

PACES: Final = st.builds(
    Pace, goes=st.sampled_from([1, 10, 30]), unload=st.sampled_from([1, 4, 20]), install=st.sampled_from([1, 4, 40]),
    notice=st.sampled_from([1, 4, 30, 90]), poll=st.sampled_from([1, 5, 20]), begin=st.sampled_from([1, 5, 20]),
    rises=st.sampled_from([1, 10, 40]), renders=st.sampled_from([5, 50, 100]),
)  # fmt: skip
BRISK: Final = st.builds(
    Pace, goes=st.just(1), unload=st.sampled_from([1, 4]), install=st.sampled_from([1, 4]),
    notice=st.sampled_from([1, 4]), poll=st.just(1), begin=st.sampled_from([1, 2]), rises=st.sampled_from([1, 10]),
)  # fmt: skip
"""Several things happen within one second."""
LOADS_LATE: Final = st.just(Pace(goes=1, unload=1, install=8, notice=1, poll=1, begin=1))
"""A driver that is ready as soon as it is loaded, most of a second after its container started."""
SLOW_TO_LOAD: Final = st.builds(
    Pace, goes=st.just(1), unload=st.sampled_from([1, 4]), install=st.just(40), notice=st.sampled_from([1, 30]),
    poll=st.just(1), begin=st.just(1),
)  # fmt: skip
SLOW_TO_GO: Final = st.just(Pace(goes=30))
SITES: Final = st.one_of(
    st.just(Site()),
    st.builds(Site, side=st.sampled_from(Side), image=st.sampled_from(Image), touched=st.sampled_from([0, 0, 30])),
)
USUAL, PROBED, BARE = (st.just(Site(side=side)) for side in (Side.NONE, Side.PROBED, Side.BARE))
REWRITTEN: Final = st.builds(Site, image=st.sampled_from([one for one in Image if one is not Image.AS_RENDERED]))
TOUCHED: Final = st.builds(Site, touched=st.sampled_from([20, 30, 50]))
NO_BOUND, ONE, TWO, THREE, ONE_OR_TWO = st.just(0), st.just(1), st.just(2), st.just(3), st.integers(1, 2)
ANY_PHASE: Final = st.integers(0, SECOND - 1)
"""Where in a second of the API's clock a history begins."""
EARLY: Final = st.integers(0, 1)


def _steps(text: str) -> Iterator[Part]:
    """Yield the steps of a text."""
    for word in text.split():
        count, _, step = word.rpartition("*")
        for _time in range(int(count or 1)):
            if step in SHORT:
                yield from _steps(SHORT[step])
            else:
                yield _step(step)


@cache
def _step(word: str) -> Part:
    name, _, argument = word.partition(":")
    if name in ("look", "hear"):
        if argument == "some":
            return st.builds(Step, st.just(name), st.integers(0, 1), SOME_KINDS)
        return st.just(Step(name, 0, BEHIND.get(argument, NOTHING)))
    usual = TIMES[:6] if name in ("time", "work", "watch") else (0,)
    numbers = tuple(map(int, argument.split(","))) if argument else usual
    names = st.sampled_from(name.split("|")) if "|" in name else st.just(name)
    return st.builds(Step, names, st.sampled_from(numbers), st.just(NOTHING))


@cache
def _any(what: str) -> Part:
    which = st.integers(0, 40)
    if what in ("time", "work", "watch"):
        return st.builds(Step, st.just(what), st.sampled_from(TIMES), st.just(NOTHING))
    if what in ("look", "hear"):
        return st.builds(Step, st.just(what), which, st.one_of(st.just(NOTHING), st.just(PLUGIN_KINDS), SOME_KINDS))
    return st.builds(Step, st.just(what), which, st.just(NOTHING))


@st.composite
def anything(draw: st.DrawFn) -> History:
    """Draw a history in which some kinds of events happen often, and others never: they meet more often so."""
    kinds = draw(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=8, unique=True))
    usual = ["time", "look", "work", "watch", "hear", "killed", "edits_version", "operator_renders",
             "daemonset_controller", "upgrade_controller"]  # fmt: skip
    return History(
        tuple(draw(st.lists(st.sampled_from([*kinds, *usual]).flatmap(_any), max_size=30))),
        nodes=draw(st.integers(1, 3)),
        runs=draw(st.integers(1, 2)),
        pace=draw(PACES),
        at_once=draw(st.integers(0, 1)),
        repaired=draw(st.booleans()),
        site=draw(SITES),
    )


@st.composite
def _drawn(  # noqa: PLR0913 - all that a history is made of
    draw: st.DrawFn,
    *courses: str,
    pace: SearchStrategy[Pace] = PACES,
    nodes: SearchStrategy[int] = ONE_OR_TWO,
    phase: SearchStrategy[int] = ANY_PHASE,
    repaired: bool = True,
    controller: bool = False,
    down: SearchStrategy[int] = NO_BOUND,
    at_once: SearchStrategy[int] = EARLY,
    site: SearchStrategy[Site] = USUAL,
) -> History:
    """Draw a history that follows one of these courses, now and then disturbed by something else."""
    steps: list[Step] = [Step("time", draw(phase))]
    for step in _steps(draw(st.sampled_from(courses))):
        steps.append(draw(step))
        if draw(st.integers(0, 15)) == 15:
            steps.append(Step(draw(st.sampled_from(EVENTS)), draw(st.integers(0, 9))))
    return History(
        tuple(steps),
        nodes=draw(nodes),
        runs=draw(st.integers(1, 2)),
        pace=draw(pace),
        at_once=0 if controller else draw(at_once),
        repaired=repaired,
        controller=controller,
        down=draw(down),
        site=draw(site),
    )


FAMILIES: Final[Mapping[str, SearchStrategy[History]]] = {
    "anything": anything(),
    "upgrades": _drawn("UPGRADE daemonset_controller takes_driver time:10,20,30 daemonset_controller time:10,20,40,60 "
        "operator_lies look watch:100",
        "UPGRADE daemonset_controller watch:100,300 UPGRADE watch:50"),
    "hardly_ready": _drawn("driver_crashes time:1,3 operator_lies look watch:50"),
    "about_to_go": _drawn("takes_driver time:1,3 look watch:50", "RELOAD takes_plugin look watch:50", pace=SLOW_TO_GO),
    "operator_lag": _drawn("RELOAD edits_version time:1,200 look time:20 look watch:50"),
    "label_lag": _drawn("SETTING daemonset_controller operator_lies look time:200 2*look",
        "UPGRADE daemonset_controller operator_lies look time:200 2*look"),
    "controller_lag": _drawn("SETTING operator_lies look time:200 look time:20 look",
        "RELOAD UPGRADE operator_lies look time:200 look time:20 look"),
    "second_render": _drawn(
        "operator_rolls time look operator_starts time:200 look operator_leads time:1,3 look watch:50",
        "edits_setting time:1,3 look watch:100"),
    "taken_back": _drawn("UPGRADE daemonset_controller work:100,600 time:20,300 takes_version_back operator_renders "
        "daemonset_controller operator_lies time:200 look watch:50"),
    "second_of_ready": _drawn("driver_crashes time:1,2,3,4,5,6 plugin_crashes time:120 look watch:100",
        pace=LOADS_LATE, nodes=ONE),
    "second_of_start": _drawn("takes_driver takes_plugin time:2 daemonset_controller time:120 look watch:100",
        pace=BRISK, nodes=ONE),
    "own_restart": _drawn(
        "driver_crashes time:2,5,8 look time:1 look time:2 daemonset_controller time:20 look watch:50",
        pace=BRISK, nodes=ONE),
    "crashes_again": _drawn(
        "driver_crashes time:5 look time:1 look time:2 driver_crashes daemonset_controller time:20 look watch:50",
        pace=st.just(Pace(goes=1, unload=1, install=4, notice=1, poll=1, begin=1)), nodes=ONE, phase=EARLY),
    "crash_in_place": _drawn(
        "takes_plugin time:5,10 driver_crashes time:11,15 daemonset_controller time:120 look watch:100",
        "driver_crashes time:11,15 plugin_crashes time:120 plugin_crashes:2,4 time:120 look watch:100",
        pace=SLOW_TO_LOAD, nodes=ONE),
    "blips": _drawn("driver_crashes time:150 takes_plugin work:100 goes_dark time comes_back time:1,10 look watch:50",
        "RELOAD goes_dark time look time:20 look comes_back"),
    "stale_watch": _drawn("hear RELOAD plugin_crashes time:40,80 look:plugins watch:50",
        "hear UPGRADE daemonset_controller work:50,100 look:all",
        "hear RELOAD look:all look:drivers watch:50"),
    "out_of_order": _drawn(
        "RELOAD hear:some edits_version hear:some operator_renders hear:some daemonset_controller look:some "
        "takes_driver hear:some time daemonset_controller hear:some time look:some time hear:some look:some "
        "work:20 hear:some look:some watch:50"),
    "missing_plugin": _drawn("takes_plugin time:40 look time look watch:50",
        "look RELOAD look time:40 look time:20 look"),
    "labels": _drawn("RELOAD labels_vanish time:1,10 look time:60 look watch:50",
        "RELOAD labels_vanish work:20 look time:60 look watch:50"),
    "skipped": _drawn("is_skipped RELOAD look watch:50"),
    "several_at_once": _drawn("takes_driver takes_driver:1 work:300 look watch:50", nodes=THREE),
    "replaced": _drawn(
        "operator_replaces time look operator_renders time look daemonset_controller time look garbage_collector "
        "watch:100"),
    "churn": _drawn("UPGRADE daemonset_controller node_joins watch:10,50 node_leaves:0,1 watch:50 node_joins time look "
        "watch:100"),
    "killed": _drawn("RELOAD look killed:0,1 time look daemonset_controller time killed:0,1 look watch:100"),
    "by_hand": _drawn("turns_upgrades UPGRADE daemonset_controller look watch:20 takes_driver watch:300",
        repaired=False),
    "trouble": _drawn("plugin_breaks RELOAD watch:50,300",
        "driver_breaks UPGRADE watch:300 takes_driver:1 watch:300", repaired=False),
    "trouble_beside_work": _drawn(
        "plugin_breaks RELOAD watch:20 time:3000 takes_driver:1 time:30 daemonset_controller time:5 look watch:50",
        nodes=TWO, repaired=False),
    "out_of_time": _drawn("plugin_breaks UPGRADE 4*time:3100 look time:3100 look"),
    "by_hand_in_place": _drawn(
        "turns_upgrades UPGRADE daemonset_controller driver_crashes time:1,20,120 look watch:50,300",
        "turns_upgrades UPGRADE daemonset_controller look driver_crashes watch:300", repaired=False),
    "rolling_by_hand": _drawn(
        "turns_upgrades turns_rolling UPGRADE daemonset_controller time:40 daemonset_controller time:300 look "
        "time:40 plugin_controller time:120 operator_lies look time:20 look watch:300", nodes=TWO, repaired=False),
    "vanishing_policy": _drawn("RELOAD GONE time look watch:50 policy_returns watch:100",
        "UPGRADE daemonset_controller takes_driver watch:10,50 GONE watch:50,100 policy_returns watch:100",
        "RELOAD UPGRADE GONE look time:200 look policy_returns watch:100",
        "GONE operator_replaces time look garbage_collector time:10,40 look policy_returns watch:100"),
    "policy_gone": _drawn("GONE RELOAD look watch:50,1500", "GONE look RELOAD time:1200 look watch:50",
        "UPGRADE daemonset_controller 2*upgrade_controller GONE takes_driver work:300 look watch:50", repaired=False),
    "lost_without_labels": _drawn("goes_dark labels_vanish takes_driver look watch:50,300",
        "RELOAD goes_dark look labels_vanish watch:50,300", repaired=False),
    "orphans": _drawn("RELOAD ORPHANED time look daemonset_controller time:40,120 look time:20 look watch:50",
        "ORPHANED daemonset_controller time:40 RELOAD look watch:50"),
    "side_probed": _drawn(
        "driver_breaks:1 driver_crashes:1 driver_crashes watch:300 side_crashes watch:100 side_crashes watch:100",
        "driver_crashes time:120 look time:10 daemonset_controller time:20,40 side_crashes time:40 look watch:100",
        nodes=TWO, site=PROBED, repaired=False),
    "side_bare": _drawn("RELOAD side_crashes time look watch:100",
        "takes_driver work:50,100 side_crashes watch:100 side_crashes:0,1,2,3 watch:100", site=BARE),
    "rewritten_image": _drawn("RELOAD look watch:50",
        "RELOAD edits_version time:1,200 look time:20 look watch:50", site=REWRITTEN),
    "doubled_plugin": _drawn("takes_plugin:1 time:40 plugin_doubles time:120 look time:20 look watch:50",
        "plugin_doubles time:120 driver_crashes time:120 look time:20 look watch:50", nodes=TWO),
    "unseen_plugin": _drawn(
        "hear plugin_doubles time:120 driver_crashes time:120 look:plugins time:20 daemonset_controller look watch:50",
        "hear plugin_doubles time:120 takes_driver work:100 look:plugins time:20 look watch:50",
        pace=BRISK, nodes=TWO),
    "touched_policy": _drawn("RELOAD look watch:300", "UPGRADE daemonset_controller watch:50,300", site=TOUCHED),
    "place_given_back": _drawn("plugin_breaks RELOAD look takes_driver:1 watch:300",
        "plugin_breaks takes_driver takes_driver:1 work:300 watch:50",
        "plugin_breaks plugin_breaks:2 takes_driver:0 takes_driver:1 takes_driver:2 work:300 watch:50",
        nodes=THREE, at_once=ONE, repaired=False),
    "clocks": _drawn("clock_back:0,20,36 RELOAD watch:50,300",
        "clock_forward:0,20,36 RELOAD watch:50,300",
        "takes_driver work:20,50 clock_forward:0,20,36 watch:300"),
}  # fmt: skip
"""By name; what a family is about is its name."""
ENDLESS: Final[Mapping[str, SearchStrategy[History]]] = {
    "jumps": _drawn("watch:10 times_move watch:100,300",
        "watch:10 times_move watch:50 killed watch:100",
        "RELOAD look watch:20,50 times_move RELOAD watch:10 times_move watch:100", controller=True),
    "lies": _drawn("watch:10 takes_driver work:20,50 clock_back:20,36 watch:900",
        "watch:10 clock_back:20,36 takes_driver watch:900 takes_driver watch:300",
        "watch:10 times_move watch:100 times_move watch:100 times_move watch:100 times_move watch:100 watch:300",
        nodes=ONE, controller=True),
    "never_well": _drawn(
        "plugin_breaks RELOAD look watch:100 driver_crashes work:100 4*watch:100 driver_crashes watch:900",
        "plugin_breaks RELOAD watch:100 takes_driver watch:300 takes_driver watch:900", nodes=ONE, controller=True),
    "late": _drawn("plugin_breaks UPGRADE 6*time:3100 look 6*time:3100 look", controller=True),
    "taken_down": _drawn("takes_driver:1 work:300 takes_plugin time:12 look watch:50",
        "takes_driver takes_driver:1 work:300 look watch:100", nodes=THREE, down=ONE_OR_TWO, controller=True),
}  # fmt: skip
"""Those of the controller alone; it is tried with all the others, too."""
