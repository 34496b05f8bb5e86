"""The admission policy as it is rendered; `cluster/test_admission.py` shows what it does on a real API server."""

from __future__ import annotations

import json
from typing import Final

from hook.checks import settings_from
from hook.decide.fleet import plugin_names
from hook.objects.drivers import STACKS
from tests.chart.rendering import Helm, Manifests, Object

POLICY: Final = "ValidatingAdmissionPolicy"
GROUP: Final = "admissionregistration.k8s.io/v1"
ASKED: Final = f"--api-versions={GROUP}/ValidatingWebhookConfiguration"
SERVED: Final = f"--api-versions={GROUP}/{POLICY}"


def _policies(rendered: Manifests) -> list[Object]:
    return rendered.all(POLICY)


def _list(policy: Object, name: str) -> list[object]:
    (variable,) = [item for item in policy["spec"]["variables"] if item["name"] == name]
    return list(json.loads(variable["expression"]))


def test_the_policies_name_the_plugins_that_the_program_looks_for(helm: Helm) -> None:
    """The names in the values replace the defaults of the stack, in the program and in the policies."""
    for stack in STACKS:
        for names in ([], ["mine", "other"]):
            rendered = helm.render({"stack": stack, "plugin.names": names, "plugin.namespace": "dra"})
            expected = plugin_names(settings_from(rendered.config))
            found = _list(_policies(rendered)[0], "daemonSets")
            assert found == [{"name": name, "namespace": "dra"} for name in expected], (stack, names)


def test_the_policies_know_the_prerequisites_of_every_driver(helm: Helm) -> None:
    """The policy never allows a restart of what loads a driver, even if the program has a bug."""
    expressions = str(_policies(helm.render())[0]["spec"]["variables"])
    for stack in STACKS.values():
        labels = [stack.driver.label, *(prerequisite.label for prerequisite in stack.prerequisites.values())]
        missing = [key for key, value in labels if f'[?"{key}"] == optional.of("{value}")' not in expressions]
        assert missing == [], stack.name
        assert f'"{stack.driver.container}"' in expressions, stack.name


def test_the_expressions_are_constant(helm: Helm) -> None:
    """Only the lists and the accounts depend on the values; and no policy depends on another object."""
    values = {"stack": "network", "plugin.names": ["mine"]}
    first, second = ([_constant(policy) for policy in _policies(helm.render(each))] for each in ({}, values))
    assert first == second
    assert "paramKind" not in str(first)


def _constant(policy: Object) -> Object:
    variables = [item for item in policy["spec"]["variables"] if not item["expression"].startswith("[")]
    return {**policy["spec"], "matchConditions": [], "variables": variables}


def test_it_is_left_out_only_on_request(helm: Helm) -> None:
    """Where the API server does not serve the kind, you must confirm that the account may go without limits."""
    # Without a cluster, as with ``helm template``, the Kubernetes version decides; Argo CD passes what it found.
    for options in ((), ("--api-versions=monitoring.coreos.com/v1",), (ASKED, SERVED), (SERVED,)):
        assert _policies(helm.render({}, *options)), options
    assert "this cluster does not serve ValidatingAdmissionPolicies" in helm.refuse({}, ASKED)
    assert not _policies(helm.render({"dryRun": True}, ASKED))
    for values in ({"rbac.admissionPolicy.enabled": False}, {"rbac.create": False}):
        for objects in (helm.render(values, *options).objects for options in ((), (ASKED,))):
            assert not [item for item in objects if item["kind"].startswith(POLICY)], values
