"""Namespaces full of pods, and accounts of our chart that try commands on them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from devcluster.boot.cluster import Cluster
from devcluster.client import Object, path
from devcluster.commands import Result
from tests.chart.rendering import Helm, Values
from tests.client.server import until

PLUGIN: Final = "dra-driver-nvidia-gpu-kubelet-plugin"
DRA: Final = "dra"
OTHER: Final = "other"
ALONE: Final = "alone"
HOME: Final = "gpu-operator"
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
RBAC: Final = "rbac.authorization.k8s.io"
DRY: Final = "--dry-run=server"


@dataclass(frozen=True, slots=True)
class Account:
    """A ServiceAccount of the chart, or the administrator if it has no name. It runs kubectl; nothing is kept."""

    cluster: Cluster
    name: str = ""

    def try_to(self, command: str, body: object = None) -> Result:
        """Run a command of kubectl, with an object as its standard input. A raw path has its own dry run."""
        identity = [f"--as=system:serviceaccount:{HOME}:{self.name}"] if self.name else []
        dry = [] if "--raw" in command else [DRY]
        text = None if body is None else json.dumps(body)
        return self.cluster.kubectl(*identity, *shlex.split(command), *dry, check=False, text=text)


def accepted(result: Result) -> bool:
    """Whether the command did something."""
    return result.returncode == 0 and "No resources found" not in result.stderr


def denied(result: Result) -> bool:
    """Whether an admission policy refused it, and not because its expression failed: that is no Forbidden."""
    return "Forbidden" in result.stderr and "ValidatingAdmissionPolicy" in result.stderr


def install(cluster: Cluster, name: str, values: Values) -> Account:
    """Apply the chart without its workloads, and return the Job's account."""
    rendered = Helm(cluster.binary("helm4")).render({"fullnameOverride": name, **values})
    apply(cluster, [item for item in rendered.objects if item["kind"] not in {"Job", "Deployment"}])
    return Account(cluster, name)


def grant(cluster: Cluster, accounts: Iterable[Account], **verbs: list[str]) -> None:
    """Grant rights in addition to the chart, by resource: what is refused now is refused by the admission policy."""
    names = [account.name for account in accounts]
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"more-{names[0]}"}
    common = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": role["name"]}}
    groups = ["", "coordination.k8s.io", "resource.k8s.io"]
    rules = [{"apiGroups": groups, "resources": [key.replace("_", "/")], "verbs": verbs[key]} for key in verbs]
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": HOME} for name in names]
    binding = {**common, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": subjects}
    apply(cluster, [{**common, "kind": "ClusterRole", "rules": rules}, binding])


def apply(cluster: Cluster, items: Iterable[Object]) -> None:
    """Create objects, as an administrator does."""
    cluster.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": [*items]}))


def scene() -> list[Object]:
    """Return plugins and driver clients, what looks like one, and what does not; each has a label `scene`."""
    exporter = _workload("exporter", OTHER, "exporter")
    # As some vendors set it: to delete such a pod is not to force it.
    exporter["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    bare = {"name": "bare", "namespace": OTHER, "labels": {"tier": "profiling", "scene": "bare"}}
    client = {"tier": "profiling"}
    return [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each}} for each in (DRA, OTHER, ALONE, HOME)),
        _workload("plugin", DRA, PLUGIN),
        _workload("innocent", DRA, "innocent"),
        _workload("exporters-namesake", DRA, "exporter"),
        _workload("namesake", OTHER, PLUGIN),
        _workload("replicaset", OTHER, PLUGIN, kind="ReplicaSet"),
        exporter,
        _workload("profiler", OTHER, "profiler", **client),
        _workload("driver", OTHER, "driver", **client, **{"app.kubernetes.io/component": "nvidia-driver"}),
        _workload("relabelled", OTHER, "relabelled", container="nvidia-driver-ctr", **client),
        _workload("ofed", OTHER, "ofed", **client, **{"nvidia.com/ofed-driver": ""}),
        _workload("toolkit", OTHER, "toolkit", **client, app="nvidia-container-toolkit-daemonset"),
        _workload("alone", ALONE, PLUGIN),
        {"apiVersion": "v1", "kind": "Pod", "metadata": bare, "spec": _pod("main")},
    ]


def _workload(
    scene: str, namespace: str, name: str, *, kind: str = "DaemonSet", container: str = "main", **labels: str
) -> Object:
    """Describe a workload of one pod."""
    labels = {"scene": scene, **labels}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod(container)},
        },
    }


def _pod(container: str) -> Object:
    return {"containers": [{"name": container, "image": "example.invalid/nothing:1"}]}


def wait_for_pods(cluster: Cluster) -> None:
    """Wait until each pod has a node: before, the API server deletes it at once, and so by force."""
    pods = path("v1", "pods")

    def placed() -> bool:
        found = [pod for pod in cluster.list(pods) if "scene" in pod["metadata"].get("labels", {})]
        return len(found) == sum("spec" in item for item in scene()) and all(
            pod["spec"].get("nodeName") for pod in found
        )

    until(placed, "each pod has a node")


def pod_of(cluster: Cluster, name: str) -> Object:
    """Return the pod of a part of the scene."""
    (found,) = (pod for pod in cluster.list(path("v1", "pods"), labelSelector=f"scene={name}"))
    return found


def assert_no_warnings(cluster: Cluster, accounts: Iterable[Account], *more: str) -> None:
    """Wait until the API server has checked the types of every expression, and accept no warning."""
    wanted = {f"{HOME}.{account.name}.{part}" for account in accounts for part in ("pods", "events", "own", *more)}

    def statuses() -> list[Object]:
        return [item.get("status", {}) for item in cluster.list(POLICIES) if item["metadata"]["name"] in wanted]

    until(lambda: sum("typeChecking" in status for status in statuses()) == len(wanted), "the types are checked")
    assert [status["typeChecking"].get("expressionWarnings", []) for status in statuses()] == [[]] * len(wanted)
