"""An observer for months: what was true when it began may change, and what it looks at may vanish for good."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from hook.cluster import retry
from hook.cluster.observer import FIRST_ASK_SECONDS, Observer
from hook.cluster.sources import CONSUMER_PODS, POOLS, SLICES
from hook.core import intent
from hook.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hook.cluster.api import Api
    from hook.cluster.sources import Source
    from hook.core.stack import Stack
    from hook.objects.views import DaemonSet, Snapshot
    from hook.settings import Settings

ASK_SECONDS: Final = 60.0
"""Between two questions which version of ResourceSlices is served, while none is or ours is gone: an upgrade of
Kubernetes takes away old versions of an API, and may bring the first one."""
UNWANTED_SECONDS: Final = 600.0
"""After its DaemonSet is gone, a plugin's pods are followed for a while: releases are reinstalled under other names."""


class LastingObserver(Observer):
    """Gives up on nothing that may pass, asks again what may have changed, and lets go of what nobody needs."""

    def __init__(self, api: Api, stacks: Sequence[Stack], settings: Settings) -> None:
        super().__init__(api, stacks, settings, retry.FOLLOWING)
        self._unwanted: dict[Source, float] = {}

    def look_closer(self) -> Mapping[str, tuple[DaemonSet, ...]]:
        """Follow what matters now, and nothing that no longer does."""
        found = super().look_closer()
        for stack in self._stacks if self._looked else ():
            if stack.consumer.slice_driver:
                self._replace(stack, SLICES, self._slices_of(stack))
            self._let_go(stack, self._followed[stack.name])
        return found

    def _slices_of(self, stack: Stack) -> list[Source]:
        """Ask again where the server has none, or no longer has the one that is known."""
        current = [source for source, part in self._parts.get(stack.name, {}).items() if part == SLICES]
        if self._known and (not current or any(self._reflectors[source].absent for source in current)):
            self._ask()
        return super()._slices_of(stack)

    @property
    def _pause(self) -> float:
        return ASK_SECONDS if self._known else FIRST_ASK_SECONDS

    def _note_failure(self, error: ClusterError) -> None:
        """Outlive anything: what cannot be asked now may be asked later."""
        with contextlib.suppress(ClusterError):
            super()._note_failure(error)

    def _look_at_what_the_policy_says(self, stack: Stack, seen: Snapshot) -> None:
        """Forget the pools of a policy that decides by itself again, too: what is left of them means nothing."""
        super()._look_at_what_the_policy_says(stack, seen)
        policy = intent.active_policy(seen.policies or (), stack)
        if policy is not None and not policy.pooled:
            self._replace(stack, POOLS, [])

    def _let_go(self, stack: Stack, wanted: list[Source]) -> None:
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
