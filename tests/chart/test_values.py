"""Which values the chart accepts and refuses, before anything reaches a cluster, and that all are documented."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
import yaml

from tests.chart.rendering import CHART, Helm, Values

OPERATOR_VALUES: Final[Values] = {
    "driver": {"enabled": True, "version": "580.126.20", "upgradePolicy": {"maxParallelUpgrades": 2}},
    "operator": {"cleanupCRD": True},
    "daemonsets": {"tolerations": [{"operator": "Exists"}]},
    "node-feature-discovery": {"worker": {"tolerations": []}},
    "networkPolicy": {"enabled": True},
    "nfd": None,
    "_bundlerNote": "v26.7.0",
}
DIGEST: Final = "sha256:" + "0123456789abcdef" * 4
BOTH: Final[Values] = {"controller.enabled": True}
REFUSED: Final[tuple[tuple[str, object, str], ...]] = (
    ("tiemout", "5m", "at '': additional properties 'tiemout' not allowed"),
    ("hook.enbaled", True, "at '/hook': additional properties 'enbaled' not allowed"),
    ("hook.enabled", "yes", "at '/hook/enabled': got string, want boolean"),
    ("advanced.notReadyGrace", "5m", "at '/advanced': additional properties 'notReadyGrace' not allowed"),
    ("backoffLimit", "3", "at '/backoffLimit': got string, want integer"),
    ("trigger", 20260101, "at '/trigger': got number, want string"),
    ("expect.driverVersion", 580.1, "at '/expect/driverVersion': got number, want string"),
    ("imagePullSecrets", [{"nmae": "a"}], "at '/imagePullSecrets/0': missing property 'name'"),
    ("driverClients", [{"namespace": "x", "name": "y", "labels": {"a": "b"}}], "additional properties 'labels'"),
    ("controller.replicas", 0, "at '/controller/replicas': minimum"),
    ("controller.podMonitor.interval", "121s", "at '/controller/podMonitor/interval': '121s' does not match pattern"),
    ("extraEnv", [{"value": "a"}], "at '/extraEnv/0': missing property 'name'"),
    ("extraEnv", [{"name": 5}], "at '/extraEnv/0/name': got number, want string"),
    ("extraEnv", [{"name": "a", "value": 5}], "at '/extraEnv/0/value': got number, want string"),
    ("extraEnv", [{"name": "GPU_OPERATOR_POST_CONFIG", "value": "{}"}], "at '/extraEnv/0/name': 'not' failed"),
    *((key, name, f"at '/{key}': '{name}' does not match pattern")
      for key in ("nameOverride", "fullnameOverride") for name in ("Mine", "a_b", "-a", "a.")),
    ("serviceAccount.name", "Mine", "at '/serviceAccount/name': 'Mine' does not match pattern"),
    *((key, {"a": "b c"}, f"at '/{key}/a': 'b c' does not match pattern")
      for key in ("podLabels", "commonLabels", "nodeSelector")),
    ("jobLabels", {"a b": "c"}, "at '/jobLabels': additional properties 'a b' not allowed"),
    ("global.imageRegistry", "http://x", "at '/global/imageRegistry': 'http://x' does not match pattern"),
    *(("image.tag", tag, "at '/image/tag'") for tag in ("a+b", f"x@{DIGEST}")),
    *(("image.digest", digest, "at '/image/digest'") for digest in (DIGEST[:-1], DIGEST.upper())),
    *(("image.repository", name, "at '/image/repository'") for name in ("Foo/Bar", "a/b:1", "a//b")),
    *(("image.registry", name, "at '/image/registry'") for name in ("https://ghcr.io", "reg:port")),
)  # fmt: skip
"""What the JSON schema refuses: value, and what Helm prints."""
MISTAKES: Final[tuple[tuple[Values, str], ...]] = (
    ({"image.repository": ""}, "this chart is from the sources, which name no image"),
    ({"job.enabled": False}, "so nothing would run"),
    ({**BOTH, "dryRun": True}, "a controller has no end"),
    ({**BOTH, "controller.serviceAccount.name": "gpu-operator-post"}, "would share a ServiceAccount"),
    ({**BOTH, "controller.serviceAccount.create": False}, "controller.serviceAccount.name must name an existing"),
    ({"serviceAccount.create": False}, "serviceAccount.name must name an existing ServiceAccount"),
)
"""What the templates refuse with a sentence."""
VALID: Final[tuple[Values, ...]] = (
    {"timeout": "30s", "advanced.policyGrace": "0s", "image.tag": "v1.2.3_ubi-9", "driver": {"enabled": True}},
    {"timeout": "1h0m08s", "image.digest": DIGEST, "driver": None},
    {"image.registry": "127.0.0.1:5000", "image.repository": "a__b/c-d.e", **BOTH},
    {"image.registry": "[::1]:5000", "driverClients": [{"labels": {"app.kubernetes.io/name": "x"}}]},
    {"image.registry": "", "image.repository": "reg.example:5000/a/b", **BOTH, "controller.podMonitor.interval": "2m"},
    {"extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]},
)


@pytest.mark.parametrize(("path", "value", "sentence"), REFUSED)
def test_the_schema_refuses_a_wrong_value_by_place_and_reason(
    helm: Helm, path: str, value: object, sentence: str
) -> None:
    """Helm prints its place and what was expected."""
    assert sentence in helm.refuse({path: value})


@pytest.mark.parametrize("place", ["/timeout", "/hook/enabled", "/driverClients/0"])
def test_both_helms_refuse_alike(place: str, helms: dict[str, Helm]) -> None:
    """They use the same schema, and print a line for each wrong value."""
    wrong: Values = {"timeout": "25min", "hook.enabled": "yes", "driverClients": [{"name": "y"}]}
    three, four = (helm.refuse(wrong) for helm in helms.values())
    assert f"at '{place}'" in three
    assert f"at '{place}'" in four


@pytest.mark.parametrize(("values", "sentence"), MISTAKES)
def test_values_that_do_not_fit_together_are_refused_with_a_sentence(helm: Helm, values: Values, sentence: str) -> None:
    """The sentence says what to write instead."""
    assert sentence in helm.refuse(values)


@pytest.mark.parametrize("values", VALID, ids=str)
def test_valid_values_are_accepted(helm: Helm, values: Values) -> None:
    """The checks refuse nothing that works."""
    assert helm.render(values).job


FREE: Final = ("nodeSelector", "affinity", "resources", "securityContext", "podSecurityContext", "dashboard.labels")
"""Mappings that belong to the user."""


def _needed(values: Values, block: str = "") -> list[str]:
    """Return each value that is not empty, but those in mappings of the user."""
    found: list[str] = []
    for key, value in values.items():
        path = f"{block}{key}"
        if path.endswith(FREE) or value in ("", None, [], {}):
            continue
        found += _needed(value, f"{path}.") if isinstance(value, dict) else [path]
    return found


def test_no_value_that_the_templates_need_can_be_removed(helm: Helm) -> None:
    """Helm removes a value that is null. Without a strategy, no permission to restart would be rendered."""
    needed = _needed(yaml.safe_load((CHART / "values.yaml").read_text()))
    lines = helm.refuse(dict.fromkeys(needed, None)).splitlines()
    for name in needed:
        block, _, key = f"/{name.replace('.', '/')}".rpartition("/")
        assert any(f"at '{block}': missing" in line and f"'{key}'" in line for line in lines), name
    removable = ("trigger", "tolerations", "nodeSelector", "affinity", "ttlSecondsAfterFinished")
    assert helm.render(dict.fromkeys(removable, None)).job


SCHEMA: Final[dict[str, Any]] = json.loads((CHART / "values.schema.json").read_text())


@pytest.mark.parametrize(
    "values",
    [
        OPERATOR_VALUES,
        {"gpu-operator": OPERATOR_VALUES},
        {"gpuoperator": OPERATOR_VALUES},
        {key: {"any": ["thing"]} for key, rule in SCHEMA["properties"].items() if rule is True},
        {"global.storageClass": "fast"},
    ],
    ids=["the operator's", "below gpu-operator", "below gpuoperator", "every key of its chart", "global"],
)
def test_values_of_other_charts_change_nothing(helm: Helm, values: Values) -> None:
    """Bundlers pass the parent's values to every chart, and ``global`` belongs to all: one file serves them all."""
    assert helm.render(values) == helm.render()
