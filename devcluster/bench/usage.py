"""What an API server spent and served, from its own metrics. Pure: their text in, figures out.

Bytes are those of the answers to reads, as they were sent (compressed where the client wants that), and of the events
of watches. The API server counts the bytes of no other answers; those of writes are a few.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

LINE: Final = re.compile(r"^(?P<name>[a-z_]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$", re.MULTILINE)
LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

CPU, REQUESTS, OWN = "process_cpu_seconds_total", "apiserver_request_total", "apiserver_selfrequest_total"
ANSWERS, EVENTS = "apiserver_response_sizes_sum", "apiserver_watch_events_sizes_sum"
READS: Final = frozenset({"GET", "LIST"})
"""A watch's answer is counted a second time here when it ends; its events are counted as they are sent."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The sums of one moment, or what came between two."""

    cpu_seconds: float = 0.0
    bytes: int = 0
    requests: int = 0
    """What the server asked itself is not among them."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Read the metrics in Prometheus' text format."""
        cpu, size, requests = 0.0, 0, 0
        for name, labels, value in _samples(text):
            if name == CPU:
                cpu = value
            elif name == EVENTS or (name == ANSWERS and labels.get("verb") in READS):
                size += round(value)
            elif name == REQUESTS:
                requests += round(value)
            elif name == OWN:
                requests -= round(value)
        return cls(cpu, size, requests)

    def minus(self, other: Usage) -> Usage:
        """Return what this is more than another."""
        return Usage(self.cpu_seconds - other.cpu_seconds, self.bytes - other.bytes, self.requests - other.requests)


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield each sample of the metrics that matter here."""
    wanted = {CPU, REQUESTS, OWN, ANSWERS, EVENTS}
    for found in LINE.finditer(text):
        if found["name"] in wanted:
            yield found["name"], dict(LABEL.findall(found["labels"] or "")), float(found["value"])
