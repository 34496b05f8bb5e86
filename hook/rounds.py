"""One round: observe, decide, act, account. The same for a run that comes to an end and for one that never does."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hook.acting import Actor
from hook.cluster import events
from hook.core.memory import Memory
from hook.core.reasons import Reason
from hook.core.together import chosen, decide_all
from hook.core.verdicts import Decision, DeletePod, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from hook.acting import Deed
    from hook.cluster.api import Api
    from hook.cluster.observer import Observer
    from hook.core.together import Seen
    from hook.core.verdicts import Action, StalePod
    from hook.narration import Narrator
    from hook.settings import Settings

TICK_SECONDS: Final = 1.0
"""Graces and quiet times end without an event; a second is precise enough for them."""
LONGEST_PAUSE_SECONDS: Final = 0.5
"""Between two decisions while events pour in; keeps the reaction under a second."""
PAUSE_FACTOR: Final = 1
"""Rest as long as a decision took, within the bound above: half of a processor while events pour in, and a reaction
that is not longer by more than a decision."""
TICK_FACTOR: Final = 10
"""Where nothing changes, rest so much longer than a decision took (0.4 s for 5,000 nodes): a tenth of a processor."""
LONGEST_TICK_SECONDS: Final = 5.0
"""By which a grace, or the deadline, may come late on such a fleet; a run keeps more than that back for its end."""


class Rounds:
    """What each round needs of those before it: memory, and writes whose answer was lost."""

    def __init__(self, api: Api, observer: Observer, settings: Settings, narrator: Narrator, started: datetime) -> None:
        self._api, self._observer, self._settings, self._narrator = api, observer, settings, narrator
        self._took = 0.0
        self.actor = Actor(api, lasting=settings.follow)
        self.memories = {stack.name: Memory(started=started) for stack in chosen(settings)}
        self.subjects: dict[str, events.Subject] = {}
        """The consumers that are seen, by UID."""
        self.last = Decision(Verdict.WAIT, Reason.NODES_PENDING, "nothing was read yet")

    def observe(self) -> Seen | None:
        """Give snapshots in which the pods of every consumer are seen; None while something is not read yet."""
        if not self._observer.synced:
            return None
        consumers = self._observer.look_closer()
        self.subjects = {ds.uid: events.daemonset(ds) for found in consumers.values() for ds in found}
        # They may have come into sight just now.
        return self._observer.snapshot() if self._observer.synced else None

    def begin(self, started: datetime) -> None:
        """Note when the time of the run began, which the API server's clock may tell only after the first answer."""
        self.memories = {name: replace(memory, started=started) for name, memory in self.memories.items()}

    def await_sight(self) -> None:
        """Wait a moment for what is not read yet."""
        self._narrator.tell_contact(self._observer.lost)
        self._observer.wait(TICK_SECONDS)

    def decide(self, seen: Seen) -> Decision:
        """Decide upon what is seen, once it is known what came of writes whose answer was lost."""
        live = {pod.uid for snapshot in seen.values() for pod in snapshot.consumer_pods if pod.live}
        self._account(self.actor.settle(live, current=self._observer.lost is None))
        started = time.monotonic()
        self.last, self.memories = decide_all(seen, self.memories, self._settings, self._api.now())
        self._took = time.monotonic() - started
        self._narrator.tell_contact(self._observer.lost)
        return self.last

    def act(self, decision: Decision, left: float) -> list[Deed]:
        """Do what was decided, unless what it was decided upon may be long past. Gives what was done."""
        return self._account(self.actor.act(decision.actions, left)) if self._observer.lost is None else []

    def rest(self, seconds: float = TICK_SECONDS) -> None:
        """Wait for the next change, and leave the processor to others for a while."""
        time.sleep(min(LONGEST_PAUSE_SECONDS, PAUSE_FACTOR * self._took))
        self._observer.wait(max(seconds, min(LONGEST_TICK_SECONDS, TICK_FACTOR * self._took)))

    def _account(self, deeds: Iterable[Deed]) -> list[Deed]:
        """Remember and tell each deed at once: what comes next may end the program. Telling holds up no restart."""
        done: list[Deed] = []
        for deed in deeds:
            self.remember(deed)
            done.append(deed)
            if deed.note:
                self._narrator.tell_deed(deed, self.subjects.get(deed.daemonset_uid))
        return done

    def stop_telling(self) -> None:
        """Write what was told a moment ago; briefly, because somebody waits for the end."""
        self._narrator.teller.stop()

    def remember(self, deed: Deed) -> None:
        """Note what was asked for, with every stack that asked: otherwise it would ask again."""
        for stack, node, pod in _restarted_by(deed.action):
            memory = self.memories[stack]
            trouble = deed.trouble
            asked = memory.troubled(pod, trouble) if trouble else memory.asked(node, pod, self._api.now(), deed.refused)
            self.memories[stack] = asked


def _restarted_by(action: Action) -> Iterator[tuple[str, str, StalePod]]:
    """Give the pods that an action restarts, with their nodes, for each stack that asked for it."""
    for each in (action, *action.also):
        pods = ((each.node, each.pod),) if isinstance(each, DeletePod) else each.pods
        yield from ((each.stack, node, pod) for node, pod in pods)
