"""A follower's telemetry as tests need it: with something of everything in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from prometheus_client import generate_latest

from hook.decide.reasons import Reason
from hook.decide.result import Cause, Decision, DeletePod, Judgement, NodeState, StalePod, Verdict
from hook.decide.state import Memory
from hook.errors import UnreachableError
from hook.kube.connection import ENDED, Counters
from hook.run.loop import Deed
from hook.run.metrics import Telemetry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hook.decide.state import Breaker

NOW: Final = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
STACK: Final = "gpu"
CONSUMER: Final = "dra/plugin"


def later(seconds: float) -> datetime:
    """Give a moment after the beginning."""
    return NOW + timedelta(seconds=seconds)


def stale_pod(name: str = "plugin-1", ready: datetime | None = NOW, *, again: bool = False) -> StalePod:
    """Give a pod that must restart."""
    return StalePod(
        "dra", name, name, "1", "ds", "it is old", "run", cause=Cause.DOUBT, driver_ready=ready, again=again
    )


def stale(node: str = "gpu-1", ready: datetime | None = NOW) -> Judgement:
    """Judge a node's plugin stale."""
    return _judged(node, NodeState.STALE, Reason.PLUGIN_STALE, CONSUMER, stale_pod(f"plugin-{node}", ready))


def standing(
    state: NodeState, reason: Reason, node: str = "gpu-1", consumer: str = CONSUMER, stack: str = STACK
) -> Judgement:
    """Judge a node without a stale pod."""
    return _judged(node, state, reason, consumer, stack=stack)


def verified(node: str = "gpu-1") -> Judgement:
    """Judge a node's plugin verified."""
    return standing(NodeState.VERIFIED, Reason.VERIFIED, node)


def waiting(node: str = "gpu-1") -> Judgement:
    """Judge a node whose driver reloads: nothing is said of its plugins."""
    return standing(NodeState.WAITING, Reason.DRIVER_NOT_READY, node, consumer="")


def _judged(  # noqa: PLR0913, PLR0917 - as many as a judgement has
    node: str, state: NodeState, reason: Reason, consumer: str, pod: StalePod | None = None, stack: str = STACK
) -> Judgement:
    return Judgement(node, state, reason, "so it is", consumer=consumer, stale_pod=pod, stack=stack)


def decision(judgements: Iterable[Judgement]) -> Decision:
    """Decide to wait."""
    return Decision(Verdict.WAIT, Reason.NODES_PENDING, "so it is", judgements=tuple(judgements))


def memories(breaker: Breaker | None = None) -> dict[str, Memory]:
    """Remember nothing but perhaps a breaker."""
    memory = Memory(started=NOW)
    return {STACK: memory if breaker is None else Memory(started=NOW, breaker=breaker)}


def restart(pod: StalePod, **how: str) -> Deed:
    """Restart a plugin; it went well unless said otherwise."""
    return Deed(DeletePod("gpu-1", pod, STACK), **(how or {"note": "restarted"}))


def exposition() -> str:
    """Give what /metrics shows of a follower that has seen everything once."""
    counters = Counters()
    counters.failed(UnreachableError("gone"), "watch", "pods")
    counters.watch_ended("pods", ENDED)
    telemetry = Telemetry(counters)
    telemetry.leading(leading=True)
    telemetry.round(decision([stale()]), memories(), None, NOW)
    telemetry.deed(restart(stale_pod()), NOW)
    return generate_latest(telemetry.registry).decode()
