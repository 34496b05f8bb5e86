"""What an API server spent and served, from its own metrics. Pure: their text in, figures out.

Bytes are those of the answers to reads, as they were sent (compressed where the client wants that), and of the events
of watches. The API server counts the bytes of no other answers; those of writes are a few.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

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
    bytes: Counter[str] = field(default_factory=Counter)
    """By resource."""
    requests: Counter[str] = field(default_factory=Counter)
    """By verb; what the server asked itself is not among them."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Read the metrics in Prometheus' text format."""
        cpu, size, requests = 0.0, Counter[str](), Counter[str]()
        for name, labels, value in _samples(text):
            verb = labels.get("verb", "")
            if name == CPU:
                cpu = value
            elif name == EVENTS or (name == ANSWERS and verb in READS):
                size[labels.get("resource", "")] += round(value)
            elif name == REQUESTS:
                requests[verb] += round(value)
            elif name == OWN:
                requests[verb] -= round(value)
        return cls(cpu, size, requests)

    def minus(self, other: Usage) -> Usage:
        """Return what this is more than another, down to less than nothing: noise is shown, not hidden."""
        size, requests = Counter(self.bytes), Counter(self.requests)
        size.subtract(other.bytes)
        requests.subtract(other.requests)
        return Usage(self.cpu_seconds - other.cpu_seconds, size, requests)

    def as_json(self) -> dict[str, Any]:
        """Return everything, for programs."""
        return {
            "cpu_seconds": round(self.cpu_seconds, 2),
            "bytes": self.bytes.total(),
            "bytes_by_resource": {resource: count for resource, count in self.bytes.most_common() if count},
            "requests": self.requests.total(),
            "requests_by_verb": {verb: count for verb, count in sorted(self.requests.items()) if count},
        }


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield each sample of the metrics that matter here."""
    wanted = {CPU, REQUESTS, OWN, ANSWERS, EVENTS}
    for found in LINE.finditer(text):
        if found["name"] in wanted:
            yield found["name"], dict(LABEL.findall(found["labels"] or "")), float(found["value"])
