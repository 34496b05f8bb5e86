"""Deletion of one object of the chart affects no other user, on a real API server.

A policy that takes its lists from another object (``paramKind``) would deny requests of every user while that object is
missing, because the API server collects parameters before it evaluates ``matchConditions``. The control here is such a
policy: it shows the danger, and it shows that the API server has noticed a deletion.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from devcluster.client import path
from tests.chart.admission_scene import DRA, HOME, OTHER, Account, acting_as, administrator, apply, with_rights
from tests.chart.admission_trial import EVENTS, GROUP, MORE, daemonset, event, image, pod_of, until
from tests.chart.rendering import Helm

if TYPE_CHECKING:
    from collections.abc import Callable

    from devcluster.cluster import Cluster
    from tests.chart.admission_scene import Answer
    from tests.chart.rendering import Object

pytestmark = pytest.mark.e2e

NAME: Final = "deleted"
CONTROL: Final = "control"
COORDINATION: Final = "coordination.k8s.io"
POLICIES: Final = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
LIMITS: Final = path("v1", "limitranges", namespace=OTHER)
LIMIT: Final[Object] = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "any"}, "spec": {"limits": []}}
LEASES: Final = path(f"{COORDINATION}/v1", "leases", namespace=OTHER)
LEASE: Final[Object] = {"apiVersion": f"{COORDINATION}/v1", "kind": "Lease", "metadata": {"name": "any"}}
RIGHTS: Final = (
    *MORE,
    {"apiGroups": [""], "resources": ["limitranges"], "verbs": ["create"]},
    {"apiGroups": [COORDINATION], "resources": ["leases"], "verbs": ["create"]},
)
PARAMETER: Final[Object] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": CONTROL, "namespace": HOME},
}


def _control() -> list[Object]:
    """Return a policy that concerns no user, and takes a parameter."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["limitranges"]}
    policy = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "no-user", "expression": "false"}],
        "validations": [{"expression": "false"}],
    }
    parameter = {"name": CONTROL, "namespace": HOME, "parameterNotFoundAction": "Deny"}
    binding = {"policyName": CONTROL, "paramRef": parameter, "validationActions": ["Deny"]}
    return [
        {"apiVersion": GROUP, "kind": kind, "metadata": {"name": CONTROL}, "spec": spec}
        for kind, spec in zip(POLICIES, (policy, binding), strict=True)
    ]


def _rendered(cluster: Cluster) -> list[Object]:
    """Render each object of the chart, policies first, with neither the Job nor the Deployment running a pod."""
    rendered = Helm(cluster.binary("helm4")).render({"fullnameOverride": NAME, "controller.enabled": True})
    idle: dict[str, Object] = {"Job": {"suspend": True}, "Deployment": {"replicas": 0}}
    objects = [
        {**item, "spec": {**item["spec"], **idle[item["kind"]]}} if item["kind"] in idle else item
        for item in rendered.objects
    ]
    return sorted(objects, key=lambda item: item["kind"] not in POLICIES)


def _delete(cluster: Cluster, item: Object) -> None:
    namespace = item["metadata"].get("namespace", HOME)
    kind = ".".join((item["kind"], *item["apiVersion"].split("/")[::-1])) if "/" in item["apiVersion"] else item["kind"]
    cluster.kubectl("delete", kind, item["metadata"]["name"], "-n", namespace, "--wait")


def _refusals(account: Account, innocent: str) -> dict[str, Callable[[], Answer]]:
    """Return a request for each policy, which it refuses to the account of the chart."""
    return {
        "pods": lambda: account.delete(innocent),
        "daemonsets": lambda: account.patch(daemonset(DRA, "innocent"), image("other")),
        "events": lambda: account.create(EVENTS, event("try", kind="Node")),
        "leases": lambda: account.create(LEASES, LEASE),
    }


def _wait(request: Callable[[], Answer], holds: Callable[[Answer], bool], what: str) -> None:
    until(lambda: holds(request()), what)


def _allowed(answer: Answer) -> bool:
    return answer.code == 200


def _refused(answer: Answer) -> bool:
    return answer.refused_by_guard


def _misses_parameter(answer: Answer) -> bool:
    return "no params found" in answer.message


def _without(cluster: Cluster, item: Object, refusal: Callable[[], Answer] | None) -> None:
    """Delete an object of the chart and the parameter of the control, until a policy is no longer in effect."""
    if refusal:
        _wait(refusal, _refused, "the policy is in effect")
    for each in (item, PARAMETER):
        _delete(cluster, each)
    if refusal:
        _wait(refusal, lambda answer: not answer.refused_by_guard, "the policy is gone")


def test_deletion_of_an_object_affects_no_other_user(cluster: Cluster, subtests: pytest.Subtests) -> None:
    """Whichever object is missing, other users delete pods; without its parameter, the control refuses all of them."""
    innocent = pod_of(cluster, DRA, "innocent")
    objects = _rendered(cluster)
    apply(cluster, [*objects, *_control(), PARAMETER])
    refusals = _refusals(acting_as(cluster, NAME, RIGHTS), innocent)
    others = {"an account": with_rights(cluster, OTHER, "bystander", RIGHTS), "an admin": administrator(cluster)}
    controls = [partial(account.create, LIMITS, LIMIT) for account in others.values()]
    for account in others.values():
        _wait(partial(account.delete, innocent), _allowed, "the role is in effect")
    for item in objects:
        for control in controls:
            _wait(control, _allowed, "the control allows")
        part = item["metadata"]["name"].rpartition(".")[2] if item["kind"] in POLICIES else ""
        _without(cluster, item, refusals.get(part))
        for control in controls:
            _wait(control, _misses_parameter, "the deletion is noticed")
        for who, account in others.items():
            with subtests.test(f"{who} without {item['kind']} {item['metadata']['name']}"):
                assert account.delete(innocent).code == 200
        apply(cluster, [item, PARAMETER])
