"""`make try`: what it asks of the machine, and that its kind cluster goes. Docker and kind are scripts here."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster.demo import kind
from devcluster.demo.simulated import DemoError
from tests.simulator.test_binaries import script


def test_what_the_machine_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker or kind missing, Docker not answering, a cluster of that name: each is one sentence."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "docker is not in PATH" in kind.why_not()
    for program, lines, expected in (
        ("docker", "echo no daemon >&2; exit 1", "kind is not in PATH"),
        ("kind", f"echo other {kind.CLUSTER}", "Docker does not answer: no daemon"),
        ("docker", "exit 0", f"kind delete cluster --name {kind.CLUSTER}"),
        ("kind", "echo other", ""),
    ):
        script(tmp_path / program, lines)
        assert expected in kind.why_not()


def test_the_cluster_is_deleted_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where creating it failed half-way."""
    script(tmp_path / "kind", f'echo "$1" >>{tmp_path}/log; [ "$1" != create ]')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(DemoError, match="kind create cluster"), kind.cluster(tmp_path / "kubeconfig", "image"):
        raise AssertionError("the cluster is not there")
    assert (tmp_path / "log").read_text().split() == ["create", "delete"]
