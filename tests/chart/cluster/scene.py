"""A namespace full of pods, and accounts of our chart with their own tokens, to try the admission policy on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from devcluster.access import Access, ApiError
from devcluster.client import MERGE_PATCH, Api, Object, path
from devcluster.cluster import Cluster
from hook.kube.events import COMPONENT
from tests.chart.rendering import Helm, Values
from tests.client.server import until

PLUGIN: Final = "dra-driver-nvidia-gpu-kubelet-plugin"
DRA: Final = "nvidia-dra-driver-gpu"
OTHER: Final = "other"
ALONE: Final = "alone"
HOME: Final = "gpu-operator"
NAMESPACES: Final = (DRA, OTHER, ALONE, HOME)
SOURCES: Final = ("driver", "relabelled", "ofed", "toolkit")
"""DaemonSets that load drivers: they are never restarted, also with the labels of a driver client."""
MORE: Final = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete", "deletecollection"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
)
"""Rights that the chart does not grant, or not to all: what is refused anyway is refused by the admission policy."""
PARTS: Final = ("pods", "events", "own")
"""The subject of each policy."""
GROUP: Final = "admissionregistration.k8s.io/v1"
RBAC: Final = "rbac.authorization.k8s.io"
EVENTS: Final = path("v1", "events", namespace=DRA)
OWN: Final = {"source": {"component": COMPONENT}, "reportingComponent": COMPONENT}


@dataclass(frozen=True, slots=True)
class Answer:
    """The API server's answer to a request."""

    code: int
    message: str = ""

    @property
    def denied(self) -> bool:
        """Whether an admission policy refused it, and not because of an error: that is code 422."""
        return self.code == 403 and "ValidatingAdmissionPolicy" in self.message


@dataclass(frozen=True, slots=True)
class Account:
    """An account with a token, which tries requests; nothing is kept unless `really`."""

    cluster: Cluster
    token: str

    def delete(self, url_path: str, *, really: bool = False, **more: object) -> Answer:
        """Delete an object, or a collection, with further options."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": [] if really else ["All"], **more}
        return self._try("DELETE", url_path, options, really=really)

    def delete_by_query(self, url_path: str, query: str) -> Answer:
        """Delete an object with its options in the address, where the API server reads them too."""
        return self._try("DELETE", f"{url_path}?{query}", None)

    def evict(self, pod: str) -> Answer:
        """Request an eviction of the pod at a path."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.rpartition("/")[2]}}
        return self._try("POST", f"{pod}/eviction", body)

    def get(self, url_path: str) -> Answer:
        """Read an object."""
        return self._try("GET", url_path, None, really=True)

    def create(self, url_path: str, body: Object, *, really: bool = False) -> Answer:
        """Create an object; one that an earlier try of a test has created is kept."""
        answer = self._try("POST", url_path, body, really=really)
        return Answer(200) if really and answer.code == 409 else answer

    def patch(self, url_path: str, body: Object, *, really: bool = False) -> Answer:
        """Merge a patch into an object."""
        return self._try("PATCH", url_path, body, really=really)

    def _try(self, method: str, url_path: str, body: Object | None, *, really: bool = False) -> Answer:
        access = replace(Access.from_kubeconfig(self.cluster.kubeconfig), token=self.token)
        params = {} if really else {"dryRun": "All"}
        content_type = MERGE_PATCH if method == "PATCH" else "application/json"

        async def ask(_: Api) -> None:
            async with Api(access) as api:
                await api.request(method, url_path, body=body, params=params, content_type=content_type)

        try:
            self.cluster.run(ask)
        except ApiError as error:
            return Answer(error.code, error.message)
        return Answer(200)


def administrator(cluster: Cluster) -> Account:
    """Return an account that may do everything."""
    token = Access.from_kubeconfig(cluster.kubeconfig).token
    assert token
    return Account(cluster, token)


def account_of_chart(cluster: Cluster, name: str, values: Values, more: Sequence[Object] = ()) -> Account:
    """Apply the chart without its workloads, and act as the Job's account, with further rights from elsewhere."""
    rendered = Helm(cluster.binary("helm4")).render({"fullnameOverride": name, **values})
    apply(cluster, [item for item in rendered.objects if item["kind"] not in {"Job", "Deployment"}])
    return acting_as(cluster, name, more)


def acting_as(cluster: Cluster, name: str, more: Sequence[Object] = ()) -> Account:
    """Act as a ServiceAccount of the chart, with further rights from elsewhere."""
    if more:
        role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"more-{name}"}
        common = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": role["name"]}}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": HOME}
        binding = {**common, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]}
        apply(cluster, [{**common, "kind": "ClusterRole", "rules": list(more)}, binding])
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = cluster.create(path("v1", "serviceaccounts", namespace=HOME, name=name, subresource="token"), request)
    return Account(cluster, str(answer["status"]["token"]))


def apply(cluster: Cluster, items: Iterable[Object]) -> None:
    """Create objects, as an administrator does."""
    manifest = {"apiVersion": "v1", "kind": "List", "items": list(items)}
    cluster.kubectl("apply", "-f", "-", text=json.dumps(manifest))


def scene() -> list[Object]:
    """Return plugins and driver clients, what looks like one, and what does not."""
    exporter = _workload("DaemonSet", OTHER, "exporter")
    bare = {"name": "bare", "namespace": OTHER, "labels": {"tier": "profiling"}}
    # As some vendors set it: to delete such a pod is not to force it.
    exporter["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    return [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES),
        *(_workload("DaemonSet", namespace, PLUGIN) for namespace in (DRA, OTHER, ALONE)),
        _workload("DaemonSet", DRA, "innocent"),
        _workload("DaemonSet", DRA, "exporter"),
        exporter,
        _workload("DaemonSet", OTHER, "profiler", tier="profiling"),
        _workload("DaemonSet", OTHER, "driver", tier="profiling", **{"app.kubernetes.io/component": "nvidia-driver"}),
        _workload("DaemonSet", OTHER, "relabelled", "nvidia-driver-ctr", tier="profiling"),
        _workload("DaemonSet", OTHER, "ofed", tier="profiling", **{"nvidia.com/ofed-driver": ""}),
        _workload("DaemonSet", OTHER, "toolkit", tier="profiling", app="nvidia-container-toolkit-daemonset"),
        _workload("ReplicaSet", OTHER, PLUGIN),
        {"apiVersion": "v1", "kind": "Pod", "metadata": bare, "spec": _pod("main")},
    ]


def _workload(kind: str, namespace: str, name: str, container: str = "main", **labels: str) -> Object:
    """Describe a workload of one pod, with labels of its own."""
    labels = {"workload": f"{kind}-{name}", **labels}
    template = {"metadata": {"labels": labels, "annotations": {"checksum/config": "1"}}, "spec": _pod(container)}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def _pod(container: str) -> Object:
    return {"containers": [{"name": container, "image": "example.invalid/nothing:1"}], "restartPolicy": "Always"}


def pod_of(cluster: Cluster, namespace: str, name: str, kind: str = "DaemonSet") -> str:
    """Return the path of a workload's pod, once there is one."""
    pods: list[str] = []

    def found() -> bool:
        items = cluster.list(path("v1", "pods", namespace=namespace), labelSelector=f"workload={kind}-{name}")
        pods[:] = sorted(str(pod["metadata"]["name"]) for pod in items)
        return bool(pods)

    until(found, f"{kind} {namespace}/{name} has a pod")
    return path("v1", "pods", namespace=namespace, name=pods[0])


def scheduled(cluster: Cluster, namespace: str, name: str) -> str:
    """Return the path of a DaemonSet's pod that has a node: before, the API server deletes it at once."""
    pod = pod_of(cluster, namespace, name)
    until(lambda: bool(cluster.get(pod)["spec"].get("nodeName")), f"{pod} has a node")
    return pod


def in_effect(account: Account, pod: str) -> None:
    """Wait until the policy for pods denies."""
    until(lambda: account.delete(pod).denied, "the policy for pods is in effect")


def as_it_is(cluster: Cluster, pod: str) -> dict[str, str]:
    """Return the preconditions with which the program deletes this very pod."""
    metadata = cluster.get(pod)["metadata"]
    return {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}


def daemonset(namespace: str, name: str) -> str:
    """Return the path of a DaemonSet."""
    return path("apps/v1", "daemonsets", namespace=namespace, name=name)


def event(name: str, kind: str = "DaemonSet", **more: object) -> dict[str, Any]:
    """Describe an event as the program writes it."""
    about = {"kind": kind, "name": PLUGIN, "namespace": DRA}
    return {"metadata": {"name": name, "namespace": DRA}, "involvedObject": about, "reason": "Test", **OWN, **more}


def assert_answers(subtests: pytest.Subtests, allowed: dict[str, Answer], denied: dict[str, Answer]) -> None:
    """Assert each answer: a refusal must be that of the admission policy."""
    for what, answer in allowed.items():
        with subtests.test(f"allowed: {what}"):
            assert answer.code == 200, answer.message
    for what, answer in denied.items():
        with subtests.test(f"denied: {what}"):
            assert answer.denied, answer


def assert_no_warnings(cluster: Cluster, names: list[str]) -> None:
    """Wait until the API server has checked the types of every expression, and accept no warning."""
    wanted = {f"{HOME}.{name}.{part}" for name in names for part in PARTS}

    def statuses() -> list[dict[str, Any]]:
        items = cluster.list(path(GROUP, "validatingadmissionpolicies"))
        return [item.get("status", {}) for item in items if item["metadata"]["name"] in wanted]

    until(lambda: sum("typeChecking" in status for status in statuses()) == len(wanted), "the types are checked")
    assert [status["typeChecking"].get("expressionWarnings", []) for status in statuses()] == [[]] * len(wanted)
