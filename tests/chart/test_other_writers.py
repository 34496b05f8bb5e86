"""Objects that others write, too: nothing that the chart renders is theirs, so applying it again never conflicts.

Helm 4 and Flux apply on the server: a field of another owner with another value fails the upgrade. Helm 3 sets it back.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Final

from tests.chart.rendering import Helm, Object, pod_of
from tests.chart.test_golden import FILES, VARIANTS

OTHERS: Final[dict[str, tuple[str, ...]]] = {
    "Job": ("spec.suspend", "spec.selector", "spec.manualSelector", "spec.template.spec.schedulingGates"),
    "Deployment": ("spec.paused",),
    "ServiceAccount": ("secrets", "imagePullSecrets"),
    "ClusterRole": ("aggregationRule",),
    "ConfigMap": ("data.phase", "data.updatedAt"),
}
"""Kind -> fields that others write: queues and the Job controller; kubectl; OpenShift; Kubernetes; our own program."""
SYSTEM: Final = frozenset({
    "creationTimestamp", "deletionTimestamp", "finalizers", "generateName", "generation", "managedFields",
    "ownerReferences", "resourceVersion", "selfLink", "uid",
})  # fmt: skip
"""Fields of any metadata that controllers and the API server write."""
RESERVED: Final = (
    "kubectl.kubernetes.io/",
    "deployment.kubernetes.io/",
    "batch.kubernetes.io/",
    "meta.helm.sh/",
    "openshift.io/",
)
"""Prefixes of labels and annotations that controllers and tools write."""
ANYWHERE: Final = frozenset({"caBundle", "nodeName", "status"})
"""Fields at any depth: certificate injectors, the scheduler, controllers."""
UNCHANGEABLE: Final = frozenset({"Pod"})
"""Kinds of which an object cannot be applied again with another image or setting."""


def _has(item: Object, path: str) -> bool:
    *parents, last = path.split(".")
    return last in reduce(lambda found, key: found.get(key) or {}, parents, item)


def _nested(found: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each key at any depth, with the path to it."""
    items = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for key, value in items:
        yield str(key), f"{path}.{key}"
        yield from _nested(value, f"{path}.{key}")


def _foreign(item: Object) -> Iterator[str]:
    """Yield each field of an object that another writer owns."""
    yield from (path for path in OTHERS.get(item["kind"], ()) if _has(item, path))
    yield from (f"metadata.{key}" for key in SYSTEM & item["metadata"].keys())
    for key, path in _nested({key: value for key, value in item.items() if key != "data"}):
        if key in ANYWHERE or key.startswith(RESERVED):
            yield path.removeprefix(".")


def test_no_rendered_field_belongs_to_another_controller(helm: Helm) -> None:
    """In all variants: an upgrade takes nothing away and never conflicts. The pods carry the pull secrets."""
    options = [*VARIANTS.values(), *((f"--values={file}",) for file in FILES)]
    rendered = [item for given in options for item in helm.render({}, *given).objects]
    assert {"ServiceAccount", "Deployment", "Job", "ConfigMap"} < {item["kind"] for item in rendered}
    assert sorted({f"{item['kind']}: {field}" for item in rendered for field in _foreign(item)}) == []
    secrets = {"imagePullSecrets": ["one"], "controller.enabled": True}
    found = helm.render(secrets)
    for workload in (found.job, found.controller):
        assert pod_of(workload)["imagePullSecrets"] == [{"name": "one"}]


def test_all_of_it_can_be_applied_again(helm: Helm) -> None:
    """`helm template | kubectl apply` works again: no Pod, no hook but the Job, and each plain Job has its own name."""
    for given in VARIANTS.values():
        objects = helm.render({}, *given).objects
        assert [item["kind"] for item in objects if item["kind"] in UNCHANGEABLE] == []
        hooks = [item for item in objects if "helm.sh/hook" in item["metadata"].get("annotations", {})]
        assert {item["kind"] for item in hooks} <= {"Job"}
    first, second = (helm.render({"hook.enabled": False, "image.tag": tag}).job["metadata"]["name"] for tag in "ab")
    assert first != second
