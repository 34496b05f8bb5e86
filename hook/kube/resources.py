"""The resources of the API that the program reads and writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from hook.objects.policies import Policy


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource, and which of its objects are meant: all, or those of a namespace and of selectors."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    older: tuple[str, ...] = ()
    """Versions that an older API server has instead, newest first."""
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def select(self, namespace: str = "", labels: str = "", fields: str = "") -> Resource:
        """Return the resource with some of its objects."""
        return replace(self, namespace=namespace, labels=labels, fields=fields)

    @property
    def versions(self) -> tuple[Resource, ...]:
        """Return the resource in each version in which an API server may have it, newest first."""
        return tuple(replace(self, version=version, older=()) for version in (self.version, *self.older))

    @property
    def group_resource(self) -> str:
        """Return resource and group as text, such as ``daemonsets.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """Return group and version as in an object's ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def url(self, name: str = "", **query: str) -> str:
        """Return path and query of one object, or of the collection."""
        parts = ["/apis" if self.group else "/api", self.api_version]
        if self.namespace:
            parts.append(f"namespaces/{quote(self.namespace, safe='')}")
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        return "/".join(parts) + (f"?{urlencode(query)}" if query else "")

    def collection(self, **query: str) -> str:
        """Return path and query of the selected objects."""
        selectors = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return self.url("", **query, **{key: value for key, value in selectors.items() if value})


NODES: Final = Resource("", "v1", "nodes", "Node")
PODS: Final = Resource("", "v1", "pods", "Pod")
EVENTS: Final = Resource("", "v1", "events", "Event")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet")
CONTROLLER_REVISIONS: Final = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")
JOBS: Final = Resource("batch", "v1", "jobs", "Job")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
DISRUPTION_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
"""Only ``plan`` reads them, with the user's permissions."""
_DRA: Final = ("v1beta2", "v1beta1")
"""Kubernetes 1.33 and 1.32; v1 came with 1.34."""
RESOURCE_SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", _DRA)
RESOURCE_CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", _DRA)
DEVICE_TAINT_RULES: Final = Resource("resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule")
"""Kubernetes 1.37."""
CLUSTER_ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole")


def policies_of(kind: type[Policy]) -> Resource:
    """Return the resource of a kind of policy."""
    return Resource(kind.group, kind.version, kind.plural, kind.kind)
