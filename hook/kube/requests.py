"""Requests to the API server: resources, list options, and the bodies of writes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hook.objects.drivers import PolicyKind

PAGE_SIZE: Final = 50
"""Objects per page. More cost memory, fewer cost requests (docs/dev/performance-profile.md)."""

OBJECTS: Final[Mapping[str, str]] = {"accept": "application/json"}
LISTS: Final[Mapping[str, str]] = {**OBJECTS, "accept-encoding": "gzip"}
"""Compressed, a list is a tenth as long, because most of it is ``managedFields``. API servers compress no watch."""


@dataclass(frozen=True, slots=True)
class GroupVersionResource:
    """Resource of the API (client-go's GroupVersionResource), with its kind."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def group_resource(self) -> str:
        """Return resource and group as text, such as ``daemonsets.apps`` (apimachinery's GroupResource)."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return the path of a collection or of one object."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [base]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        return "/".join(parts)


NODES: Final = GroupVersionResource("", "v1", "nodes", "Node", namespaced=False)
PODS: Final = GroupVersionResource("", "v1", "pods", "Pod")
EVENTS: Final = GroupVersionResource("", "v1", "events", "Event")
DAEMON_SETS: Final = GroupVersionResource("apps", "v1", "daemonsets", "DaemonSet")
CONTROLLER_REVISIONS: Final = GroupVersionResource("apps", "v1", "controllerrevisions", "ControllerRevision")
DEPLOYMENTS: Final = GroupVersionResource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS: Final = GroupVersionResource("apps", "v1", "replicasets", "ReplicaSet")
LEASES: Final = GroupVersionResource("coordination.k8s.io", "v1", "leases", "Lease")
DISRUPTION_BUDGETS: Final = GroupVersionResource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
"""Only ``plan`` reads them, with the user's permissions."""
CONFIG_MAPS: Final = GroupVersionResource("", "v1", "configmaps", "ConfigMap")
JOBS: Final = GroupVersionResource("batch", "v1", "jobs", "Job")
RESOURCE_SLICES: Final = GroupVersionResource(
    "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False
)
RESOURCE_CLAIMS: Final = GroupVersionResource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
"""Served in the same versions."""
SLICE_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""Supported ResourceSlice versions, newest first (Kubernetes 1.34, 1.33, 1.32)."""


def policies_of(kind: PolicyKind) -> GroupVersionResource:
    """Return the resource of a policy or pool kind."""
    return GroupVersionResource(kind.group, kind.version, kind.plural, kind.kind, namespaced=False)


@dataclass(frozen=True, slots=True)
class Request:
    """Request without server and credentials."""

    verb: str
    """RBAC verb: get, list, watch, create, patch or delete."""
    resource: GroupVersionResource
    namespace: str = ""
    name: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    content_type: str = "application/json"
    path: str = ""
    """Path for discovery, instead of the resource's."""
    headers: Mapping[str, str] = field(default_factory=lambda: OBJECTS)
    """Headers that select the representation of the response."""

    @property
    def method(self) -> str:
        """Return the HTTP method."""
        return {"create": "POST", "patch": "PATCH", "delete": "DELETE"}.get(self.verb, "GET")

    @property
    def target(self) -> str:
        """Return path and query."""
        path = self.path or self.resource.path(self.namespace, self.name)
        return f"{path}?{urlencode(self.query)}" if self.query else path


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Objects of a resource to list and watch (client-go's ListOptions)."""

    resource: GroupVersionResource
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def page(self, continue_from: str = "") -> Request:
        """Return the request for one page of the current state (a consistent read)."""
        extra = {"continue": continue_from} if continue_from else {}
        return replace(self._request("list", limit=str(PAGE_SIZE), **extra), headers=LISTS)

    def watch(self, resource_version: str, seconds: int) -> Request:
        """Return the request for changes since a resourceVersion, for at most `seconds`."""
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


def resource_slices(served: Collection[str]) -> GroupVersionResource | None:
    """Return the ResourceSlice resource in its newest supported version, or None."""
    version = next((version for version in SLICE_VERSIONS if version in served), None)
    return replace(RESOURCE_SLICES, version=version) if version else None


def versions_of(resource: GroupVersionResource) -> Request:
    """Return the discovery request for the versions of a resource's group."""
    return Request("get", resource, path=f"/apis/{resource.group}")


def delete_pod(namespace: str, name: str, uid: str, resource_version: str) -> Request:
    """Return the request to delete a pod with preconditions. If it has changed, the API server answers 409."""
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    return Request(
        "delete",
        PODS,
        namespace,
        name,
        body={"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions},
    )


def merge_patch(resource: GroupVersionResource, namespace: str, name: str, body: Mapping[str, Any]) -> Request:
    """Return the request to change the named fields of an object, and no others."""
    return Request("patch", resource, namespace, name, body=body, content_type="application/merge-patch+json")


def apply_patch(
    resource: GroupVersionResource, namespace: str, name: str, manager: str, fields: Mapping[str, Any]
) -> Request:
    """Return the request to set the fields that a field manager owns, and to drop its others (server-side apply).

    JSON is YAML, too.
    """
    version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    body = {"apiVersion": version, "kind": resource.kind, "metadata": {"name": name, "namespace": namespace}, **fields}
    query = {"fieldManager": manager, "force": "true"}
    return Request("patch", resource, namespace, name, query, body, "application/apply-patch+yaml")
