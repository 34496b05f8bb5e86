"""Families of histories: each keeps coming back to one unlucky course of things, never twice in quite the same way.

Random events alone hardly ever meet within one second, or in the one order that misleads a rule. A family
leads there, and leaves to chance what lies before, between and after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from tests.properties.histories import EVENTS, KINDS, PACES, TIMES, anything
from tests.properties.observation import PLUGIN_KINDS
from tests.properties.pods import SECOND, Pace, Side
from tests.properties.rollout import Image, Site
from tests.properties.story import NOTHING, History, Step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

    Part = SearchStrategy[Step]

EVERYTHING: Final = frozenset(KINDS)
SETTLES: Final = 30 * SECOND
"""Longer than any pace takes to reload a driver and to say that it is ready."""
QUIET: Final = 20 * SECOND
"""Longer than the quiet time that is waited for."""
BRISK: Final = st.builds(Pace, goes=st.just(1), unload=st.sampled_from([1, 4]), install=st.sampled_from([1, 4]),
                         notice=st.sampled_from([1, 4]), poll=st.just(1), begin=st.sampled_from([1, 2]),
                         rises=st.sampled_from([1, 10]))  # fmt: skip
"""Several things happen within one second."""
LOADS_LATE: Final = st.just(Pace(goes=1, unload=1, install=8, notice=1, poll=1, begin=1))
"""A driver that is ready as soon as it is loaded, most of a second after its container started."""
SLOW_TO_LOAD: Final = st.builds(Pace, goes=st.just(1), unload=st.sampled_from([1, 4]), install=st.just(40),
                                notice=st.sampled_from([1, 30]), poll=st.just(1), begin=st.just(1))  # fmt: skip
SLOW_TO_GO: Final = st.just(Pace(goes=30))
ONE_OR_TWO: Final = st.integers(1, 2)
TWO: Final = st.just(2)
ANY_PHASE: Final = st.integers(0, SECOND - 1)
"""Where in a second of the API's clock a history begins."""
EARLY: Final = st.integers(0, 1)
NO_BOUND: Final = st.just(0)
ONE_AT_A_TIME: Final = st.just(1)
USUAL: Final = st.just(Site())
PROBED: Final = st.just(Site(side=Side.PROBED))
BARE: Final = st.just(Site(side=Side.BARE))
REWRITTEN: Final = st.builds(Site, image=st.sampled_from([one for one in Image if one is not Image.AS_RENDERED]))
TOUCHED: Final = st.builds(Site, touched=st.sampled_from([20, 30, 50]))
A_CROWD: Final = st.integers(6, 8)
"""Nodes, of which five are more than a share."""


def _on(what: str, *which: int) -> Part:
    """Let something befall a node, the first if none is named."""
    return st.builds(Step, st.just(what), st.sampled_from(which or (0,)), st.just(NOTHING))


def _either(*names: str) -> Part:
    """Let one of several things befall the first node, or the whole cluster."""
    return st.builds(Step, st.sampled_from(names), st.just(0), st.just(NOTHING))


def _for(what: str, *tenths: int) -> Part:
    """Let time pass, in one of three ways."""
    return st.builds(Step, st.just(what), st.sampled_from(tenths or TIMES[:6]), st.just(NOTHING))


def _look(behind: frozenset[str] = NOTHING, what: str = "look") -> Part:
    return st.just(Step(what, 0, behind))


@st.composite
def _told(  # noqa: PLR0913 - all that a history is made of
    draw: st.DrawFn,
    *courses: tuple[Part, ...],
    pace: SearchStrategy[Pace] = PACES,
    nodes: SearchStrategy[int] = ONE_OR_TWO,
    phase: SearchStrategy[int] = ANY_PHASE,
    mended: bool = True,
    follow: bool = False,
    down: SearchStrategy[int] = NO_BOUND,
    at_once: SearchStrategy[int] = EARLY,
    site: SearchStrategy[Site] = USUAL,
) -> History:
    """Draw a history that runs into one of these courses, now and then disturbed by something else."""
    steps: list[Step] = [Step("time", draw(phase))]
    for part in draw(st.sampled_from(courses)):
        steps.append(draw(part))
        if draw(st.integers(0, 15)) == 15:
            steps.append(Step(draw(st.sampled_from(EVENTS)), draw(st.integers(0, 9))))
    return History(
        tuple(steps),
        nodes=draw(nodes),
        runs=draw(st.integers(1, 2)),
        pace=draw(pace),
        at_once=0 if follow else draw(at_once),
        mended=mended,
        follow=follow,
        down=draw(down),
        site=draw(site),
    )


_SOME: Final = st.sets(st.sampled_from(KINDS)).map(frozenset)
_HEARS: Final = st.builds(Step, st.just("hear"), st.integers(0, 1), _SOME)
_LOOKS: Final = st.builds(Step, st.just("look"), st.integers(0, 1), _SOME)
_UPGRADE: Final = (_on("edits_version"), _for("time"), _on("operator_renders"))
_SETTING: Final = (_on("edits_setting"), _for("time"), _on("operator_renders"))
_RELOAD: Final = (_on("takes_driver"), _for("work", SETTLES))
_GONE: Final = _either("policy_vanishes", "kind_vanishes")
_ORPHANED: Final = _either("plugins_orphaned", "plugins_adopted")

FAMILIES: Final[Mapping[str, SearchStrategy[History]]] = {
    "anything": anything(),
    "upgrades": _told(
        (*_UPGRADE, _on("daemonset_controller"), _on("takes_driver"), _for("time", 10, 20, 30),
         _on("daemonset_controller"), _for("time", 10, 20, 40, 60), _on("operator_lies"), _look(), _for("watch", 100)),
        (*_UPGRADE, _on("daemonset_controller"), _for("watch", 100, 300), *_UPGRADE, _for("watch", 50)),
    ),
    "hardly_ready": _told(
        (_on("driver_crashes"), _for("time", 1, 3), _on("operator_lies"), _look(), _for("watch", 50)),
    ),
    "about_to_go": _told(
        (_on("takes_driver"), _for("time", 1, 3), _look(), _for("watch", 50)),
        (*_RELOAD, _on("takes_plugin"), _look(), _for("watch", 50)),
        pace=SLOW_TO_GO,
    ),
    "operator_lag": _told(
        (*_RELOAD, _on("edits_version"), _for("time", 1, QUIET), _look(), _for("time", 20), _look(), _for("watch", 50)),
    ),
    "label_lag": _told(
        (*_SETTING, _on("daemonset_controller"), _on("operator_lies"), _look(), _for("time", QUIET), _look(), _look()),
        (*_UPGRADE, _on("daemonset_controller"), _on("operator_lies"), _look(), _for("time", QUIET), _look(), _look()),
    ),
    "controller_lag": _told(
        (*_SETTING, _on("operator_lies"), _look(), _for("time", QUIET), _look(), _for("time", 20), _look()),
        (*_RELOAD, *_UPGRADE, _on("operator_lies"), _look(), _for("time", QUIET), _look(), _for("time", 20), _look()),
    ),
    "second_render": _told(
        (_on("operator_rolls"), _for("time"), _look(), _on("operator_starts"), _for("time", QUIET), _look(),
         _on("operator_leads"), _for("time", 1, 3), _look(), _for("watch", 50)),
        (_on("edits_setting"), _for("time", 1, 3), _look(), _for("watch", 100)),
    ),
    "taken_back": _told(
        (*_UPGRADE, _on("daemonset_controller"), _for("work", 100, 600), _for("time", 20, 300),
         _on("takes_version_back"), _on("operator_renders"), _on("daemonset_controller"), _on("operator_lies"),
         _for("time", QUIET), _look(), _for("watch", 50)),
    ),
    "second_of_ready": _told(
        (_on("driver_crashes"), _for("time", 1, 2, 3, 4, 5, 6), _on("plugin_crashes"), _for("time", 120), _look(),
         _for("watch", 100)),
        pace=LOADS_LATE, nodes=st.just(1),
    ),
    "second_of_start": _told(
        (_on("takes_driver"), _on("takes_plugin"), _for("time", 2), _on("daemonset_controller"),
         _for("time", 120), _look(), _for("watch", 100)),
        pace=BRISK, nodes=st.just(1),
    ),
    "own_restart": _told(
        (_on("driver_crashes"), _for("time", 2, 5, 8), _look(), _for("time", 1), _look(), _for("time", 2),
         _on("daemonset_controller"), _for("time", 20), _look(), _for("watch", 50)),
        pace=BRISK, nodes=st.just(1),
    ),
    "crashes_again": _told(
        (_on("driver_crashes"), _for("time", 5), _look(), _for("time", 1), _look(), _for("time", 2),
         _on("driver_crashes"), _on("daemonset_controller"), _for("time", 20), _look(), _for("watch", 50)),
        pace=st.just(Pace(goes=1, unload=1, install=4, notice=1, poll=1, begin=1)), nodes=st.just(1), phase=EARLY,
    ),
    "crash_in_place": _told(
        (_on("takes_plugin"), _for("time", 5, 10), _on("driver_crashes"), _for("time", 11, 15),
         _on("daemonset_controller"), _for("time", 120), _look(), _for("watch", 100)),
        (_on("driver_crashes"), _for("time", 11, 15), _on("plugin_crashes"), _for("time", 120),
         _on("plugin_crashes", 2, 4), _for("time", 120), _look(), _for("watch", 100)),
        pace=SLOW_TO_LOAD, nodes=st.just(1),
    ),
    "blips": _told(
        (_on("driver_crashes"), _for("time", 150), _on("takes_plugin"), _for("work", 100), _on("goes_dark"),
         _for("time"), _on("comes_back"), _for("time", 1, 10), _look(), _for("watch", 50)),
        (*_RELOAD, _on("goes_dark"), _for("time"), _look(), _for("time", 20), _look(), _on("comes_back")),
    ),
    "stale_watch": _told(
        (_look(what="hear"), *_RELOAD, _on("plugin_crashes"), _for("time", 40, 80), _look(PLUGIN_KINDS),
         _for("watch", 50)),
        (_look(what="hear"), *_UPGRADE, _on("daemonset_controller"), _for("work", 50, 100), _look(EVERYTHING)),
        (_look(what="hear"), *_RELOAD, _look(EVERYTHING), _look(EVERYTHING - PLUGIN_KINDS), _for("watch", 50)),
    ),
    "out_of_order": _told(
        (*_RELOAD, _HEARS, _on("edits_version"), _HEARS, _on("operator_renders"), _HEARS, _on("daemonset_controller"),
         _LOOKS, _on("takes_driver"), _HEARS, _for("time"), _on("daemonset_controller"), _HEARS, _for("time"), _LOOKS,
         _for("time"), _HEARS, _LOOKS, _for("work", 20), _HEARS, _LOOKS, _for("watch", 50)),
    ),
    "missing_plugin": _told(
        (_on("takes_plugin"), _for("time", 40), _look(), _for("time"), _look(), _for("watch", 50)),
        (_look(), *_RELOAD, _look(), _for("time", 40), _look(), _for("time", 20), _look()),
    ),
    "labels": _told(
        (*_RELOAD, _on("labels_vanish"), _for("time", 1, 10), _look(), _for("time", 60), _look(), _for("watch", 50)),
        (*_RELOAD, _on("labels_vanish"), _for("work", 20), _look(), _for("time", 60), _look(), _for("watch", 50)),
    ),
    "skipped": _told(
        (_on("is_skipped"), *_RELOAD, _look(), _for("watch", 50)),
    ),
    "several_at_once": _told(
        (_on("takes_driver"), _on("takes_driver", 1), _for("work", SETTLES), _look(), _for("watch", 50)),
        nodes=st.just(3),
    ),
    "replaced": _told(
        (_on("operator_replaces"), _for("time"), _look(), _on("operator_renders"), _for("time"), _look(),
         _on("daemonset_controller"), _for("time"), _look(), _on("garbage_collector"), _for("watch", 100)),
    ),
    "churn": _told(
        (*_UPGRADE, _on("daemonset_controller"), _on("node_joins"), _for("watch", 10, 50), _on("node_leaves", 0, 1),
         _for("watch", 50), _on("node_joins"), _for("time"), _look(), _for("watch", 100)),
    ),
    "killed": _told(
        (*_RELOAD, _look(), _on("killed", 0, 1), _for("time"), _look(), _on("daemonset_controller"), _for("time"),
         _on("killed", 0, 1), _look(), _for("watch", 100)),
    ),
    "by_hand": _told(
        (_on("turns_upgrades"), *_UPGRADE, _on("daemonset_controller"), _look(), _for("watch", 20), _on("takes_driver"),
         _for("watch", 300)),
        mended=False,
    ),
    "trouble": _told(
        (_on("plugin_breaks"), *_RELOAD, _for("watch", 50, 300)),
        (_on("driver_breaks"), *_UPGRADE, _for("watch", 300), _on("takes_driver", 1), _for("watch", 300)),
        mended=False,
    ),
    "trouble_beside_work": _told(
        (_on("plugin_breaks"), *_RELOAD, _for("watch", 20), _for("time", 3000), _on("takes_driver", 1),
         _for("time", 30), _on("daemonset_controller"), _for("time", 5), _look(), _for("watch", 50)),
        nodes=TWO, mended=False,
    ),
    "out_of_time": _told(
        (_on("plugin_breaks"), *_UPGRADE, *(_for("time", 3100),) * 4, _look(), _for("time", 3100), _look()),
    ),
    "by_hand_in_place": _told(
        (_on("turns_upgrades"), *_UPGRADE, _on("daemonset_controller"), _on("driver_crashes"), _for("time", 1, 20, 120),
         _look(), _for("watch", 50, 300)),
        (_on("turns_upgrades"), *_UPGRADE, _on("daemonset_controller"), _look(), _on("driver_crashes"),
         _for("watch", 300)),
        mended=False,
    ),
    "rolling_by_hand": _told(
        (_on("turns_upgrades"), _on("turns_rolling"), *_UPGRADE, _on("daemonset_controller"), _for("time", 40),
         _on("daemonset_controller"), _for("time", SETTLES), _look(), _for("time", 40), _on("plugin_controller"),
         _for("time", 120), _on("operator_lies"), _look(), _for("time", 20), _look(), _for("watch", 300)),
        nodes=TWO, mended=False,
    ),
    "vanishing_policy": _told(
        (*_RELOAD, _GONE, _for("time"), _look(), _for("watch", 50), _on("policy_returns"), _for("watch", 100)),
        (*_UPGRADE, _on("daemonset_controller"), _on("takes_driver"), _for("watch", 10, 50), _GONE,
         _for("watch", 50, 100), _on("policy_returns"), _for("watch", 100)),
        (*_RELOAD, *_UPGRADE, _GONE, _look(), _for("time", QUIET), _look(), _on("policy_returns"), _for("watch", 100)),
        (_GONE, _on("operator_replaces"), _for("time"), _look(), _on("garbage_collector"), _for("time", 10, 40),
         _look(), _on("policy_returns"), _for("watch", 100)),
    ),
    "policy_gone": _told(
        (_GONE, *_RELOAD, _look(), _for("watch", 50, 1500)),
        (_GONE, _look(), *_RELOAD, _for("time", 1200), _look(), _for("watch", 50)),
        mended=False,
    ),
    "orphans": _told(
        (*_RELOAD, _ORPHANED, _for("time"), _look(), _on("daemonset_controller"), _for("time", 40, 120), _look(),
         _for("time", 20), _look(), _for("watch", 50)),
        (_ORPHANED, _on("daemonset_controller"), _for("time", 40), *_RELOAD, _look(), _for("watch", 50)),
    ),
    "side_probed": _told(
        (_on("driver_breaks", 1), _on("driver_crashes", 1), _on("driver_crashes"), _for("watch", 300),
         _on("side_crashes"), _for("watch", 100), _on("side_crashes"), _for("watch", 100)),
        (_on("driver_crashes"), _for("time", 120), _look(), _for("time", 10), _on("daemonset_controller"),
         _for("time", 20, 40), _on("side_crashes"), _for("time", 40), _look(), _for("watch", 100)),
        nodes=TWO, site=PROBED, mended=False,
    ),
    "side_bare": _told(
        (*_RELOAD, _on("side_crashes"), _for("time"), _look(), _for("watch", 100)),
        (_on("takes_driver"), _for("work", 50, 100), _on("side_crashes"), _for("watch", 100),
         _on("side_crashes", 0, 1, 2, 3), _for("watch", 100)),
        site=BARE,
    ),
    "rewritten_image": _told(
        (*_RELOAD, _look(), _for("watch", 50)),
        (*_RELOAD, _on("edits_version"), _for("time", 1, QUIET), _look(), _for("time", 20), _look(), _for("watch", 50)),
        site=REWRITTEN,
    ),
    "doubled_plugin": _told(
        (_on("takes_plugin", 1), _for("time", 40), _on("plugin_doubles"), _for("time", 120), _look(),
         _for("time", 20), _look(), _for("watch", 50)),
        (_on("plugin_doubles"), _for("time", 120), _on("driver_crashes"), _for("time", 120), _look(), _for("time", 20),
         _look(), _for("watch", 50)),
        nodes=TWO,
    ),
    "touched_policy": _told(
        (*_RELOAD, _look(), _for("watch", 300)),
        (*_UPGRADE, _on("daemonset_controller"), _for("watch", 50, 300)),
        site=TOUCHED,
    ),
    "place_given_back": _told(
        (_on("plugin_breaks"), *_RELOAD, _look(), _on("takes_driver", 1), _for("watch", 300)),
        (_on("plugin_breaks"), _on("takes_driver"), _on("takes_driver", 1), _for("work", SETTLES), _for("watch", 50)),
        (_on("plugin_breaks"), _on("plugin_breaks", 2), *(_on("takes_driver", node) for node in range(3)),
         _for("work", SETTLES), _for("watch", 50)),
        nodes=st.just(3), mended=False, at_once=ONE_AT_A_TIME,
    ),
    "clocks": _told(
        (_on("clock_back", 0, 20, 36), *_RELOAD, _for("watch", 50, 300)),
        (_on("clock_forward", 0, 20, 36), *_RELOAD, _for("watch", 50, 300)),
        (_on("takes_driver"), _for("work", 20, 50), _on("clock_forward", 0, 20, 36), _for("watch", 300)),
    ),
}  # fmt: skip
"""By name; what a family is about is its name."""

_MOVES: Final = tuple(part for node in range(5) for part in (_on("times_move", node), _for("watch", 10, 20, 110)))
_PARALLEL: Final = tuple(_on("takes_driver", node) for node in range(6))

ENDLESS: Final[Mapping[str, SearchStrategy[History]]] = {
    "jumps": _told(
        (_for("watch", 10), *_MOVES, _for("watch", 100, 700)),
        (_for("watch", 10), *_MOVES, _for("watch", 700), _on("killed"), _for("watch", 100)),
        (_for("watch", 10), *_MOVES, *_RELOAD, _for("watch", 700)),
        nodes=A_CROWD, follow=True,
    ),
    "all_at_once": _told(
        (_for("watch", 10), *_PARALLEL, _for("watch", 300)),
        (*_UPGRADE, _on("daemonset_controller"), *_PARALLEL, _for("watch", 10, 300)),
        (_for("watch", 10), *(_on("driver_crashes", node) for node in range(6)), _for("watch", 300)),
        nodes=A_CROWD, follow=True,
    ),
    "lies": _told(
        (_for("watch", 10), _on("takes_driver"), _for("work", 20, 50), _on("clock_back", 20, 36), _for("watch", 900)),
        (_for("watch", 10), _on("clock_back", 20, 36), _on("takes_driver"), _for("watch", 900),
         _on("takes_driver"), _for("watch", 300)),
        (_for("watch", 10), *(_on("times_move"), _for("watch", 100)) * 4, _for("watch", 300)),
        nodes=st.just(1), follow=True,
    ),
    "late": _told(
        (_on("plugin_breaks"), *_UPGRADE, *(_for("time", 3100),) * 6, _look(), *(_for("time", 3100),) * 6, _look()),
        follow=True,
    ),
    "taken_down": _told(
        (_on("takes_driver", 1), _for("work", SETTLES), _on("takes_plugin"), _for("time", 12), _look(),
         _for("watch", 50)),
        (_on("takes_driver"), _on("takes_driver", 1), _for("work", SETTLES), _look(), _for("watch", 100)),
        nodes=st.just(3), follow=True, down=ONE_OR_TWO,
    ),
}  # fmt: skip
"""Those of a run that follows; all the others are told to one as well."""
