"""The pod: image, security, placement, and what users add to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from tests.chart.rendering import CHART

if TYPE_CHECKING:
    from tests.chart.rendering import Helm, Values

APP_VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
NAME = "team/gpu-operator-post"
DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("values", "image"),
    [
        pytest.param({}, f"registry.example/{NAME}:{APP_VERSION}", id="default"),
        pytest.param({"image.tag": "1.2.3"}, f"registry.example/{NAME}:1.2.3", id="tag"),
        pytest.param({"image.digest": DIGEST}, f"registry.example/{NAME}@{DIGEST}", id="digest"),
        pytest.param(
            {"image.digest": DIGEST, "image.tag": "1"}, f"registry.example/{NAME}@{DIGEST}", id="digest-beats-tag"
        ),
        pytest.param({"image.registry": "reg:5000"}, f"reg:5000/{NAME}:{APP_VERSION}", id="registry-with-port"),
        pytest.param({"image.registry": "reg/mirror/"}, f"reg/mirror/{NAME}:{APP_VERSION}", id="registry-with-path"),
        pytest.param({"image.registry": ""}, f"{NAME}:{APP_VERSION}", id="no-registry"),
        pytest.param({"global.imageRegistry": "g"}, f"g/{NAME}:{APP_VERSION}", id="global-registry"),
        pytest.param(
            {"global.imageRegistry": "g", "image.registry": "r", "image.repository": "a/b", "image.tag": "c"},
            "g/a/b:c",
            id="global-beats-own-registry",
        ),
    ],
)
def test_image_reference(helm: Helm, values: Values, image: str) -> None:
    """A digest beats the tag, and the registry for all charts beats our own."""
    assert image == helm.render(values).container["image"]


def test_pull_policy(helm: Helm) -> None:
    """The pull policy is passed on."""
    assert helm.render({"image.pullPolicy": "Always"}).container["imagePullPolicy"] == "Always"


def test_pull_secrets_reach_pod_and_service_account_once_each(helm: Helm) -> None:
    """Names and objects are accepted, ours and everybody's; the ServiceAccount has them for injected containers."""
    rendered = helm.render({"imagePullSecrets": ["a", {"name": "b"}], "global.imagePullSecrets": [{"name": "a"}, "c"]})
    expected = [{"name": "a"}, {"name": "c"}, {"name": "b"}]
    assert expected == rendered.pod["imagePullSecrets"]
    assert expected == rendered.one("ServiceAccount")["imagePullSecrets"]


def test_without_pull_secrets_there_is_no_field(helm: Helm) -> None:
    """An empty list would be a difference for ever in the eyes of GitOps tools."""
    rendered = helm.render()
    assert "imagePullSecrets" not in rendered.pod
    assert "imagePullSecrets" not in rendered.one("ServiceAccount")


def test_the_pod_passes_the_restricted_pod_security_standard(helm: Helm) -> None:
    """Every control of the standard is stated, and the root file system is read-only besides."""
    rendered = helm.render()
    assert rendered.pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert rendered.container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & rendered.pod.keys()


def test_no_user_is_fixed(helm: Helm) -> None:
    """OpenShift assigns one from the namespace's range and refuses any other."""
    text = yaml.safe_dump(helm.render().job)
    assert "runAsUser" not in text
    assert "fsGroup" not in text


def test_requests_and_limits_are_set(helm: Helm) -> None:
    """Under a quota a pod without them is never created, and Helm hangs."""
    resources = helm.render().container["resources"]
    assert resources["requests"].keys() == resources["limits"].keys() == {"cpu", "memory"}


def test_default_placement_prefers_linux_nodes_without_gpus(helm: Helm) -> None:
    """GPU nodes are drained meanwhile; but on a cluster that has nothing else the pod must still run."""
    pod = helm.render().pod
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
    (preferred,) = pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    (expression,) = preferred["preference"]["matchExpressions"]
    assert expression == {"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": ["true"]}
    assert "tolerations" not in pod


def test_null_clears_a_default(helm: Helm) -> None:
    """Maps are merged by Helm, so an empty one could not clear anything."""
    pod = helm.render({"affinity": None, "nodeSelector": None, "podSecurityContext": None, "resources": None}).pod
    assert not {"affinity", "nodeSelector", "securityContext"} & pod.keys()
    assert "resources" not in pod["containers"][0]


def test_what_users_set_for_the_pod_reaches_it(helm: Helm) -> None:
    """Placement, environment and volumes are passed on as they are."""
    values: Values = {
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "priorityClassName": "high",
        "runtimeClassName": "gvisor",
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
    }
    rendered = helm.render(values)
    for field in ("tolerations", "priorityClassName", "runtimeClassName"):
        assert values[field] == rendered.pod[field]
    assert values["extraVolumes"] == rendered.pod["volumes"]
    assert values["extraEnv"] == rendered.container["env"][1:]
    assert values["extraVolumeMounts"] == rendered.container["volumeMounts"]


def test_the_end_of_the_pod_is_prompt_and_tells_its_story(helm: Helm) -> None:
    """Flux discards logs, so the termination message must have something even after a crash."""
    rendered = helm.render()
    assert rendered.container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert rendered.pod["terminationGracePeriodSeconds"] <= 30
