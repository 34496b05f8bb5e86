"""What an API server held one moment after another, in its own order: for tests of what came first.

A test that polls sees what is there when a busy machine lets it ask, and never two kinds at one moment. A watch misses
nothing, and resource versions put all kinds of one server into one order.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from devcluster.cluster import Cluster

_FILES = count()


@contextmanager
def recorded(cluster: Cluster, *what: str) -> Iterator[Callable[[], list[Any]]]:
    """Record what becomes of some objects, as `kubectl get` names them; yields a function that returns the events."""
    file = cluster.state / f"history-{next(_FILES)}.json"
    kubectl = (str(cluster.binary("kubectl")), f"--kubeconfig={cluster.kubeconfig}")
    command = (*kubectl, "get", *what, "--watch", "--output-watch-events", "--output=json")
    with file.open("w", encoding="utf-8") as target:
        process = cluster.adopt(subprocess.Popen(command, stdout=target, text=True))
        try:
            yield lambda: whole(file)
        finally:
            process.kill()
            process.wait()


def whole(file: Path) -> list[Any]:
    """Read the events of a file; the last one may still be being written."""
    text, decoder, found = file.read_text(encoding="utf-8").strip(), json.JSONDecoder(), []
    while text:
        try:
            one, end = decoder.raw_decode(text)
        except ValueError:
            break
        found.append(one)
        text = text[end:].lstrip()
    return found
