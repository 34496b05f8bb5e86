"""The admission policy as it is rendered; `cluster/test_admission.py` shows what it does on a real API server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from hook.checks import settings_from
from hook.decide.clients import plugin_names
from hook.objects.drivers import STACKS

if TYPE_CHECKING:
    from tests.chart.rendering import Helm, Manifests, Object, Values

POLICY: Final = "ValidatingAdmissionPolicy"
GROUP: Final = "admissionregistration.k8s.io/v1"
ASKED: Final = f"--api-versions={GROUP}/ValidatingWebhookConfiguration"
SERVED: Final = f"--api-versions={GROUP}/{POLICY}"
FLUX: Final = {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "namespace": "flux-system"}
TARGETS: Final = [{**FLUX, "name": "post"}, {**FLUX, "name": "other"}]
BOTH: Final[Values] = {"controller.enabled": True}
ALONE: Final[Values] = {**BOTH, "job.enabled": False}
LEFT_OUT: Final[tuple[Values, ...]] = (
    {"rbac.admissionPolicy.enabled": False},
    {"rbac.create": False},
    {"enabled": False},
)


def _policies(rendered: Manifests) -> list[Object]:
    return rendered.all(POLICY)


def _list(policy: Object, name: str) -> list[object]:
    """Return a list that is rendered into a policy's variables."""
    (variable,) = [item for item in policy["spec"]["variables"] if item["name"] == name]
    return list(json.loads(variable["expression"]))


def test_the_policies_name_the_plugins_that_the_program_looks_for(helm: Helm) -> None:
    """The names in the values replace the defaults of their driver, in the program and in the policies."""
    for drivers, names in (
        (["gpu"], []),
        (["network"], []),
        (["gpu", "network"], []),
        (["gpu", "network"], ["mine"]),
        (["network", "gpu"], ["a", {"driver": "gpu", "name": "b"}]),
        (["gpu"], ["mine", {"driver": "gpu", "name": "other"}]),
    ):
        rendered = helm.render({"drivers": drivers, "plugin.names": names, "plugin.namespace": "dra"})
        settings = settings_from(rendered.config)
        expected = [name for driver in settings.drivers for name in plugin_names(STACKS[driver], settings)]
        for policy in _policies(rendered)[:2]:
            found = _list(policy, "daemonSets")
            assert found == [{"name": name, "namespace": "dra"} for name in expected], (drivers, names)


def test_the_policies_name_the_driver_clients(helm: Helm) -> None:
    """They are named by namespace and name, or by labels; the namespaces of the scope limit all of them."""
    labels: list[Object] = [{"k": "v", "l": "w"}, {"k": ""}]
    clients = [{"namespace": "a", "name": "b"}, {"labels": labels[0]}, {"driver": "gpu", "labels": labels[1]}]
    scope = {"rbac.scope": "namespace", "rbac.namespaces": ["a"]}
    for policy in _policies(helm.render({**scope, "driverClients": clients, "plugin.names": ["mine"]}))[:2]:
        assert _list(policy, "daemonSets") == [{"name": "mine", "namespace": ""}, {"name": "b", "namespace": "a"}]
        assert _list(policy, "labelSets") == labels
        assert _list(policy, "namespaces") == ["a"]


def test_the_policies_know_the_prerequisites_of_every_driver(helm: Helm) -> None:
    """The policies never allow a restart of what loads a driver, even if the program has a bug."""
    policies = _policies(helm.render())[:2]
    for stack in STACKS.values():
        labels = [stack.driver.label, *(prerequisite.label for prerequisite in stack.prerequisites.values())]
        for expressions in (str(policy["spec"]["variables"]) for policy in policies):
            missing = [key for key, value in labels if f'[?"{key}"] == optional.of("{value}")' not in expressions]
            assert missing == [], stack.name
            assert f'"{stack.driver.container}"' in expressions, stack.name


def test_the_expressions_are_constant(helm: Helm) -> None:
    """Only the lists and the accounts depend on the values; and no policy depends on another object."""
    values = {"strategy": "rollout-restart", "drivers": ["network"], "plugin.names": ["mine"], "eventTargets": TARGETS}
    first, second = ([_constant(policy) for policy in _policies(helm.render(each))] for each in ({}, values))
    assert first == second
    assert "paramKind" not in str(first)


def _constant(policy: Object) -> Object:
    variables = [item for item in policy["spec"]["variables"] if not item["expression"].startswith("[")]
    return {**policy["spec"], "matchConditions": [], "variables": variables}


def test_it_is_rendered_wherever_it_may_be_served(helm: Helm) -> None:
    """Without a cluster, as with ``helm template``, the Kubernetes version decides; Argo CD passes what it found."""
    for options in ((), ("--api-versions=monitoring.coreos.com/v1",), (ASKED, SERVED), (SERVED,)):
        assert _policies(helm.render({}, *options)), options


def test_it_is_left_out_only_on_request(helm: Helm) -> None:
    """Where the API server does not serve the kind, you must confirm that the account may go without limits."""
    assert "this cluster does not serve ValidatingAdmissionPolicies" in helm.refuse({}, ASKED)
    for values in (*LEFT_OUT, {"dryRun": True}):
        assert not _policies(helm.render(values, ASKED)), values
    for values in LEFT_OUT:
        assert not [item for item in helm.render(values).objects if item["kind"].startswith(POLICY)], values


PARTS: Final = ["pods", "daemonsets", "events", "own"]


def test_every_policy_is_bound_and_denies_our_accounts_alone(helm: Helm) -> None:
    """One list of users in each policy; its name has the namespace, which holds no dot, so no two releases meet."""
    for values, accounts, parts in (
        ({}, ["gpu-operator-post"], PARTS),
        ({"serviceAccount.name": "mine"}, ["mine"], PARTS),
        (BOTH, ["gpu-operator-post", "gpu-operator-post-controller"], PARTS),
        (ALONE, ["gpu-operator-post-controller"], PARTS),
    ):
        rendered = helm.render(values)
        names = [f"gpu-operator.gpu-operator-post.{part}" for part in parts]
        assert names == [policy["metadata"]["name"] for policy in _policies(rendered)], values
        bindings = [item["spec"] for item in rendered.all(f"{POLICY}Binding")]
        assert bindings == [{"policyName": name, "validationActions": ["Deny"]} for name in names], values
        users = json.dumps([f"system:serviceaccount:gpu-operator:{account}" for account in accounts])
        for policy in _policies(rendered):
            (condition,) = policy["spec"]["matchConditions"]
            assert condition["expression"] == f"request.userInfo.username in {users.replace(', ', ',')}", values
            assert policy["spec"]["failurePolicy"] == "Fail"


def test_events_are_allowed_on_workloads_and_event_targets(helm: Helm) -> None:
    """Event targets are named by API version, kind, namespace and name; without a Job, no event target gets Events."""
    for values, kinds, targets in (
        ({}, ["DaemonSet", "Pod", "Job"], []),
        (BOTH, ["DaemonSet", "Pod", "Job", "Deployment"], []),
        ({"eventTargets": TARGETS[:1]}, ["DaemonSet", "Pod", "Job"], TARGETS[:1]),
        ({"eventTargets": TARGETS}, ["DaemonSet", "Pod", "Job"], TARGETS),
        ({**ALONE, "eventTargets": TARGETS}, ["DaemonSet", "Pod", "Deployment"], []),
    ):
        (policy,) = [item for item in _policies(helm.render(values)) if item["metadata"]["name"].endswith(".events")]
        assert (_list(policy, "kinds"), _list(policy, "eventTargets")) == (kinds, targets), values
