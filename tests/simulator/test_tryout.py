"""The demo on a kind cluster: what it asks of the machine, and what it calls Helm with. No Docker or kind is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster import tryout

if TYPE_CHECKING:
    import pytest

IMAGE = "localhost:5000/gpu-operator-post:dev"


def test_what_the_machine_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker or kind missing, Docker not answering, a cluster of that name: each is one sentence."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for program, script, expected in (
        (None, "", "docker is not in PATH"),
        ("docker", "echo no daemon >&2; exit 1", "kind is not in PATH"),
        ("kind", "echo other gpu-operator-post-try", "Docker does not answer: no daemon"),
        ("docker", "exit 0", "kind delete cluster --name gpu-operator-post-try"),
        ("kind", "echo other", None),
    ):
        if program is not None:
            (tmp_path / program).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / program).chmod(0o755)
        reason = tryout.why_not()
        assert (reason is None) if expected is None else (reason is not None and expected in reason), expected
    done = subprocess.run(
        [sys.executable, "-m", "devcluster.tryout", "--check", f"--image={IMAGE}"],
        cwd=Path(__file__).parents[2],
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("make try: docker is not in PATH")


def test_the_cluster_is_deleted_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where creating it failed half-way."""
    log = tmp_path / "log"
    (tmp_path / "kind").write_text(f'#!/bin/sh\necho "$1" >>{log}\n[ "$1" != create ]\n')
    (tmp_path / "kind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    failed = None
    try:
        with tryout.kind_cluster(tmp_path / "kubeconfig"):
            raise AssertionError("the cluster is not there")
    except tryout.TryError as error:
        failed = str(error)
    assert failed is not None
    assert "kind create cluster" in failed
    assert log.read_text().split() == ["create", "delete"]
