"""A namespace full of pods, and accounts of our chart with their own tokens, to try the guard on."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from devcluster.access import Access, ApiError
from devcluster.client import MERGE_PATCH, Api, path
from tests.chart.rendering import Helm, Values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from devcluster.client import Object
    from devcluster.cluster import Cluster

PLUGIN: Final = "dra-driver-nvidia-gpu-kubelet-plugin"
DRA: Final = "nvidia-dra-driver-gpu"
OTHER: Final = "other"
SOURCES: Final = ("driver", "relabelled", "ofed", "toolkit")
"""DaemonSets with the labels of a consumer, which nobody may ever restart: consumers start after them."""
ALONE: Final = "alone"
HOME: Final = "gpu-operator"
NAMESPACES: Final = (DRA, OTHER, ALONE, HOME)
REFUSED_BY_GUARD: Final = "ValidatingAdmissionPolicy"
"""What the API server says where RBAC would have allowed it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request."""

    code: int
    message: str = ""

    @property
    def refused_by_guard(self) -> bool:
        """Whether an admission policy said no, and not by mistake: an expression that fails answers 422."""
        return self.code == 403 and REFUSED_BY_GUARD in self.message


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody with a token, who tries things; nothing is kept unless `really`."""

    cluster: Cluster
    token: str

    def delete(self, url_path: str, *, really: bool = False, **more: object) -> Answer:
        """Delete an object, or a collection, with further options."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": [] if really else ["All"], **more}
        return self._try("DELETE", url_path, options, really=really)

    def delete_by_query(self, url_path: str, **options: str) -> Answer:
        """Delete an object with its options in the address, where the API server takes them as well."""
        return self._try("DELETE", url_path, None, query=options)

    def evict(self, namespace: str, pod: str) -> Answer:
        """Ask for an eviction."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        return self._try("POST", path("v1", "pods", namespace=namespace, name=pod, subresource="eviction"), body)

    def get(self, url_path: str) -> Answer:
        """Read an object."""
        return self._try("GET", url_path, None, really=True)

    def create(self, url_path: str, body: Object, *, really: bool = False) -> Answer:
        """Create an object."""
        return self._try("POST", url_path, body, really=really)

    def patch(self, url_path: str, body: Object, *, really: bool = False) -> Answer:
        """Merge a patch into an object."""
        return self._try("PATCH", url_path, body, content_type=MERGE_PATCH, really=really)

    def _try(  # noqa: PLR0913 - a request has so many parts
        self,
        method: str,
        url_path: str,
        body: Object | None,
        *,
        content_type: str = "application/json",
        really: bool = False,
        query: dict[str, str] | None = None,
    ) -> Answer:
        access = replace(Access.from_kubeconfig(self.cluster.kubeconfig), token=self.token)
        params = {**(query or {}), **({} if really else {"dryRun": "All"})}

        async def ask(_: Api) -> None:
            async with Api(access) as api:
                await api.request(method, url_path, body=body, params=params, content_type=content_type)

        try:
            self.cluster.run(ask)
        except ApiError as error:
            return Answer(error.code, error.message)
        return Answer(200)


def administrator(cluster: Cluster) -> Account:
    """Give whoever may do everything."""
    token = Access.from_kubeconfig(cluster.kubeconfig).token
    assert token
    return Account(cluster, token)


def account_of_chart(cluster: Cluster, name: str, values: Values, more: Sequence[Object] = ()) -> Account:
    """Apply all of the chart but who runs, and act as its Job's account, with further rights that others gave."""
    install(cluster, name, values)
    return acting_as(cluster, name, more)


def install(cluster: Cluster, name: str, values: Values) -> None:
    """Apply all of the chart but who runs."""
    rendered = Helm(cluster.binary("helm4")).render({"fullnameOverride": name, **values})
    apply(cluster, [item for item in rendered.objects if item["kind"] not in {"Job", "Deployment"}])


def acting_as(cluster: Cluster, name: str, more: Sequence[Object] = ()) -> Account:
    """Act as a ServiceAccount of the chart, with further rights that others gave."""
    if more:
        apply(cluster, _granted(name, more))
    return Account(cluster, token(cluster, HOME, name))


def with_rights(cluster: Cluster, namespace: str, name: str, rules: Sequence[Object]) -> Account:
    """Create an account that does not belong to the chart, with rights of its own."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{namespace}-{name}"}
    kind, metadata = {"apiVersion": "rbac.authorization.k8s.io/v1"}, {"metadata": {"name": role["name"]}}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
        {**kind, **metadata, "kind": "ClusterRole", "rules": list(rules)},
        {**kind, **metadata, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
    ]
    apply(cluster, objects)
    return Account(cluster, token(cluster, namespace, name))


def token(cluster: Cluster, namespace: str, name: str) -> str:
    """Give a ServiceAccount's token."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = cluster.create(path("v1", "serviceaccounts", namespace=namespace, name=name, subresource="token"), request)
    return str(answer["status"]["token"])


def apply(cluster: Cluster, items: Iterable[Object]) -> None:
    """Create objects, as an administrator does."""
    manifest = {"apiVersion": "v1", "kind": "List", "items": list(items)}
    cluster.kubectl("apply", "-f", "-", text=json.dumps(manifest))


def _granted(name: str, rules: Sequence[Object]) -> Iterable[Object]:
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    yield {**kind, "kind": "ClusterRole", "metadata": {"name": f"more-{name}"}, "rules": rules}
    yield {
        **kind,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"more-{name}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"more-{name}"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": HOME}],
    }


def scene() -> list[Object]:
    """Give consumers, what looks like one, and what does not."""
    return [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES),
        workload("DaemonSet", DRA, PLUGIN),
        workload("DaemonSet", OTHER, PLUGIN),
        workload("DaemonSet", ALONE, PLUGIN),
        workload("DaemonSet", DRA, "innocent"),
        _without_grace(workload("DaemonSet", OTHER, "exporter")),
        workload("DaemonSet", DRA, "exporter"),
        workload("DaemonSet", OTHER, "profiler", tier="profiling"),
        workload("DaemonSet", OTHER, "driver", tier="profiling", **{"app.kubernetes.io/component": "nvidia-driver"}),
        workload("DaemonSet", OTHER, "relabelled", "nvidia-driver-ctr", tier="profiling"),
        workload("DaemonSet", OTHER, "ofed", tier="profiling", **{"nvidia.com/ofed-driver": ""}),
        workload("DaemonSet", OTHER, "toolkit", tier="profiling", app="nvidia-container-toolkit-daemonset"),
        workload("ReplicaSet", OTHER, PLUGIN),
        {**_pod("bare", {"tier": "profiling"}), "apiVersion": "v1", "kind": "Pod"},
    ]


def workload(kind: str, namespace: str, name: str, container: str = "main", **labels: str) -> Object:
    """Describe a workload of one pod, which its labels tell apart."""
    chosen = {"workload": f"{kind}-{name}", **labels}
    template = _pod(name, chosen)
    template["spec"]["containers"][0]["name"] = container
    del template["metadata"]["name"], template["metadata"]["namespace"]
    template["metadata"]["annotations"] = {"checksum/config": "1"}
    spec: dict[str, Any] = {"selector": {"matchLabels": chosen}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _without_grace(workload: Object) -> Object:
    """Give the pods of a workload no time to end, as some vendors do: to delete them is not to force them."""
    workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    return workload


def _pod(name: str, labels: dict[str, str]) -> Object:
    return {
        "metadata": {"name": name, "namespace": OTHER, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "example.invalid/nothing:1"}], "restartPolicy": "Always"},
    }
