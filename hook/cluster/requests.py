"""Requests as values: built here, sent elsewhere, so that what is asked can be tested without asking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from hook.core.stack import PolicyKind, Stack

PAGE_SIZE: Final = 50
"""A page stands in memory as text: more objects cost memory, fewer cost requests (docs/performance-profile.md)."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind, as the API addresses it."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def grant(self) -> str:
        """As RBAC messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "") -> str:
        """Give the path of a collection or of one object."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [base]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        return "/".join(parts)


NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS: Final = Resource("", "v1", "pods", "Pod")
EVENTS: Final = Resource("", "v1", "events", "Event")
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet")
CONTROLLER_REVISIONS: Final = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
DISRUPTION_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
"""Only a plan reads them, by the rights of whoever asks for it."""
JOBS: Final = Resource("batch", "v1", "jobs", "Job")
RESOURCE_SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
OWN_RIGHTS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
"""Whoever is known to the API server may ask for these (ClusterRole ``system:basic-user``)."""
SLICE_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""Served ResourceSlice versions, newest first (Kubernetes 1.34, 1.33, 1.32)."""

READ: Final = ("list", "watch")
Permissions = Mapping[Resource, tuple[str, ...]]
"""Verbs by resource."""
PERMISSIONS: Final[Permissions] = {
    DAEMON_SETS: READ,
    PODS: READ,
    EVENTS: ("create", "patch"),
}
"""What every run needs. The chart's rules are held to all of these by a test."""
NODE_PERMISSIONS: Final[Permissions] = {
    NODES: READ,
    RESOURCE_SLICES: READ,
    CONTROLLER_REVISIONS: READ,
    DEPLOYMENTS: READ,
    REPLICA_SETS: READ,
    LEASES: READ,
}
"""What judging node by node needs on top (not with wait-for policy-ready)."""
STRATEGY_PERMISSIONS: Final[Mapping[str, Permissions]] = {
    "stale-pods": {PODS: ("delete",)},
    "rollout": {DAEMON_SETS: ("patch",)},
}
"""What a restart strategy needs on top. ``patch daemonsets`` amounts to root on every node."""


class Role(StrEnum):
    """As what a run has an account of its own."""

    JOB = "job"
    HANDOVER = "handover"
    """A Job that only reads, and leaves the restarts to a follower."""
    FOLLOWER = "follower"


OWN_PERMISSIONS: Final[Mapping[Role, Permissions]] = {
    Role.JOB: {JOBS: ("get",)},
    Role.HANDOVER: {JOBS: ("get",), LEASES: ("get",)},
    Role.FOLLOWER: {DEPLOYMENTS: ("get",), LEASES: ("create", "get", "patch")},
}
"""What each needs of its own, in its own namespace and by name (but for creating, which has no name yet)."""


def policies_of(kind: PolicyKind) -> Resource:
    """Give the resource of a kind in which somebody says what a driver shall be."""
    return Resource(kind.group, kind.version, kind.plural, kind.kind, namespaced=False)


def permissions(
    stacks: Iterable[Stack], strategy: str, *, sees_nodes: bool = True, role: Role = Role.JOB
) -> dict[Resource, tuple[str, ...]]:
    """Give what a run with these settings needs."""
    kinds = (kind for stack in stacks for kind in (stack.policy, stack.pool if sees_nodes else None) if kind)
    wanted: dict[Resource, tuple[str, ...]] = {policies_of(kind): READ for kind in kinds}
    writes = {} if role is Role.HANDOVER else STRATEGY_PERMISSIONS[strategy]
    for part in (PERMISSIONS, NODE_PERMISSIONS if sees_nodes else {}, writes, OWN_PERMISSIONS[role]):
        for resource, verbs in part.items():
            wanted[resource] = (*wanted.get(resource, ()), *verbs)
    return wanted


@dataclass(frozen=True, slots=True)
class Request:
    """One request, complete but for the server and the credentials."""

    verb: str
    """As RBAC counts: get, list, watch, create, patch, delete."""
    resource: Resource
    namespace: str = ""
    name: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    content_type: str = "application/json"
    path: str = ""
    """In place of the resource's own path; for discovery."""

    @property
    def method(self) -> str:
        """Give the HTTP method."""
        return {"create": "POST", "patch": "PATCH", "delete": "DELETE"}.get(self.verb, "GET")

    @property
    def target(self) -> str:
        """Give path and query."""
        path = self.path or self.resource.path(self.namespace, self.name)
        return f"{path}?{urlencode(self.query)}" if self.query else path


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind to read: the same for a list and for the watch that follows it."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def page(self, continue_from: str = "") -> Request:
        """Ask for one page of the current state (a consistent read)."""
        extra = {"continue": continue_from} if continue_from else {}
        return self._request("list", limit=str(PAGE_SIZE), **extra)

    def newest(self) -> Request:
        """Ask at which version these are now (a consistent read), with one object at most."""
        return self._request("list", limit="1")

    def watch(self, resource_version: str, seconds: int) -> Request:
        """Ask for changes since a version, for at most so many seconds."""
        return self._request(
            "watch",
            watch="true",
            resourceVersion=resource_version,
            timeoutSeconds=str(seconds),
            allowWatchBookmarks="true",
        )

    def _request(self, verb: str, **query: str) -> Request:
        selectors = {"labelSelector": self.labels, "fieldSelector": self.fields}
        chosen = {key: value for key, value in selectors.items() if value}
        return Request(verb, self.resource, self.namespace, query={**query, **chosen})


def resource_slices(served: Collection[str]) -> Resource | None:
    """Give the newest served version of ResourceSlices; None where none is served."""
    version = next((one for one in SLICE_VERSIONS if one in served), None)
    return replace(RESOURCE_SLICES, version=version) if version else None


def versions_of(resource: Resource) -> Request:
    """Ask which versions of a resource's group are served."""
    return Request("get", resource, path=f"/apis/{resource.group}")


def delete_pod(namespace: str, name: str, uid: str, resource_version: str) -> Request:
    """Delete this very pod, as it was read: any change in between answers 409."""
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    return Request(
        "delete",
        PODS,
        namespace,
        name,
        body={"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions},
    )


def may_i(request: Request) -> Request:
    """Ask whether RBAC allows a request: one that is forbidden all the same is refused by admission."""
    wanted = {
        "verb": request.verb,
        "group": request.resource.group,
        "resource": request.resource.plural,
        "namespace": request.namespace,
        "name": request.name,
    }
    body = {
        "apiVersion": f"{OWN_RIGHTS.group}/{OWN_RIGHTS.version}",
        "kind": OWN_RIGHTS.kind,
        "spec": {"resourceAttributes": wanted},
    }
    return Request("create", OWN_RIGHTS, body=body)


def restart_daemonset(namespace: str, name: str, uid: str, annotation: str, stamp: str) -> Request:
    """Stamp the pod template of this very DaemonSet, as ``kubectl rollout restart`` does."""
    return Request(
        "patch",
        DAEMON_SETS,
        namespace,
        name,
        query={"fieldManager": "gpu-operator-post"},
        body={
            "metadata": {"uid": uid},
            "spec": {"template": {"metadata": {"annotations": {annotation: stamp}}}},
        },
        content_type="application/strategic-merge-patch+json",
    )
