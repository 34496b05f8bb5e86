"""What the program is compared with does the same, and who is watched is seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from devcluster.bench import atrest
from devcluster.layout import CHECKOUT
from hook.kube import cache, requests
from hook.objects import decoding, readers
from tools.profiling.__main__ import report
from tools.profiling.typed import TYPED
from tools.profiling.variants import NAMES, TWICE, change
from tools.profiling.watching import Memory, Time

if TYPE_CHECKING:
    from collections.abc import Iterator

READERS: Final = {"Node": readers.node, "Pod": readers.pod}


@pytest.fixture
def program() -> Iterator[None]:
    """Put the program back as it was."""
    modules = [(module, dict(vars(module))) for module in (decoding, requests, cache)]
    yield
    for module, before in modules:
        vars(module).update(before)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("program")
def test_each_variant_reads_the_same(name: str) -> None:
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
    change(name)
    assert expected == views()
    wanted = int(name.rpartition(" ")[2]) if name.startswith("pages of") else size
    assert f"{wanted}" == requests.ListOptions(requests.NODES).page().query["limit"]


def burn(over: threading.Event) -> None:
    """Spend the processor's time."""
    while not over.is_set():
        sum(range(1000))


def test_who_computes_is_seen_and_who_waits_is_not() -> None:
    """By processor time, whatever else there is on a busy machine."""
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


def test_the_report_tells_medians_and_shares() -> None:
    """Of each variant, and of what was watched."""
    runs = [{"cpu_seconds": cpu, "peak_bytes": 2**20 * cpu} for cpu in (1.0, 9.0, 2.0)]
    times = [{"where": "a.py f", "itself": 0.5, "with_callees": 0.75}]
    told = list(report(7, {"one": runs}, {"time": times, "memory": [{"where": "b.py:3", "bytes": 2**19}]}))
    assert "| one | 2.00 s | 2.0 MiB |" in told
    assert "| `a.py f` | 50% | 75% |" in told
    assert "| `b.py:3` | 0.50 MiB |" in told


@pytest.mark.e2e
def test_all_of_it_on_a_small_fleet() -> None:
    """Against a real API server other ways end well, too, and both watches find the program."""
    others = ("json, every field", TWICE, TYPED)
    done = subprocess.run(
        [sys.executable, "-m", "tools.profiling", *others, "--nodes=10", "--turns=1"],
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for name in others:
        assert f"| {name} |" in done.stdout
    assert "hook/" in done.stdout
