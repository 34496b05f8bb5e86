"""Values that cannot work fail while rendering, with a sentence that says what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.chart.rendering import Helm, Values

OBJECT = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "namespace": "argocd", "name": "post"}
SHORT = f"sha256:{'a' * 63}"
LEAST = 30
"""Seconds: in less no plugin restarts and is verified."""
UPPER = f"sha256:{'A' * 64}"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        pytest.param({"image.digest": SHORT}, "which is no digest: ", id="short-digest"),
        pytest.param({"image.digest": UPPER}, "which is no digest: ", id="digest-in-capitals"),
        pytest.param({"image.digest": "a" * 64}, "which is no digest: ", id="digest-without-algorithm"),
        pytest.param({"image.tag": "a+b"}, 'image.tag is "a+b", which is no tag: ', id="tag-of-a-chart"),
        pytest.param({"image.tag": f"x@{SHORT}"}, "a digest belongs in image.digest", id="digest-in-the-tag"),
        pytest.param({"image.tag": "-x"}, "which is no tag: ", id="tag-with-a-hyphen-first"),
        pytest.param({"image.repository": ""}, "a chart from the sources names no image", id="no-image"),
        pytest.param(
            {"image.repository": "Foo/Bar"}, '"registry.example/Foo/Bar", which names no image', id="name-in-capitals"
        ),
        pytest.param({"image.repository": "a/b:1"}, "a tag or digest belongs in image.tag", id="tag-in-the-repository"),
        pytest.param({"image.repository": f"a/b@sha256:{'a' * 64}"}, "names no image", id="digest-in-the-repository"),
        pytest.param({"image.repository": "a//b"}, "which names no image", id="two-slashes"),
        pytest.param({"image.registry": "https://ghcr.io"}, "a host without a scheme", id="scheme-of-a-registry"),
        pytest.param({"global.imageRegistry": "http://x"}, "a host without a scheme", id="scheme-of-the-global-one"),
        pytest.param({"image.registry": "reg:port"}, "which names no image", id="port-in-words"),
        pytest.param({"pluginTimeout": "0s"}, 'pluginTimeout is "0s": it must be longer than nothing', id="no-time"),
        pytest.param({"pluginTimeout": "20m", "timeout": "5m"}, "longer than the whole run may take", id="never-acts"),
        pytest.param(
            {"timeout": f"{LEAST - 1}s"},
            f'timeout is "{LEAST - 1}s", too short for even one plugin',
            id="short-timeout",
        ),
        pytest.param({"timeout": "0s"}, "must be longer than nothing", id="timeout-of-nothing"),
        pytest.param({"timeout": "0h0m0s"}, "must be longer than nothing", id="timeout-of-nothing-at-length"),
        pytest.param(
            {"plugin.names": [{"driver": "network", "name": "x"}]},
            'plugin.names names the driver "network", but drivers does not',
            id="name-of-another-driver",
        ),
        pytest.param(
            {"driverClients": [{"driver": "network", "namespace": "a", "name": "b"}]},
            'driverClients names the driver "network", but drivers does not',
            id="client-of-another-driver",
        ),
        pytest.param({"plugin.namespace": "a.b"}, "which is no namespace", id="namespace-with-a-dot"),
        pytest.param(
            {"rbac.scope": "namespace", "rbac.namespaces": ["a_b"]}, "which is no namespace", id="scope-of-no-namespace"
        ),
        pytest.param(
            {"drivers": ["network"], "refreshAfter": ["toolkit"]},
            'refreshAfter names "toolkit", which no driver',
            id="provider",
        ),
        pytest.param(
            {"drivers": ["network"], "expect.chartVersion": "v1"}, "the run could never see it", id="unseen-chart"
        ),
        pytest.param({"controller.podMonitor.interval": "0s"}, "must be longer than nothing", id="interval-of-nothing"),
        pytest.param({"controller.podMonitor.interval": "2m1s"}, "2m is the most", id="interval-too-long"),
        pytest.param({"timeout": "721h"}, "must not be longer than 30 days", id="more-than-a-month"),
        pytest.param({"extraArgs": ["--strategy=rollout-restart"]}, "follow the value strategy", id="strategy"),
        pytest.param({"extraArgs": ["--strategy", "rollout"]}, "the value strategy", id="strategy-in-two-arguments"),
        pytest.param({"extraArgs": ["--driver-client=a/b"]}, "the value driverClients: set that", id="driver-client"),
        pytest.param(
            {"extraArgs": ["--event-target=a.b/c/d"]}, "the value eventTargets: set that", id="event-target-by-argument"
        ),
        pytest.param(
            {"extraEnv": [{"name": "GPU_OPERATOR_POST_DRIVER_CLIENT", "value": "a/b"}]},
            "follow the value driverClients",
            id="client-by-environment",
        ),
        pytest.param({"job.enabled": False}, "nothing would run", id="neither-job-nor-follower"),
        pytest.param({"controller.enabled": True, "dryRun": True}, "a follower is never done", id="dry-follower"),
        pytest.param(
            {"controller.enabled": True, "controller.restartBackoff": "2h"},
            "longer than the longest",
            id="back-off-above-its-end",
        ),
        pytest.param(
            {"controller.enabled": True, "controller.restartBackoff": "0s"},
            "must be longer than nothing",
            id="no-back-off",
        ),
        pytest.param(
            {"controller.enabled": True, "controller.serviceAccount.name": "gpu-operator-post"},
            'would share the ServiceAccount "gpu-operator-post"',
            id="one-account",
        ),
        pytest.param(
            {"controller.enabled": True, "controller.serviceAccount.create": False},
            "so controller.serviceAccount.name must name",
            id="default-account-of-the-follower",
        ),
        pytest.param({"extraArgs": ["--mode=delegate"]}, "follow the value job.mode", id="delegate-by-argument"),
        pytest.param(
            {"controller.enabled": True, "controller.extraArgs": ["--listen=:1"]},
            "the value controller.enabled",
            id="other-port",
        ),
        pytest.param(
            {"controller.enabled": True, "extraArgs": ["--expect-chart-version=v1"]},
            "never done: the Job takes it from the value expect.chartVersion",
            id="expectation-of-the-follower",
        ),
        pytest.param(
            {"extraEnv": [{"name": "GPU_OPERATOR_POST_CIRCUIT_BREAKER_THRESHOLD", "value": "1"}]},
            "takes that, from the value controller.circuitBreaker.threshold",
            id="breaker-of-the-job",
        ),
        pytest.param(
            {"controller.enabled": True, "controller.replicas": 2, "controller.extraArgs": ["--identity=x"]},
            "would all lead at once",
            id="one-identity-of-two",
        ),
        pytest.param({"extraArgs": ["--identity", "x"]}, "would all lead at once", id="identity-of-all"),
        pytest.param(
            {"extraEnv": [{"name": "GPU_OPERATOR_POST_IDENTITY", "value": "x"}]},
            "would all lead at once",
            id="identity-by-environment",
        ),
        pytest.param(
            {"controller.enabled": True, "controller.extraArgs": ["--on-deadline=report"]},
            "takes it from the value onDeadline",
            id="deadline-of-the-follower",
        ),
        pytest.param(
            {"controller.enabled": True, "extraArgs": ["--api-patience=2m"]},
            "takes it from the value extraEnv",
            id="patience-of-the-controller",
        ),
        pytest.param(
            {"controller.enabled": True, "controller.extraArgs": ["--restart-backoff=3h"]},
            "from the value controller.restartBackoff:",
            id="back-off-by-argument",
        ),
        pytest.param(
            {"controller.enabled": True, "extraArgs": ["--max-unavailable", "0"]},
            "from the value controller.maxUnavailable",
            id="unavailable-by-argument",
        ),
        pytest.param(
            {"extraArgs": ["--max-unavailable=0%"]}, "nothing could be restarted", id="no-unavailable-of-the-job"
        ),
        pytest.param(
            {"controller.enabled": True, "extraEnv": [{"name": "GPU_OPERATOR_POST_MAX_UNAVAILABLE", "value": "0"}]},
            "nothing could be restarted",
            id="no-unavailable-by-environment",
        ),
        pytest.param(
            {"controller.enabled": True, "controller.maxUnavailable": "0%"},
            "nothing could be restarted",
            id="no-unavailable",
        ),
    ],
)
def test_a_value_that_cannot_work_is_refused_with_a_sentence(helm: Helm, values: Values, sentence: str) -> None:
    """Before anything reaches a cluster, and nothing unchecked reaches a permission or an expression."""
    assert sentence in helm.refuse(values)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        pytest.param({"timeout": "25 minutes"}, "is no duration", id="duration-in-words"),
        pytest.param({"timeout": "m"}, "is no duration", id="unit-alone"),
        pytest.param({"timeout": "-5m"}, "is no duration", id="negative"),
        pytest.param({"drivers": ["cpu"]}, 'names "cpu", which is unknown: choose among gpu, network', id="driver"),
        pytest.param(
            {"strategy": "Rollout"},
            'strategy is "Rollout": choose among delete-stale-pods, rollout-restart',
            id="strategy",
        ),
        pytest.param({"rbac.scope": "Namespace"}, "choose among cluster, namespace", id="scope-in-capitals"),
        pytest.param({"onDeadline": "ignore"}, "choose among fail, report", id="deadline"),
        pytest.param({"onManualUpgrade": "skip"}, "choose among report, wait, fail", id="manual"),
        pytest.param({"onMissingPlugin": "fail"}, "choose among skip, wait", id="absent"),
        pytest.param({"logFormat": "xml"}, "choose among text, json", id="log-format"),
        pytest.param({"maxParallelRestarts": -1}, "0 is no bound, and less means nothing", id="negative-bound"),
        pytest.param({"strategy": None}, "choose among delete-stale-pods, rollout-restart", id="no-strategy"),
        pytest.param({"pluginTimeout": "abc"}, 'pluginTimeout is "abc", which is no duration', id="plugin-timeout"),
        pytest.param({"stallTimeout": "1.5h"}, 'stallTimeout is "1.5h", which is no duration', id="stall-timeout"),
        pytest.param({"drivers": []}, "drivers is empty: name at least one", id="no-stack"),
        pytest.param({"job.mode": "delegate"}, "there is no controller to delegate to", id="no-controller"),
        pytest.param({"job.mode": "x"}, "choose among complete, delegate", id="mode"),
        pytest.param({"controller.replicas": 0}, "controller.replicas is 0: at least 1", id="no-replica"),
        pytest.param({"controller.maxUnavailable": 1234567}, 'controller.maxUnavailable is "1234567"', id="a-million"),
        pytest.param({"controller.maxUnavailable": 1.5}, 'controller.maxUnavailable is "1.5"', id="one-and-a-half"),
        pytest.param({"controller.maxUnavailable": "101%"}, 'controller.maxUnavailable is "101%"', id="more-than-all"),
        pytest.param(
            {"controller.circuitBreaker.threshold": -1},
            'controller.circuitBreaker.threshold is "-1"',
            id="negative-share",
        ),
        pytest.param(
            {"controller.circuitBreaker.reset": "soon"}, "controller.circuitBreaker.reset", id="reset-in-words"
        ),
        pytest.param(
            {"controller.podMonitor.interval": "soon"}, "controller.podMonitor.interval is", id="interval-in-words"
        ),
    ],
)
def test_what_the_schema_refuses_is_refused_without_it_too(helm: Helm, values: Values, sentence: str) -> None:
    """Some tools skip schema validation; the templates still explain themselves."""
    assert sentence in helm.refuse(values, "--skip-schema-validation")


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"timeout": f"{LEAST}s"}, id="shortest-timeout"),
        pytest.param({"timeout": "5m", "pluginTimeout": "5m"}, id="plugin-timeout-as-long"),
        pytest.param({"stallTimeout": "0s"}, id="never-stalls"),
        pytest.param({"image.registry": "127.0.0.1:5000", "image.repository": "a__b/c-d.e"}, id="address-and-port"),
        pytest.param({"image.registry": "[::1]:5000"}, id="address-in-brackets"),
        pytest.param({"image.registry": "", "image.repository": "reg.example:5000/a/b"}, id="registry-in-the-name"),
        pytest.param({"image.digest": f"sha256:{'0123456789abcdef' * 4}"}, id="digest"),
        pytest.param({"image.tag": "v1.2.3_ubi-9"}, id="tag"),
        pytest.param({"driverClients": [{"labels": {"app.kubernetes.io/name": "x"}}]}, id="client-by-labels"),
        pytest.param({"driverClients": [{"namespace": "a", "name": "b.c"}]}, id="client-by-name"),
        pytest.param(
            {"drivers": ["gpu", "network"], "plugin.names": [{"driver": "network", "name": "x"}, "y"]},
            id="names-of-two-drivers",
        ),
        pytest.param({"extraArgs": ["--operator-quiet=30s", "-v"]}, id="arguments-without-permissions"),
        pytest.param({"controller.podMonitor.interval": "2m"}, id="longest-interval"),
        pytest.param({"extraArgs": ["--max-unavailable=10%", "--on-deadline=report"]}, id="arguments-of-the-job"),
        pytest.param(
            {"controller.enabled": True, "extraEnv": [{"name": "GPU_OPERATOR_POST_MAX_UNAVAILABLE", "value": "10"}]},
            id="bound-of-the-job-beside-a-follower",
        ),
        pytest.param({"eventTargets": [OBJECT, {**OBJECT, "name": "a.b"}]}, id="eventTargets"),
        pytest.param({"extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]}, id="environment"),
    ],
)
def test_what_can_work_is_not_refused(helm: Helm, values: Values) -> None:
    """The checks know what is legal."""
    assert helm.render(values).job


def test_a_disabled_chart_is_not_checked(helm: Helm) -> None:
    """Nothing is rendered, so nothing can be wrong with it."""
    assert helm.render({"enabled": False, "timeout": "1s", "image.tag": "a+b"}).objects == ()
