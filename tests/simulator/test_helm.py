"""Helm on the cluster: its verdict over a hook is the verdict of a process that really ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.cluster import Cluster


HOOK = """
apiVersion: batch/v1
kind: Job
metadata:
  name: hook
  annotations:
    helm.sh/hook: post-install,post-upgrade
    helm.sh/hook-delete-policy: before-hook-creation
    helm.sh/hook-output-log-policy: hook-succeeded,hook-failed
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: hook
          image: test/probe:1
          args: ["print=the hook speaks", "exit={{ .Values.code }}"]
"""


@pytest.fixture
def chart(tmp_path: Path) -> str:
    """Write a chart with one hook, whose exit code is a value."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: hooked\nversion: 0.1.0\n")
    (tmp_path / "templates" / "job.yaml").write_text(HOOK)
    return str(tmp_path)


@pytest.mark.parametrize("version", [4, 3])
def test_exit_code_of_a_hook_is_the_verdict_of_helm(cluster: Cluster, namespace: str, chart: str, version: int) -> None:
    """Helm succeeds and fails with the hook's process, and shows the process's own output."""
    good = cluster.helm("install", "good", chart, "-n", namespace, "--set=code=0", version=version)
    assert "the hook speaks" in good.stdout + good.stderr
    bad = cluster.helm("install", "bad", chart, "-n", namespace, "--set=code=124", version=version, check=False)
    assert bad.returncode == 1
    assert "the hook speaks" in bad.stdout + bad.stderr
    (job_pod,) = cluster.list(f"/api/v1/namespaces/{namespace}/pods")
    assert job_pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 124


def test_helm_leaves_no_traces_outside_of_the_state_directory(cluster: Cluster, namespace: str, chart: str) -> None:
    """Homes and caches of Helm and kubectl are the cluster's own."""
    cluster.helm("install", "good", chart, "-n", namespace, "--set=code=0")
    assert (cluster.state / "homes" / "kube").is_dir()
