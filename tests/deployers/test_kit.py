"""examples/aicr where AICR's KWOK lanes deploy it: tainted nodes, no GPU operator, 300 seconds."""

from __future__ import annotations

import json
from typing import Final

import pytest

from devcluster.boot.layout import SYSTEM_NODE
from tests.bundler.kit import KIT, NAME, scheduling
from tests.deployers.bench import booted
from tests.deployers.bundles import healthy
from tests.e2e.lab import CHART, IMAGE, NAMESPACE, Lab

LANE_SECONDS: Final = 300
"""The time that AICR's lanes have for all components (KWOK_ARGOCD_SYNC_TIMEOUT). Helm fails when it is over."""
TAINT: Final = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}


def _install(lab: Lab, values: str, *more: str) -> None:
    """Install with values of the kit and the flags that AICR's lanes set."""
    given = {**scheduling({"kubernetes.io/hostname": SYSTEM_NODE}, [TAINT]), "image.repository": IMAGE}
    lab.cluster.helm(
        "upgrade", "--install", NAME, CHART, "-n", NAMESPACE, "--create-namespace", "--wait", "--wait-for-jobs",
        f"--timeout={LANE_SECONDS}s", f"--values={KIT / 'components' / NAME / values}", *more,
        *(f"--set-json={path}={json.dumps(value)}" for path, value in given.items()),
    )  # fmt: skip


def test_kwok_lane(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The Job ends well, in time, on a node whose taint only the flags tolerate; the controller does as well there.

    The health check passes for each, and not before the first.
    """
    with booted(tmp_path_factory, "test_kit") as cluster:
        lab = Lab(cluster)
        cluster.patch(f"/api/v1/nodes/{SYSTEM_NODE}", {"spec": {"taints": [TAINT]}})
        assert not healthy(cluster, 1)
        for number, reason in enumerate(("NoPlugin", "NoPolicy")):
            _install(lab, "values.yaml", f"--set=trigger=v{number}")
            assert healthy(cluster, 1)
            status = cluster.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}-status")["data"]
            assert (status["phase"], status["reason"]) == ("Skipped", reason)
            lab.plugin()
        jobs = cluster.list(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
        assert [each["status"].get("succeeded") for each in jobs] == [1]
        cluster.helm("uninstall", NAME, "-n", NAMESPACE)
        _install(lab, "values-controller.yaml")
        assert healthy(cluster, LANE_SECONDS)
