"""What the tests do to a simulated operator."""

from __future__ import annotations

from devcluster.boot.cluster import Cluster


def end_lingering(cluster: Cluster) -> None:
    """End each operator that lingers after its pod was deleted (``simulate.oldOperatorLingers``)."""
    pods = "/api/v1/namespaces/gpu-operator/pods"
    for pod in cluster.list(pods, labelSelector="app.kubernetes.io/component=gpu-operator"):
        if "deletionTimestamp" in pod["metadata"]:
            cluster.delete(f"{pods}/{pod['metadata']['name']}", {"gracePeriodSeconds": 1})
