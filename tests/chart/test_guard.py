"""The guard as it is rendered; what it does on a real API server is a contract test."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.chart.rendering import Helm, Manifests, Object, Values

POLICY: Final = "ValidatingAdmissionPolicy"
KINDS: Final = (POLICY, f"{POLICY}Binding")
GROUP: Final = "admissionregistration.k8s.io/v1"
ASKED: Final = f"--api-versions={GROUP}/ValidatingWebhookConfiguration"
OBJECT: Final = {
    "apiVersion": "helm.toolkit.fluxcd.io/v2",
    "kind": "HelmRelease",
    "namespace": "flux-system",
    "name": "post",
}
SERVED: Final = f"--api-versions={GROUP}/{POLICY}"


def _policies(rendered: Manifests) -> list[Object]:
    return rendered.all(POLICY)


def _listed(rendered: Manifests) -> list[set[str]]:
    """Give the names of DaemonSets that each policy lists."""
    texts = [str(policy["spec"]["validations"]) for policy in _policies(rendered)]
    lists = [re.findall(r"(?:o|metadata)\.name in \[([^\]]*)\]", text) for text in texts]
    return [set(re.findall(r'"([^"]+)"', "".join(found))) for found in lists]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="default"),
        pytest.param({"drivers": ["gpu", "network"]}, id="two-stacks"),
        pytest.param({"plugin.names": ["mine"]}, id="given"),
        pytest.param({"strategy": "rollout-restart"}, id="rollout"),
    ],
)
def test_guard_and_discovery_use_one_list(helm: Helm, values: Values) -> None:
    """What the program looks for is what it may restart, by name."""
    rendered = helm.render(values)
    found = {arg.rpartition(":")[2] for arg in rendered.args if arg.startswith("--plugin-name=")}
    assert [found, found, set()] == _listed(rendered)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="offline"),
        pytest.param(("--api-versions=monitoring.coreos.com/v1",), id="offline-with-a-partial-list"),
        pytest.param((ASKED, SERVED), id="served"),
        pytest.param((SERVED,), id="named-by-a-person"),
    ],
)
def test_it_is_rendered_wherever_it_may_be_served(helm: Helm, options: tuple[str, ...]) -> None:
    """Without a cluster, as with ``helm template``, the Kubernetes version decides; Argo CD passes what it found."""
    assert _policies(helm.render({}, *options))


def test_it_is_not_left_out_without_a_word(helm: Helm) -> None:
    """Where an administrator has turned the kind off, somebody must say that the account may go unconfined."""
    assert "set rbac.admissionPolicy.enabled=false if that is meant" in helm.refuse({}, ASKED)
    for meant in (
        {"rbac.admissionPolicy.enabled": False},
        {"rbac.create": False},
        {"dryRun": True},
        {"enabled": False},
    ):
        assert not _policies(helm.render(meant, ASKED))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"rbac.admissionPolicy.enabled": False}, id="turned-off"),
        pytest.param({"rbac.create": False}, id="permissions-left-to-others"),
        pytest.param({"enabled": False}, id="disabled"),
    ],
)
def test_it_can_be_left_out(helm: Helm, values: Values) -> None:
    """Neither policies nor bindings remain."""
    rendered = helm.render(values)
    assert not [item for item in rendered.objects if item["kind"] in KINDS]


@pytest.mark.parametrize("values", [{}, {"serviceAccount.name": "mine"}], ids=["default", "named"])
def test_it_concerns_this_service_account_alone(helm: Helm, values: Values) -> None:
    """By the user name under which the API server knows the pod's account."""
    rendered = helm.render(values)
    user = f"system:serviceaccount:gpu-operator:{rendered.pod['serviceAccountName']}"
    for policy in _policies(rendered):
        (condition,) = policy["spec"]["matchConditions"]
        assert condition["expression"] == f'request.userInfo.username in ["{user}"]'
        assert policy["spec"]["failurePolicy"] == "Fail"


def test_it_confines_job_and_follower_alike(helm: Helm) -> None:
    """By one list of users in every policy; alone, the follower is the only one."""
    users = [f"system:serviceaccount:gpu-operator:gpu-operator-post{suffix}" for suffix in ("", "-controller")]
    for values, confined in (({}, users), ({"job.enabled": False}, users[1:])):
        for policy in _policies(helm.render({**values, "controller.enabled": True})):
            (condition,) = policy["spec"]["matchConditions"]
            assert (
                f"request.userInfo.username in {json.dumps(confined, separators=(',', ':'))}" == condition["expression"]
            )


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        pytest.param({}, ["DaemonSet", "Job"], id="hook"),
        pytest.param({"controller.enabled": True}, ["DaemonSet", "Job", "Deployment"], id="both"),
        pytest.param({"controller.enabled": True, "job.enabled": False}, ["DaemonSet", "Deployment"], id="follower"),
    ],
)
def test_events_are_allowed_on_who_runs_and_on_daemonsets(helm: Helm, values: Values, kinds: list[str]) -> None:
    """On no kind about which the program has nothing to say."""
    (policy,) = [item for item in _policies(helm.render(values)) if item["metadata"]["name"].endswith(".events")]
    assert json.dumps(kinds, separators=(",", ":")) in policy["spec"]["validations"][1]["expression"]


@pytest.mark.parametrize(
    ("values", "allowed"),
    [
        pytest.param({}, [], id="none"),
        pytest.param({"eventTargets": [OBJECT]}, ["flux-system", "post"], id="one"),
        pytest.param({"eventTargets": [OBJECT], "job.enabled": False, "controller.enabled": True}, [], id="no-job"),
        pytest.param(
            {"eventTargets": [OBJECT, {**OBJECT, "name": "other"}]}, ["flux-system", "post", "flux-system", "other"],
            id="two",
        ),
    ],
)  # fmt: skip
def test_events_are_allowed_on_the_deployers_objects(helm: Helm, values: Values, allowed: list[str]) -> None:
    """By group, namespace and name, and on one line: a tool that compares lines finds none that is empty."""
    (policy,) = [item for item in _policies(helm.render(values)) if item["metadata"]["name"].endswith(".events")]
    expression = policy["spec"]["validations"][1]["expression"]
    assert bool(allowed) == ("eventTargets" in policy["spec"]["validations"][1]["message"])
    assert allowed == re.findall(r'(?:namespace|name)\.orValue\(""\) == "([^"]+)"', expression)
    assert len(allowed) // 2 == expression.count('startsWith("helm.toolkit.fluxcd.io/")')
    assert "\n" not in expression


@pytest.mark.parametrize("values", [{}, {"controller.enabled": True}], ids=["hook", "both"])
def test_every_policy_is_bound_and_denies(helm: Helm, values: Values) -> None:
    """A policy without a binding does nothing."""
    rendered = helm.render(values)
    bindings = rendered.all(f"{POLICY}Binding")
    bound = [(item["spec"]["policyName"], item["spec"]["validationActions"]) for item in bindings]
    assert [(policy["metadata"]["name"], ["Deny"]) for policy in _policies(rendered)] == bound


def test_names_are_legal_and_tell_releases_apart(helm: Helm) -> None:
    """A policy's name may hold dots but no colon; no namespace holds a dot, so no two releases meet."""
    names = [policy["metadata"]["name"] for policy in _policies(helm.render({"controller.enabled": True}))]
    assert [f"gpu-operator.gpu-operator-post.{part}" for part in ("pods", "daemonsets", "events", "leases")] == names
    assert [policy["metadata"]["name"] for policy in _policies(helm.render())] == names[:3]
