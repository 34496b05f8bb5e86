"""An observer for months: what was true when it began may change, and what it looks at may vanish for good."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from hook.cluster import requests, retry
from hook.cluster.observer import Observer
from hook.cluster.sources import CONSUMER_PODS, POOLS, SLICES
from hook.core import intent
from hook.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hook.cluster.api import Api
    from hook.cluster.sources import Source
    from hook.core.stack import Stack
    from hook.core.views import DaemonSet, Snapshot
    from hook.settings import Settings

log = logging.getLogger(__name__)

ASK_SECONDS: Final = 60.0
"""Between two questions which version of ResourceSlices is served, while none is or ours is gone: an upgrade of
Kubernetes takes away old versions of an API, and may bring the first one."""
FIRST_ASK_SECONDS: Final = 2.0
"""The same while nothing is known yet: nothing can be judged before."""
ANSWER_SECONDS: Final = 5.0
"""The loop waits for this answer, and must show that it lives."""
UNWANTED_SECONDS: Final = 600.0
"""After its DaemonSet is gone, a plugin's pods are followed for a while: releases are reinstalled under other names."""


class LastingObserver(Observer):
    """Gives up on nothing that may pass, asks again what may have changed, and lets go of what nobody needs."""

    def __init__(self, api: Api, stacks: Sequence[Stack], settings: Settings) -> None:
        super().__init__(api, stacks, settings, retry.FOLLOWING)
        self._asked_at = float("-inf")
        self._known = False
        self._trouble = ""
        """Why the last question was not answered."""
        self._wanted = any(stack.consumer.slice_driver for stack in stacks)
        self._looked = False
        self._unwanted: dict[Source, float] = {}

    def look_at_fleet(self) -> None:
        """Go on with the fleet. May be called again, which asks for what could not be asked."""
        self._looked = True
        super().look_at_fleet()

    def look_closer(self) -> Mapping[str, tuple[DaemonSet, ...]]:
        """Follow what matters now, and nothing that no longer does."""
        found = super().look_closer()
        for stack in self._stacks if self._looked else ():
            if stack.consumer.slice_driver:
                self._replace(stack, SLICES, self._slices_of(stack))
            self._let_go(stack, {self._pods_of(daemonset) for daemonset in found[stack.name]})
        return found

    @property
    def synced(self) -> bool:
        """Everything that is looked at was read once, and nothing is left out because it could not be asked for."""
        return super().synced and (self._known or not self._wanted or not self._looked)

    def _slices_of(self, stack: Stack) -> list[Source]:
        """Ask without patience: the next look asks again."""
        current = [source for source, part in self._parts.get(stack.name, {}).items() if part == SLICES]
        if not current or any(self._reflectors[source].absent for source in current):
            self._ask()
        self._slices_asked = True
        return super()._slices_of(stack)

    def _ask(self) -> None:
        now = time.monotonic()
        if now - self._asked_at < (ASK_SECONDS if self._known else FIRST_ASK_SECONDS):
            return
        self._asked_at = now
        try:
            served = self._api.served_versions(requests.RESOURCE_SLICES, ANSWER_SECONDS)
        except ClusterError as error:
            # Said once for each reason: nothing is judged until this is known, and no other line says so.
            level = logging.DEBUG if str(error) == self._trouble else logging.WARNING
            log.log(level, "cannot ask which ResourceSlices are served, asking again: %s", error)
            self._trouble = str(error)
        else:
            self._slices, self._known, self._trouble = requests.resource_slices(served), True, ""

    def _look_at_what_the_policy_says(self, stack: Stack, seen: Snapshot) -> None:
        """Forget the pools of a policy that decides by itself again, too: what is left of them means nothing."""
        super()._look_at_what_the_policy_says(stack, seen)
        policy = intent.active_policy(seen.policies or (), stack)
        if policy is not None and not policy.pooled:
            self._replace(stack, POOLS, [])

    def _let_go(self, stack: Stack, wanted: set[Source]) -> None:
        """Forget pods of DaemonSets that are gone for good."""
        now = time.monotonic()
        for source in [one for one, part in self._parts[stack.name].items() if part == CONSUMER_PODS]:
            if source in wanted:
                self._unwanted.pop(source, None)
            elif now - self._unwanted.setdefault(source, now) > UNWANTED_SECONDS:
                self._drop(stack, source)

    def _replace(self, stack: Stack, part: str, sources: list[Source]) -> None:
        """Let a part be filled by these sources alone."""
        for source in [one for one, of in self._parts[stack.name].items() if of == part and one not in sources]:
            self._drop(stack, source)
        self._add(stack, part, sources)

    def _drop(self, stack: Stack, source: Source) -> None:
        """Stop to follow a source, unless another stack needs it, too."""
        del self._parts[stack.name][source]
        self._unwanted.pop(source, None)
        if not any(source in parts for parts in self._parts.values()):
            self._reflectors.pop(source).stop()
