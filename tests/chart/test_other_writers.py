"""Objects that others write, too: nothing that the chart renders is theirs, so applying it again never conflicts.

Helm 4 and Flux apply on the server: a field of another owner with another value fails the upgrade. Helm 3 sets it back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.chart.rendering import Helm
from tests.chart.test_golden import VARIANTS

OTHERS: Final = {
    "Job": {"suspend", "selector", "manualSelector"},
    "Deployment": {"paused"},
    "ServiceAccount": {"secrets", "imagePullSecrets"},
    "ClusterRole": {"aggregationRule"},
    "ConfigMap": {"phase", "updatedAt"},
}
"""Keys, in the object, its spec or its data, that queues, kubectl, OpenShift, Kubernetes and our own program write."""
ANYWHERE: Final = frozenset({
    "caBundle", "creationTimestamp", "finalizers", "generateName", "managedFields", "nodeName", "ownerReferences",
    "resourceVersion", "schedulingGates", "status", "uid",
})  # fmt: skip
"""Fields of certificate injectors, the scheduler, controllers and the API server."""
RESERVED: Final = ("batch.kubernetes.io/", "deployment.kubernetes.io/", "kubectl.kubernetes.io/", "meta.helm.sh/")
"""Prefixes of labels and annotations that controllers and tools write."""


def _keys(found: object) -> Iterator[str]:
    """Yield each key at any depth."""
    if isinstance(found, dict):
        yield from found
    for below in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from _keys(below)


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_rendered_field_belongs_to_another_writer(helm: Helm, variant: str) -> None:
    """An upgrade takes nothing away and never conflicts. No object but the Job is a hook, and none is a bare pod."""
    for item in helm.render({}, *VARIANTS[variant]).objects:
        kind, name = item["kind"], item["metadata"]["name"]
        own = item.keys() | item.get("spec", {}).keys() | item.get("data", {}).keys()
        assert not own & OTHERS.get(kind, set()), f"{kind} {name}"
        assert not [key for key in _keys(item) if key in ANYWHERE or key.startswith(RESERVED)], f"{kind} {name}"
        assert kind != "Pod"
        assert kind == "Job" or "helm.sh/hook" not in item["metadata"].get("annotations", {}), f"{kind} {name}"
