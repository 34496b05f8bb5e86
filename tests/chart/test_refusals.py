"""Values that cannot work fail while rendering, with a sentence that says what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.chart.rendering import Helm, Values

OBJECT = {"resource": "applications.argoproj.io", "namespace": "argocd", "name": "post"}
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
        pytest.param({"consumer.names": ["a/b"]}, 'holds "a/b", which names no DaemonSet', id="namespace-in-a-name"),
        pytest.param({"consumer.names": ["Plugin"]}, "which names no DaemonSet", id="name-in-capitals"),
        pytest.param({"consumer.names": ['x"]']}, "which names no DaemonSet", id="code-in-a-name"),
        pytest.param({"consumer.names": ["gpu:"]}, "which names no DaemonSet", id="stack-without-a-name"),
        pytest.param({"consumer.names": ["network:x"]}, 'stacks does not name "network"', id="name-of-another-stack"),
        pytest.param({"consumers": ["exporter"]}, "write NAMESPACE/NAME of a DaemonSet, or labels", id="name-alone"),
        pytest.param({"consumers": ["a/b/c"]}, "write NAMESPACE/NAME of a DaemonSet, or labels", id="three-parts"),
        pytest.param({"consumers": ["/b"]}, "which is no namespace", id="no-namespace"),
        pytest.param({"consumers": ["A/b"]}, "which is no namespace", id="namespace-in-capitals"),
        pytest.param({"consumers": ["a/"]}, "which names no DaemonSet", id="namespace-without-a-name"),
        pytest.param({"consumers": ["cpu:a/b"]}, 'stacks does not name "cpu"', id="unknown-stack-of-a-consumer"),
        pytest.param({"consumers": ["app=x, tier=y"]}, 'in which " tier=y" is no label', id="space-in-labels"),
        pytest.param({"consumers": ["app=x,tier"]}, 'in which "tier" is no label', id="label-without-a-value"),
        pytest.param({"consumers": ["app!=x"]}, "is no label: write key=value", id="inequality"),
        pytest.param({"consumers": ['app=x"']}, "is no label: write key=value", id="code-in-a-label"),
        pytest.param({"consumer.namespace": "a.b"}, "which is no namespace", id="namespace-with-a-dot"),
        pytest.param(
            {"rbac.scope": "namespace", "rbac.namespaces": ["a_b"]}, "which is no namespace", id="scope-of-no-namespace"
        ),
        pytest.param(
            {"stacks": ["network"], "providers": ["toolkit"]},
            'providers names "toolkit", which no stack',
            id="provider",
        ),
        pytest.param(
            {"stacks": ["network"], "expect.chartVersion": "v1"}, "the run could never see it", id="unseen-chart"
        ),
        pytest.param({"follow.podMonitor.interval": "0s"}, "must be longer than nothing", id="interval-of-nothing"),
        pytest.param({"follow.podMonitor.interval": "2m1s"}, "2m is the most", id="interval-too-long"),
        pytest.param({"timeout": "721h"}, "must not be longer than 30 days", id="more-than-a-month"),
        pytest.param({"extraArgs": ["--strategy=rollout-restart"]}, "follow the value strategy", id="strategy"),
        pytest.param({"extraArgs": ["--strategy", "rollout"]}, "the value strategy", id="strategy-in-two-arguments"),
        pytest.param({"extraArgs": ["--driver-client=a/b"]}, "the value consumers: set that", id="driver-client"),
        pytest.param(
            {"extraArgs": ["--event-target=a.b/c/d"]}, "the value regarding: set that", id="regarding-by-argument"
        ),
        pytest.param(
            {"extraEnv": [{"name": "GPU_OPERATOR_POST_DRIVER_CLIENT", "value": "a/b"}]},
            "follow the value consumers",
            id="consumer-by-environment",
        ),
        pytest.param({"job.enabled": False}, "nothing would run", id="neither-job-nor-follower"),
        pytest.param({"follow.enabled": True, "dryRun": True}, "a follower is never done", id="dry-follower"),
        pytest.param(
            {"follow.enabled": True, "follow.restartBackoff": "2h"},
            "longer than the longest",
            id="back-off-above-its-end",
        ),
        pytest.param(
            {"follow.enabled": True, "follow.restartBackoff": "0s"}, "must be longer than nothing", id="no-back-off"
        ),
        pytest.param(
            {"follow.enabled": True, "follow.serviceAccount.name": "gpu-operator-post"},
            'would share the ServiceAccount "gpu-operator-post"',
            id="one-account",
        ),
        pytest.param(
            {"follow.enabled": True, "follow.serviceAccount.create": False},
            "so follow.serviceAccount.name must name",
            id="default-account-of-the-follower",
        ),
        pytest.param({"extraArgs": ["--mode=delegate"]}, "follow the value hook.wait", id="handover-by-argument"),
        pytest.param(
            {"follow.enabled": True, "follow.extraArgs": ["--listen=:1"]}, "the value follow.enabled", id="other-port"
        ),
        pytest.param(
            {"follow.enabled": True, "extraArgs": ["--expect-chart-version=v1"]},
            "never done: the Job takes it from the value expect.chartVersion",
            id="expectation-of-the-follower",
        ),
        pytest.param(
            {"extraEnv": [{"name": "GPU_OPERATOR_POST_CIRCUIT_BREAKER_THRESHOLD", "value": "1"}]},
            "takes that, from the value follow.breaker.share",
            id="breaker-of-the-job",
        ),
        pytest.param(
            {"follow.enabled": True, "follow.replicas": 2, "follow.extraArgs": ["--identity=x"]},
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
            {"follow.enabled": True, "follow.extraArgs": ["--on-deadline=report"]},
            "takes it from the value onDeadline",
            id="deadline-of-the-follower",
        ),
        pytest.param(
            {"follow.enabled": True, "extraArgs": ["--api-patience=2m"]},
            "takes it from the value extraEnv",
            id="patience-of-the-controller",
        ),
        pytest.param(
            {"follow.enabled": True, "follow.extraArgs": ["--restart-backoff=3h"]},
            "from the value follow.restartBackoff:",
            id="back-off-by-argument",
        ),
        pytest.param(
            {"follow.enabled": True, "extraArgs": ["--max-unavailable", "0"]},
            "from the value follow.maxUnavailable",
            id="unavailable-by-argument",
        ),
        pytest.param(
            {"extraArgs": ["--max-unavailable=0%"]}, "nothing could be restarted", id="no-unavailable-of-the-job"
        ),
        pytest.param(
            {"follow.enabled": True, "extraEnv": [{"name": "GPU_OPERATOR_POST_MAX_UNAVAILABLE", "value": "0"}]},
            "nothing could be restarted",
            id="no-unavailable-by-environment",
        ),
        pytest.param(
            {"follow.enabled": True, "follow.maxUnavailable": "0%"}, "nothing could be restarted", id="no-unavailable"
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
        pytest.param(
            {"stacks": ["cpu"]}, 'names "cpu", which is no driver stack: choose among gpu, network', id="stack"
        ),
        pytest.param({"strategy": "Rollout"}, 'strategy is "Rollout": choose among stale-pods, rollout', id="strategy"),
        pytest.param({"rbac.scope": "Namespace"}, "choose among cluster, namespace", id="scope-in-capitals"),
        pytest.param({"onDeadline": "ignore"}, "choose among fail, report", id="deadline"),
        pytest.param({"whenManual": "skip"}, "choose among report, wait, fail", id="manual"),
        pytest.param({"whenAbsent": "fail"}, "choose among skip, wait", id="absent"),
        pytest.param({"logFormat": "xml"}, "choose among text, json", id="log-format"),
        pytest.param({"maxParallelRestarts": -1}, "0 is no bound, and less means nothing", id="negative-bound"),
        pytest.param({"strategy": None}, "choose among stale-pods, rollout", id="no-strategy"),
        pytest.param({"pluginTimeout": "abc"}, 'pluginTimeout is "abc", which is no duration', id="plugin-timeout"),
        pytest.param({"stallTimeout": "1.5h"}, 'stallTimeout is "1.5h", which is no duration', id="stall-timeout"),
        pytest.param({"stacks": []}, "stacks is empty: name at least one", id="no-stack"),
        pytest.param({"hook.wait": "handover"}, "nobody would take over", id="handover-to-nobody"),
        pytest.param({"hook.wait": "x"}, "choose among complete, handover", id="wait"),
        pytest.param({"follow.replicas": 0}, "follow.replicas is 0: at least 1", id="no-replica"),
        pytest.param({"follow.maxUnavailable": 1234567}, 'follow.maxUnavailable is "1234567"', id="a-million"),
        pytest.param({"follow.maxUnavailable": 1.5}, 'follow.maxUnavailable is "1.5"', id="one-and-a-half"),
        pytest.param({"follow.maxUnavailable": "101%"}, 'follow.maxUnavailable is "101%"', id="more-than-all"),
        pytest.param({"follow.breaker.share": -1}, 'follow.breaker.share is "-1"', id="negative-share"),
        pytest.param({"follow.breaker.reset": "soon"}, "follow.breaker.reset", id="reset-in-words"),
        pytest.param({"follow.podMonitor.interval": "soon"}, "follow.podMonitor.interval is", id="interval-in-words"),
        pytest.param({"regarding": ["a.b/c/d"]}, "write resource, namespace and name", id="object-as-a-text"),
        pytest.param({"regarding": [{**OBJECT, "resource": "jobs"}]}, "the plural and the group", id="no-group"),
        pytest.param({"regarding": [{**OBJECT, "resource": 'a"]}.b'}]}, "the plural and the group", id="code"),
        pytest.param({"regarding": [{**OBJECT, "namespace": "a.b"}]}, "which is no namespace", id="dotted-namespace"),
        pytest.param({"regarding": [{"resource": "a.b", "name": "c"}]}, "write resource, namespace", id="no-namespace"),
        pytest.param({"regarding": [{**OBJECT, "kind": "X"}]}, "write resource, namespace and name", id="unknown-key"),
        pytest.param(
            {"regarding": [{**OBJECT, "name": name} for name in "abcde"]}, "names 5 objects: 4 are", id="five-objects"
        ),
        pytest.param({"regarding": [{**OBJECT, "name": "Post"}]}, 'the name "Post", which is none', id="capitals"),
        pytest.param({"regarding": [{**OBJECT, "name": 'a"'}]}, "which is none", id="code-in-a-name"),
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
        pytest.param({"consumers": ["app.kubernetes.io/name=dcgm-exporter", "a/b.c", "present="]}, id="consumers"),
        pytest.param({"stacks": ["gpu", "network"], "consumer.names": ["network:x", "y"]}, id="names-of-two-stacks"),
        pytest.param({"extraArgs": ["--operator-quiet=30s", "-v"]}, id="arguments-without-permissions"),
        pytest.param({"follow.podMonitor.interval": "2m"}, id="longest-interval"),
        pytest.param({"extraArgs": ["--max-unavailable=10%", "--on-deadline=report"]}, id="arguments-of-the-job"),
        pytest.param(
            {"follow.enabled": True, "extraEnv": [{"name": "GPU_OPERATOR_POST_MAX_UNAVAILABLE", "value": "10"}]},
            id="bound-of-the-job-beside-a-follower",
        ),
        pytest.param({"regarding": [OBJECT, {**OBJECT, "name": "a.b"}]}, id="regarding"),
        pytest.param({"extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]}, id="environment"),
    ],
)
def test_what_can_work_is_not_refused(helm: Helm, values: Values) -> None:
    """The checks know what is legal."""
    assert helm.render(values).job


def test_a_disabled_chart_is_not_checked(helm: Helm) -> None:
    """Nothing is rendered, so nothing can be wrong with it."""
    assert helm.render({"enabled": False, "timeout": "1s", "image.tag": "a+b"}).objects == ()
