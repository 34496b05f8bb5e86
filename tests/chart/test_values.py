"""Which values the chart accepts and refuses, before anything reaches a cluster, and that all are documented."""

from __future__ import annotations

from itertools import product
from typing import Final

import yaml

from tests.chart.parent_values import ROOT_KEYS
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
DIGEST: Final = "0123456789abcdef" * 4
NAMELESS: Final[Values] = {"extraEnv": [{"value": "a"}, {"name": 5}, {"name": "a", "value": 5}]}
OVERRIDES: Final = ("nameOverride", "fullnameOverride")
LABELS: Final = ("podLabels", "commonLabels", "nodeSelector")
SCHEMA: Final[tuple[tuple[Values, str, str], ...]] = (
    ({"tiemout": "5m"}, "at ''", "'tiemout' not allowed"),
    ({"hook.enbaled": True}, "at '/hook'", "'enbaled' not allowed"),
    ({"hook.enabled": "yes"}, "at '/hook/enabled'", "got string, want boolean"),
    ({"timeout": "25min"}, "at '/timeout'", "pattern"),
    ({"advanced.notReadyGrace": "5m"}, "at '/advanced'", "'notReadyGrace' not allowed"),
    ({"backoffLimit": "3"}, "at '/backoffLimit'", "got string, want integer"),
    ({"trigger": 20260101}, "at '/trigger'", "got number, want string"),
    ({"expect.driverVersion": 580.1}, "at '/expect/driverVersion'", "want string"),
    ({"imagePullSecrets": [{"nmae": "a"}]}, "at '/imagePullSecrets/0'", ""),
    ({"controller.replicas": 0}, "at '/controller/replicas'", "minimum"),
    ({"controller.podMonitor.interval": "121s"}, "/interval'", "pattern"),
    (NAMELESS, "at '/extraEnv/0'", "missing property 'name'"),
    (NAMELESS, "at '/extraEnv/1/name'", "want string"),
    (NAMELESS, "at '/extraEnv/2/value'", "got number, want string"),
    *(({key: name}, f"at '/{key}'", "pattern") for key in OVERRIDES for name in ("Mine", "a_b", "-a", "a.")),
    ({"serviceAccount.name": "Mine"}, "at '/serviceAccount/name'", "pattern"),
    *(({key: {"a": "b c"}}, f"at '/{key}/a'", "pattern") for key in LABELS),
    ({"jobLabels": {"a b": "c"}}, "at '/jobLabels'", "'a b' not allowed"),
    ({"global.imageRegistry": "http://x"}, "at '/global/imageRegistry'", "pattern"),
    *(({"image.tag": tag}, "at '/image/tag'", "pattern") for tag in ("a+b", f"x@sha256:{'a' * 64}")),
    *(({"image.digest": f"sha256:{hexa}"}, "at '/image/digest'", "pattern") for hexa in ("a" * 63, "A" * 64)),
    *(({"image.repository": name}, "at '/image/repository'", "pattern") for name in ("Foo/Bar", "a/b:1", "a//b")),
    *(({"image.registry": name}, "at '/image/registry'", "pattern") for name in ("https://ghcr.io", "reg:port")),
)
"""What the JSON schema refuses: values, where, and why."""
BOTH: Final[Values] = {"controller.enabled": True}
CLIENT: Final = "set either namespace and name, or labels"
MISTAKES: Final[tuple[tuple[Values, str], ...]] = (
    ({"image.repository": ""}, "this chart is from the sources, which name no image"),
    ({"timeout": "29s"}, 'timeout is "29s": at least 30s'),
    ({"job.enabled": False}, "so nothing would run"),
    ({**BOTH, "dryRun": True}, "a controller has no end"),
    ({**BOTH, "controller.serviceAccount.name": "gpu-operator-post"}, "would share a ServiceAccount"),
    ({**BOTH, "controller.serviceAccount.create": False}, "controller.serviceAccount.name must name an existing"),
    ({"serviceAccount.create": False}, "serviceAccount.name must name an existing ServiceAccount"),
    ({"driverClients": [{"name": "y"}]}, CLIENT),
    ({"driverClients": [{"namespace": "x", "name": "y", "labels": {"a": "b"}}]}, CLIENT),
    ({"extraEnv": [{"name": "GPU_OPERATOR_POST_CONFIG", "value": "{}"}]}, "the chart sets the variables of the"),
)
"""What the templates refuse with a sentence."""


def test_the_schema_refuses_a_wrong_value_by_place_and_reason(helms: dict[str, Helm]) -> None:
    """Both Helms print a line for each wrong value, with its place and what was expected."""
    batches: list[dict[str, tuple[Values, str]]] = []
    for values, place, reason in SCHEMA:
        if all(place in batch for batch in batches):
            batches.append({})
        next(batch for batch in batches if place not in batch)[place] = (values, reason)
    for batch, (name, helm) in product(batches, helms.items()):
        lines = helm.refuse({key: value for values, _ in batch.values() for key, value in values.items()}).splitlines()
        for place, (values, reason) in batch.items():
            assert any(place in line and reason in line for line in lines), f"{name}, {values}: {lines}"


def test_a_mistake_is_refused_with_a_sentence(helm: Helm, helms: dict[str, Helm]) -> None:
    """The sentence says what to write instead. One run reports all mistakes, with both Helms."""
    for values, sentence in MISTAKES:
        assert sentence in helm.refuse(values), values
    for each in helms.values():
        message = each.refuse({"timeout": "29s", "job.enabled": False, "driverClients": [{"name": "y"}]})
        for sentence in ("at least 30s", "nothing would run", CLIENT):
            assert sentence in message


VALID: Final[tuple[Values, ...]] = (
    {"timeout": "30s", "advanced.policyGrace": "0s", "image.tag": "v1.2.3_ubi-9", "driver": {"enabled": True}},
    {"timeout": "1h0m08s", "image.digest": f"sha256:{DIGEST}", "driver": None},
    {"image.registry": "127.0.0.1:5000", "image.repository": "a__b/c-d.e", **BOTH},
    {"image.registry": "[::1]:5000", "driverClients": [{"labels": {"app.kubernetes.io/name": "x"}}]},
    {"image.registry": "", "image.repository": "reg.example:5000/a/b", **BOTH, "controller.podMonitor.interval": "2m"},
    {"extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]},
)


def test_valid_values_are_accepted(helm: Helm) -> None:
    """The checks refuse nothing that works."""
    for values in VALID:
        assert helm.render(values).job, values


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


def test_values_of_other_charts_change_nothing(helm: Helm) -> None:
    """Bundlers pass the parent's values to every chart, and ``global`` belongs to all: one file serves them all."""
    others = [OPERATOR_VALUES, {"gpu-operator": OPERATOR_VALUES}, {"gpuoperator": OPERATOR_VALUES}]
    every_key = {key: {"any": ["thing"]} for key in ROOT_KEYS}
    for values in (*others, every_key, {"global.storageClass": "fast"}):
        assert helm.render(values) == helm.render(), values
