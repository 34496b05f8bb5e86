"""Pods with claims: whose files they hold in truth, and what a stale plugin answers."""

from __future__ import annotations

from devcluster.happening import encode
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
