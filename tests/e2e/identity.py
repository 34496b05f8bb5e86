"""ServiceAccounts that may do exactly what a test allows them, and kubeconfigs to act as one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from devcluster.boot.certificates import write_private
from devcluster.boot.cluster import Cluster
from devcluster.client import path
from tests.chart.rendering import Helm

RBAC = "rbac.authorization.k8s.io/v1"
HOME = "default"
"""Namespace of these accounts; it is there from the start."""


class Right(NamedTuple):
    """One permission."""

    group: str
    resource: str
    verb: str


def rights(rules: Iterable[dict[str, Any]]) -> set[Right]:
    """Spell out what rules of a Role allow."""
    return {
        Right(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def charted(cluster: Cluster, *kinds: str, **values: object) -> set[Right]:
    """Return what the chart grants with these values, by ClusterRoles and Roles, or by one of these kinds alone."""
    rendered = Helm(cluster.binary("helm4")).render(values)
    return rights(
        rule for kind in kinds or ("ClusterRole", "Role") for role in rendered.all(kind) for rule in role["rules"]
    )


def kubeconfig(cluster: Cluster, name: str, allowed: Iterable[Right]) -> Path:
    """Make an account that has these rights in the whole cluster and no others, and give its kubeconfig."""
    manifests = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(_account(name, allowed))})
    cluster.kubectl("apply", "-f", "-", text=manifests)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = cluster.create(path("v1", "serviceaccounts", namespace=HOME, name=name, subresource="token"), request)
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": answer["status"]["token"]}
    file = cluster.state / f"{name}.kubeconfig"
    write_private(file, yaml.safe_dump(config))
    return file


def _account(name: str, allowed: Iterable[Right]) -> Iterable[dict[str, Any]]:
    """Return the account, its role and what binds them."""
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": HOME}}
    yield {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": _rules(allowed)}
    yield {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": HOME}],
    }


def _rules(allowed: Iterable[Right]) -> list[dict[str, Any]]:
    return [{"apiGroups": [one.group], "resources": [one.resource], "verbs": [one.verb]} for one in sorted(allowed)]
