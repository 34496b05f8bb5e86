"""The guard as it is rendered; what it does on a real API server is a contract test."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from hook.checks import settings_from
from hook.decide.clients import plugin_names
from hook.objects.drivers import STACKS

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
OTHER: Final = {**OBJECT, "name": "other"}
SERVED: Final = f"--api-versions={GROUP}/{POLICY}"


def _policies(rendered: Manifests) -> list[Object]:
    return rendered.all(POLICY)


def _list(policy: Object, name: str) -> list[object]:
    """Return a list that is rendered into a policy's variables."""
    (variable,) = [item for item in policy["spec"]["variables"] if item["name"] == name]
    return list(json.loads(variable["expression"]))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="default"),
        pytest.param({"drivers": ["network"]}, id="network"),
        pytest.param({"drivers": ["gpu", "network"]}, id="two-drivers"),
        pytest.param({"drivers": ["gpu", "network"], "plugin.names": ["mine"]}, id="one-replaced"),
        pytest.param(
            {"drivers": ["network", "gpu"], "plugin.names": ["a", {"driver": "gpu", "name": "b"}]}, id="both-replaced"
        ),
        pytest.param({"plugin.names": ["mine", {"driver": "gpu", "name": "other"}]}, id="two-names"),
    ],
)
def test_the_policies_name_the_plugins_that_the_program_looks_for(helm: Helm, values: Values) -> None:
    """The names in the values replace the defaults of their driver, in the program and in the policies."""
    rendered = helm.render({**values, "plugin.namespace": "dra"})
    settings = settings_from(rendered.config)
    names = [name for driver in settings.drivers for name in plugin_names(STACKS[driver], settings)]
    for policy in _policies(rendered)[:2]:
        assert [{"name": name, "namespace": "dra"} for name in names] == _list(policy, "daemonSets")


def test_the_policies_name_the_driver_clients(helm: Helm) -> None:
    """By namespace and name, or by labels; and the namespaces of the scope bound all of them."""
    labels: list[Object] = [{"k": "v", "l": "w"}, {"k": ""}]
    clients = [{"namespace": "a", "name": "b"}, {"labels": labels[0]}, {"driver": "gpu", "labels": labels[1]}]
    scope = {"rbac.scope": "namespace", "rbac.namespaces": ["a"]}
    for policy in _policies(helm.render({**scope, "driverClients": clients, "plugin.names": ["mine"]}))[:2]:
        assert _list(policy, "daemonSets") == [{"name": "mine", "namespace": ""}, {"name": "b", "namespace": "a"}]
        assert _list(policy, "labelSets") == labels
        assert _list(policy, "namespaces") == ["a"]


def test_the_expressions_are_constant(helm: Helm) -> None:
    """Whatever the values, only the lists and the accounts differ; and no policy depends on another object."""
    values = {"strategy": "rollout-restart", "drivers": ["network"], "plugin.names": ["mine"], "eventTargets": [OBJECT]}
    first, second = ([_constant(policy) for policy in _policies(helm.render(each))] for each in ({}, values))
    assert first == second
    assert "paramKind" not in str(first)


def _constant(policy: Object) -> Object:
    spec = policy["spec"]
    return {
        **spec,
        "matchConditions": [],
        "variables": [item for item in spec["variables"] if not item["expression"].startswith("[")],
    }


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
    assert "this cluster does not serve ValidatingAdmissionPolicies" in helm.refuse({}, ASKED)
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


def test_it_confines_job_and_controller_alike(helm: Helm) -> None:
    """One list of users in each policy; without a Job, the controller is the only one."""
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
        pytest.param({"controller.enabled": True, "job.enabled": False}, ["DaemonSet", "Deployment"], id="controller"),
    ],
)
def test_events_are_allowed_on_who_runs_and_on_daemonsets(helm: Helm, values: Values, kinds: list[str]) -> None:
    """On no kind about which the program has nothing to say."""
    (policy,) = [item for item in _policies(helm.render(values)) if item["metadata"]["name"].endswith(".events")]
    assert kinds == _list(policy, "kinds")


@pytest.mark.parametrize(
    ("values", "allowed"),
    [
        pytest.param({}, [], id="none"),
        pytest.param({"eventTargets": [OBJECT]}, [OBJECT], id="one"),
        pytest.param({"eventTargets": [OBJECT], "job.enabled": False, "controller.enabled": True}, [], id="no-job"),
        pytest.param({"eventTargets": [OBJECT, OTHER]}, [OBJECT, OTHER], id="two"),
    ],
)
def test_events_are_allowed_on_event_targets(helm: Helm, values: Values, allowed: list[Object]) -> None:
    """By API version, kind, namespace and name."""
    (policy,) = [item for item in _policies(helm.render(values)) if item["metadata"]["name"].endswith(".events")]
    assert allowed == _list(policy, "eventTargets")


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
