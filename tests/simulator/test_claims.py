"""Pods with claims: whose files they hold in truth, and what a stale plugin answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from devcluster.client import Api
from devcluster.fleet import claims
from devcluster.fleet.bay import Driver, Held
from devcluster.fleet.claims import ClaimLife, has_claims
from devcluster.fleet.journal import Journal
from devcluster.fleet.knobs import Dials, Knobs
from devcluster.fleet.life import Place
from devcluster.fleet.node import Node
from devcluster.fleet.slices import Slices
from devcluster.happening import Happening, encode
from devcluster.truth import Truth


def _claim(t: float, event: str, pod: str, load: int = 0, node: str = "gpu-0") -> str:
    return encode(event, node, t, stack="gpu", load=load, uid=f"{pod}-uid", pod=pod, namespace="team")


def test_a_pod_holds_the_files_of_the_driver_that_its_claims_were_prepared_with() -> None:
    """They stay until the pod is gone, whatever is loaded meanwhile; an answer of a fresh plugin is right."""
    lines = [
        encode("driver-loaded", "gpu-0", 1.0, stack="gpu", load=1, version="580.1.2"),
        encode("driver-loaded", "gpu-1", 1.0, stack="gpu", load=1, version="580.1.2"),
        _claim(2, "claim-prepared", "before", 1),
        _claim(2, "claim-prepared", "gone", 1),
        _claim(2, "claim-prepared", "elsewhere", 1, "gpu-1"),
        encode("driver-loaded", "gpu-0", 3.0, stack="gpu", load=2, version="580.2.3"),
        _claim(4, "claim-prepared", "stale", 1),
        _claim(5, "claim-prepared", "healthy", 2),
        _claim(6, "claim-released", "gone"),
    ]
    truth = Truth.of(lines)
    assert truth.holding_old_files() == ("team/before", "team/stale")
    assert truth.nodes == ("gpu-0", "gpu-1")


class _Statuses:
    """An API that keeps the statuses that a kubelet writes."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []

    async def patch(self, _path: str, body: dict[str, Any]) -> None:
        """Keep a status."""
        self.written.append(body["status"])


def _conditions(status: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status["conditions"]}


async def _lived(node: Node, knobs: Knobs, repair: Held | None = None) -> list[dict[str, Any]]:
    """Let a pod with a claim live on a node; a fresh plugin replaces the stale one after its first failure."""
    api = _Statuses()
    place = Place(cast("Api", api), Dials(knobs), node, cast("Slices", None), lambda _driver: True)
    pod = {
        "metadata": {"name": "train", "namespace": "team", "uid": "train-uid"},
        "spec": {"containers": [{"name": "main", "image": "i"}], "resourceClaims": [{"name": "gpu"}]},
    }
    assert has_claims(pod)
    life = asyncio.create_task(ClaimLife(place, pod).live())
    if repair is not None:
        while len(api.written) < 2:  # noqa: ASYNC110 - the life under test knows no event
            await asyncio.sleep(0)
        node.gpu.hold("plugin", repair)
    await life
    return api.written


def test_a_stale_plugin_prepares_wrong_files_then_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As measured with the real one: success for five minutes, then an error until a fresh plugin succeeds."""
    monkeypatch.setattr(claims, "RETRY_SECONDS", 0.0)
    stale, fresh = Held(1, "580.1.2", "gpu.nvidia.com"), Held(2, "580.2.3", "gpu.nvidia.com")
    for number, (success, held, repair, version) in enumerate((
        (300.0, fresh, None, "580.2.3"),
        (300.0, stale, None, "580.1.2"),
        (0.0, stale, fresh, "580.2.3"),
    )):  # fmt: skip
        file = tmp_path / f"{number}.jsonl"
        with Journal(file) as journal:
            node = Node("gpu-0", "uid", journal)
            node.gpu.loaded = Driver(2, "580.2.3", "")
            node.gpu.hold("plugin", held)
            knobs = Knobs(pod_start_seconds=0.0, stale_success_seconds=success)
            written = asyncio.run(_lived(node, knobs, repair))
        (prepared,) = map(Happening.parse, file.read_text().splitlines(keepends=True))
        assert (prepared.event, prepared.pod, prepared.version) == ("claim-prepared", "train", version)
        assert (_conditions(written[0])["PodReadyToStartContainers"], written[-1]["phase"]) == ("False", "Running")
        assert _conditions(written[-1])["PodReadyToStartContainers"] == "True"
        waiting = [status["containerStatuses"][0]["state"].get("waiting", {}) for status in written]
        assert any("empty device edits" in state.get("message", "") for state in waiting) is (repair is not None)
