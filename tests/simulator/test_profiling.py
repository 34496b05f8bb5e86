"""The profiler: its variants do what the program does, and its watches find what computes and what fills memory.

`make profile` itself runs every night (.github/workflows/nightly.yaml).
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from devcluster.bench import atrest
from hook.kube import cache, confirm, requests
from hook.objects import decoding, readers
from tools.profiling.__main__ import report
from tools.profiling.variants import NAMES, change
from tools.profiling.watching import Memory, Time

if TYPE_CHECKING:
    from collections.abc import Iterator

READERS: Final = {"Node": readers.node, "Pod": readers.pod}


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, dict[str, Any]]]]:
    """Keep the program as it is, and restore it."""
    second_read = vars(confirm.ConsistentRead)["_metadata"]
    monkeypatch.setattr(confirm.ConsistentRead, "_metadata", second_read)  # a variant replaces it in the class
    modules = [(module, dict(vars(module))) for module in (decoding, requests, cache)]
    yield modules
    for module, before in modules:
        vars(module).update(before)


def test_each_variant_reads_the_same(restored: list[tuple[Any, dict[str, Any]]]) -> None:
    """The same views of the same page; pages are as large as the name says."""
    objects = [atrest.node(1), atrest.driver_pod(1), atrest.plugin_pod(1)]
    for each in objects:
        each["metadata"]["resourceVersion"] = "4"
    body = json.dumps({"metadata": {"resourceVersion": "5"}, "items": objects}).encode()

    def views() -> list[Any]:
        page = decoding.answer(decoding.Page, body)
        assert page.metadata["resourceVersion"] == "5"
        return [READERS[each["kind"]](one) for each, one in zip(objects, page.items, strict=True)]

    expected, size = views(), requests.PAGE_SIZE
    for name in NAMES:
        for module, before in restored:
            vars(module).update(before)
        change(name)
        assert views() == expected, name
        wanted = int(name.rpartition(" ")[2]) if name.startswith("pages of") else size
        assert requests.ListOptions(requests.NODES).page().query["limit"] == f"{wanted}", name


def burn(over: threading.Event) -> None:
    """Use the processor's time."""
    while not over.is_set():
        sum(range(1000))


def test_what_computes_is_seen_and_what_waits_is_not() -> None:
    """By processor time, whatever else runs on a busy machine."""
    over = threading.Event()
    busy, idle = threading.Thread(target=burn, args=(over,)), threading.Thread(target=over.wait)
    busy.start()
    idle.start()
    watch = Time()
    watch.start()
    began = time.process_time()
    while time.process_time() - began < 1:
        time.sleep(0.05)
    found = watch.stop()
    over.set()
    busy.join()
    idle.join()
    most = found[0]
    assert most["where"].endswith("test_profiling.py burn")
    assert 0.5 < most["itself"] <= most["with_callees"] <= 1


def test_what_fills_memory_is_seen_although_it_is_gone() -> None:
    """By the line that took it, at the moment when it was there."""
    watch = Memory()
    watch.start()
    held = [bytes(1000) for _ in range(20_000)]
    watch.look()
    held.clear()
    line, *_others, together = watch.stop()
    assert together["bytes"] >= line["bytes"]
    assert "test_profiling.py:" in line["where"]
    # The last snapshot may be one of a moment before, with up to three hundredths less.
    assert line["bytes"] > 19_000 * 1000


def test_the_report_has_medians_and_shares() -> None:
    """Of each variant, and of what was watched."""
    runs = [{"cpu_seconds": cpu, "peak_bytes": 2**20 * cpu} for cpu in (1.0, 9.0, 2.0)]
    times = [{"where": "a.py f", "itself": 0.5, "with_callees": 0.75}]
    lines = list(report(7, {"one": runs}, {"time": times, "memory": [{"where": "b.py:3", "bytes": 2**19}]}))
    assert {"| one | 2.00 s | 2.0 MiB |", "| `a.py f` | 50% | 75% |", "| `b.py:3` | 0.50 MiB |"} <= set(lines)
