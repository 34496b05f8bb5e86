"""What an API server spent and served, from its own metrics. Pure: their text in, figures out.

Bytes are those of the answers to reads, as they were sent (compressed where the client wants that), and of the events
of watches. The API server counts the bytes of no other answers; those of writes are a few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from prometheus_client.parser import text_string_to_metric_families

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
        for sample in (each for family in text_string_to_metric_families(text) for each in family.samples):
            if sample.name == CPU:
                cpu = sample.value
            elif sample.name == EVENTS or (sample.name == ANSWERS and sample.labels["verb"] in READS):
                size += round(sample.value)
            elif sample.name == REQUESTS:
                requests += round(sample.value)
            elif sample.name == OWN:
                requests -= round(sample.value)
        return cls(cpu, size, requests)

    def __sub__(self, before: Usage) -> Usage:
        """Return what came since another moment."""
        return Usage(self.cpu_seconds - before.cpu_seconds, self.bytes - before.bytes, self.requests - before.requests)
