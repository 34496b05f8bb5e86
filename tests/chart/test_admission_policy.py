"""The admission policy as it is rendered; `cluster/test_admission.py` shows what it does on a real API server."""

from __future__ import annotations

import json
from typing import Final

import pytest

from hook.decide.fleet import plugin_names
from hook.objects.stacks import STACKS, Stack, StackName
from hook.settings import settings_from
from tests.chart.rendering import Helm, Values

POLICY: Final = "ValidatingAdmissionPolicy"
GROUP: Final = "admissionregistration.k8s.io/v1"
ASKED: Final = f"--api-versions={GROUP}/ValidatingWebhookConfiguration"
SERVED: Final = f"--api-versions={GROUP}/{POLICY}"


def _pods(helm: Helm, values: Values) -> dict[str, str]:
    """Return the variables of the policy for pods."""
    return {item["name"]: item["expression"] for item in helm.render(values).all(POLICY)[0]["spec"]["variables"]}


@pytest.mark.parametrize("names", [[], ["mine", "other"]], ids=["defaults", "named"])
@pytest.mark.parametrize("stack", StackName)
def test_the_policy_names_the_plugins_that_the_program_looks_for(
    helm: Helm, stack: StackName, names: list[str]
) -> None:
    """The names in the values replace the defaults of the stack, in the program and in the policy."""
    values = {"stack": stack, "plugin.names": names, "plugin.namespace": "dra"}
    settings = settings_from(helm.render(values).config)
    variables = _pods(helm, values)
    assert json.loads(variables["pluginNames"]) == list(plugin_names(settings))
    assert json.loads(variables["pluginNamespace"]) == "dra"


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS.keys())
def test_the_policy_knows_what_loads_a_driver(helm: Helm, stack: Stack) -> None:
    """The policy never allows a restart of what loads a driver, even if the program has a bug."""
    expression = _pods(helm, {})["loadsDriver"]
    labels = [stack.driver.label, *(prerequisite.label for prerequisite in stack.prerequisites.values())]
    assert [key for key, value in labels if f'[?"{key}"] == optional.of("{value}")' not in expression] == []
    assert f'"{stack.driver.container}"' in expression


@pytest.mark.parametrize(
    "options", [(), ("--api-versions=monitoring.coreos.com/v1",), (ASKED, SERVED), (SERVED,)], ids=str
)
def test_it_is_rendered_where_it_is_served(helm: Helm, options: tuple[str, ...]) -> None:
    """Without a cluster, as with ``helm template``, the Kubernetes version decides; Argo CD passes what it found."""
    assert len(helm.render({}, *options).all(POLICY)) == 3


def test_it_is_left_out_only_on_request(helm: Helm) -> None:
    """Where the API server does not serve the kind, you must confirm that the account may go without limits."""
    assert "this cluster does not serve ValidatingAdmissionPolicies" in helm.refuse({}, ASKED)
    assert not helm.render({"dryRun": True}, ASKED).all(POLICY)


@pytest.mark.parametrize("value", ["rbac.admissionPolicy.enabled", "rbac.create"])
@pytest.mark.parametrize("options", [(), (ASKED,)], ids=["unknown", "not served"])
def test_it_can_be_left_out(helm: Helm, value: str, options: tuple[str, ...]) -> None:
    """No policy and no binding is rendered then."""
    objects = helm.render({value: False}, *options).objects
    assert not [item for item in objects if item["kind"].startswith(POLICY)]
