"""An admission controller that suspends Jobs, as Kueue does with `manageJobsWithoutQueueName`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from devcluster.cluster import Cluster
from tests.chart.cluster.scene import apply
from tests.chart.rendering import CHART, Object
from tests.e2e.lab import IMAGE

NAMESPACE: Final = "suspended"
RELEASE: Final = "suspended"
LABEL: Final = "kueue.x-k8s.io/queue-name"
NAME: Final = "suspend-jobs"
JOB: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{RELEASE}-gpu-operator-post"


def _policy() -> list[Object]:
    """Return what suspends each new Job of the namespace that no queue is named for."""
    common = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": NAME}}
    jobs = {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["CREATE"]}
    unnamed = f"request.namespace == '{NAMESPACE}' && !('{LABEL}' in object.metadata.?labels.orValue({{}}))"
    suspends = "Object{spec: Object.spec{suspend: true}}"
    spec: dict[str, Any] = {
        "matchConstraints": {"resourceRules": [jobs]},
        "matchConditions": [{"name": "unnamed", "expression": unnamed}],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": suspends}}],
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
    }
    return [
        {**common, "kind": "MutatingAdmissionPolicy", "spec": spec},
        {**common, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": NAME}},
    ]


@pytest.fixture
def queued(cluster: Cluster) -> Iterator[Cluster]:
    """Suspend Jobs in one namespace, once that is in effect."""
    cluster.kubectl("create", "namespace", NAMESPACE)
    apply(cluster, _policy())
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": IMAGE}]}}
    probe = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "probe"}, "spec": {"template": template}}

    def in_effect() -> bool:
        said = cluster.kubectl(
            "-n", NAMESPACE, "create", "-f", "-", "--dry-run=server", "-o=json", text=json.dumps(probe)
        )
        return bool(json.loads(said.stdout)["spec"].get("suspend"))

    cluster.wait_until("new Jobs are suspended", in_effect)
    yield cluster
    for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
        cluster.kubectl("delete", kind, NAME)
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.mark.e2e
def test_a_suspended_job_starts_once_it_has_the_label(queued: Cluster) -> None:
    """Without the label it has no pod and no time counts, so it never ends. `jobLabels` lets the next one start."""
    deploy = ("upgrade", "--install", RELEASE, str(CHART), "-n", NAMESPACE, f"--set=image.repository={IMAGE}")
    assert queued.helm(*deploy, "--timeout=5s", check=False).returncode != 0
    status = queued.get(JOB)["status"]
    assert [each["type"] for each in status["conditions"] if each["status"] == "True"] == ["Suspended"]
    assert "startTime" not in status
    assert queued.list(f"/api/v1/namespaces/{NAMESPACE}/pods") == []
    labels = f"--set-json=jobLabels={json.dumps({LABEL: 'some-queue'})}"
    queued.helm(*deploy, "--timeout=2m", labels, "--set=hook.deletePolicy=before-hook-creation")
    assert queued.get(JOB)["status"]["succeeded"] == 1
