"""Reducing a recording keeps what the core reads, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.replay.recording import FOLDER
from tests.replay.reduce import main

if TYPE_CHECKING:
    from pathlib import Path

POLICY = {"gen": 1, "state": "ready", "cond": {"Ready": []}, "driver": "1.2", "chart": "c-1", "auto": True}
NODE = {
    "up": "upgrade-done", "skip": None, "cordon": False, "ann": {}, "owner": None, "present": "true",
    "deploy": {"driver": "true", "dcgm": "true", "device-plugin": "paused-for-driver-upgrade"},
}  # fmt: skip
KEPT_NODE = {"up": "upgrade-done", "skip": None, "present": "true",
             "deploy": {"driver": "true", "device-plugin": "paused-for-driver-upgrade"}}  # fmt: skip
VALIDATOR = {"comp": None, "owner": "x"}


def line(t: float, kind: str, name: str, view: object, op: str = "MODIFIED") -> dict[str, Any]:
    """Give a line of a recording."""
    return {"t": t, "ts": "ignored", "kind": kind, "name": name, "op": op, "v": view}


def test_a_recording_is_reduced(tmp_path: Path) -> None:
    """Times become seconds since its start; what does not matter, or changes nothing, is dropped.

    A generation that moves tells when the spec was written; what the operator reports moves no such time.
    """
    reported = {"gen": 2, "state": "notReady"}
    lines = [
        line(1000.0, "clusterpolicy", "p", POLICY, "LIST"),
        line(1000.5, "node", "gpu-0", NODE, "LIST"),
        line(1000.6, "node", "sys-0", NODE, "LIST"),
        line(1001.0, "clusterpolicy", "p", {**POLICY, "cond": {"Ready": ["moved"]}}),
        line(1002.0, "clusterpolicy", "p", {**POLICY, "gen": 2}),
        line(1002.5, "clusterpolicy", "p", {**POLICY, **reported}),
        line(1003.0, "pod", "validator-x", VALIDATOR),
        line(1003.5, "pod", "validator-x", None, "DELETED"),
        line(1004.0, "job", "upgrade-crd", {"active": 1}),
        line(1005.0, "clusterpolicy", "p", None, "DELETED"),
    ]
    source, target = tmp_path / "whole.jsonl", tmp_path / "reduced.jsonl"
    source.write_text("".join(json.dumps(one) + "\n" for one in lines))
    main(str(source), str(target))
    kept = {key: POLICY[key] for key in ("gen", "state", "driver", "chart", "auto")}
    expected = [
        {"start": 1000.0},
        {"t": 0.0, "op": "LIST", "kind": "clusterpolicy", "name": "p", "v": {**kept, "written": None}},
        {"t": 0.5, "op": "LIST", "kind": "node", "name": "gpu-0", "v": KEPT_NODE},
        {"t": 2.0, "op": "MODIFIED", "kind": "clusterpolicy", "name": "p", "v": {**kept, "gen": 2, "written": 2.0}},
        {"t": 2.5, "op": "MODIFIED", "kind": "clusterpolicy", "name": "p", "v": {**kept, **reported, "written": 2.0}},
        {"t": 5.0, "op": "DELETED", "kind": "clusterpolicy", "name": "p", "v": None},
    ]
    assert expected == [json.loads(one) for one in target.read_text().splitlines()]


def test_every_fixture_is_small() -> None:
    """A recording that was copied whole would be several times as large."""
    sizes = {path.name: path.stat().st_size for path in FOLDER.glob("*.jsonl")}
    assert sizes
    assert {} == {name: size for name, size in sizes.items() if size >= 50_000}
