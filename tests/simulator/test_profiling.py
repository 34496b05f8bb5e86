"""The profiler's variants do what the program does. `make profile` itself runs every night."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from devcluster.bench import atrest
from hook.kube import cache, confirm, requests
from hook.objects import decoding, readers
from tools.profiling.variants import NAMES, change

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
