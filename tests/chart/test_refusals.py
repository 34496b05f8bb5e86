"""Mistakes fail while the chart renders, with a sentence that says what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.chart.rendering import Helm, Values

SCOPED: Values = {"rbac.scope": "namespace", "rbac.namespaces": ["operator"]}
BOTH: Values = {"controller.enabled": True}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        pytest.param({"image.repository": ""}, "this chart is from the sources, which name no image", id="no-image"),
        pytest.param({"driver": ["gpu"]}, "driver is a list: did you mean drivers?", id="driver-for-drivers"),
        pytest.param({"timeout": "25min"}, 'timeout is "25min", which is not a duration: write', id="minutes"),
        pytest.param({"timeout": "25"}, 'timeout is "25", which is not a duration', id="no-unit"),
        pytest.param({"timeout": ""}, 'timeout is "", which is not a duration', id="empty"),
        pytest.param({"timeout": "1m1h"}, "which is not a duration", id="wrong-order"),
        pytest.param({"stallTimeout": "1.5h"}, 'stallTimeout is "1.5h", which is not a duration', id="fraction"),
        pytest.param({"timeout": "29s"}, 'timeout is "29s": at least 30s', id="short-timeout"),
        pytest.param({"timeout": "0h0m0s"}, 'timeout is "0h0m0s": at least 30s', id="timeout-of-nothing"),
        pytest.param({"job.enabled": False}, "so nothing would run", id="neither-job-nor-controller"),
        pytest.param({"job.mode": "delegate"}, "there is no controller to delegate to", id="delegate"),
        pytest.param({**BOTH, "dryRun": True}, "a controller has no end", id="dry-run-of-the-controller"),
        pytest.param(
            {**BOTH, "controller.serviceAccount.name": "gpu-operator-post"},
            "would share a ServiceAccount",
            id="shared-account",
        ),
        pytest.param(
            {**BOTH, "controller.serviceAccount.create": False},
            "controller.serviceAccount.name must name an existing ServiceAccount",
            id="default-account-of-the-controller",
        ),
        pytest.param(
            {"serviceAccount.create": False},
            "serviceAccount.name must name an existing ServiceAccount",
            id="default-account",
        ),
        pytest.param({"rbac.scope": "namespace"}, "rbac.namespaces is empty", id="scope-without-namespaces"),
        pytest.param({"rbac.namespaces": ["a"]}, "only with rbac.scope: namespace", id="namespaces-without-scope"),
        pytest.param(
            {**SCOPED, "plugin.namespace": "x"}, 'plugin.namespace is "x", which is not in', id="plugin-out-of-reach"
        ),
        pytest.param(
            {**SCOPED, "driverClients": [{"namespace": "x", "name": "y"}]},
            "driverClients names x/y, which is not in rbac.namespaces",
            id="client-out-of-reach",
        ),
        pytest.param(
            {"driverClients": [{"name": "y"}]},
            "set either namespace and name, or labels",
            id="client-without-namespace",
        ),
        pytest.param(
            {"driverClients": [{"namespace": "x", "name": "y", "labels": {"a": "b"}}]},
            "set either namespace and name, or labels",
            id="client-by-name-and-labels",
        ),
        pytest.param(
            {"extraEnv": [{"name": "GPU_OPERATOR_POST_CONFIG", "value": "{}"}]},
            "the chart sets the variables of the program",
            id="settings-by-environment",
        ),
    ],
)
def test_a_mistake_is_refused_with_a_sentence(helm: Helm, values: Values, sentence: str) -> None:
    """Before anything is installed."""
    assert sentence in helm.refuse(values)


def test_all_mistakes_are_named_at_once(helm: Helm) -> None:
    """You need not find one after the other."""
    message = helm.refuse({"timeout": "25min", "job.mode": "delegate", "rbac.scope": "namespace"})
    for sentence in ("which is not a duration", "there is no controller", "rbac.namespaces is empty"):
        assert sentence in message


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"timeout": "30s"}, id="shortest-timeout"),
        pytest.param({"timeout": "1h0m08s"}, id="leading-zeros"),
        pytest.param({"stallTimeout": "0s"}, id="never-stalls"),
        pytest.param({"image.registry": "127.0.0.1:5000", "image.repository": "a__b/c-d.e"}, id="address-and-port"),
        pytest.param({"image.registry": "[::1]:5000"}, id="address-in-brackets"),
        pytest.param({"image.registry": "", "image.repository": "reg.example:5000/a/b"}, id="registry-in-the-name"),
        pytest.param({"image.digest": f"sha256:{'0123456789abcdef' * 4}"}, id="digest"),
        pytest.param({"image.tag": "v1.2.3_ubi-9"}, id="tag"),
        pytest.param({"driverClients": [{"labels": {"app.kubernetes.io/name": "x"}}]}, id="client-by-labels"),
        pytest.param({**BOTH, "controller.podMonitor.interval": "2m"}, id="longest-interval"),
        pytest.param({"extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]}, id="environment"),
        pytest.param({"driver": {"enabled": True}}, id="driver-of-the-operator"),
        pytest.param({"driver": None}, id="no-driver-of-the-operator"),
    ],
)
def test_what_can_work_is_not_refused(helm: Helm, values: Values) -> None:
    """The checks accept what is valid."""
    assert helm.render(values).job


def test_a_disabled_chart_is_not_checked(helm: Helm) -> None:
    """Nothing is rendered, so nothing can be wrong with it."""
    assert helm.render({"enabled": False, "timeout": "1s", "rbac.scope": "namespace"}).objects == ()
