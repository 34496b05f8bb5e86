"""The follower: a Deployment beside the Job, or alone, that shares with it all but what a single run is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.chart.rendering import Helm, Manifests, Object, Values

BOTH: Final[Values] = {"controller.enabled": True}
ALONE: Final[Values] = {"controller.enabled": True, "job.enabled": False}
NAME: Final = "gpu-operator-post-controller"
LONG: Final = "r" * 53
"""The longest release name that Helm admits."""
SHARED: Final[Values] = {
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "priorityClassName": "high",
    "runtimeClassName": "gvisor",
    "imagePullSecrets": ["a"],
    "image.digest": f"sha256:{'0' * 64}",
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
    "serviceAccount.automountServiceAccountToken": False,
}


def _kinds(rendered: Manifests) -> set[str]:
    return {item["kind"] for item in rendered.objects}


def test_nothing_of_it_is_rendered_by_default(helm: Helm) -> None:
    """Neither the Deployment nor an account, a role or a policy of its own."""
    rendered = helm.render()
    assert "Deployment" not in _kinds(rendered)
    assert not [item for item in rendered.objects if NAME in str(item)]


def test_beside_the_job_it_changes_nothing_of_it(helm: Helm) -> None:
    """Who adds a follower gets no other Job, and a plain Job keeps its name."""
    for mode in ({}, {"hook.enabled": False}):
        assert helm.render(mode).job == helm.render({**mode, **BOTH}).job


def test_it_can_stand_alone(helm: Helm) -> None:
    """No Job, nor what only the Job needs: its ConfigMap, its account, its roles."""
    rendered = helm.render(ALONE)
    assert {"Job", "ConfigMap"}.isdisjoint(_kinds(rendered))
    for kind in ("Deployment", "ServiceAccount", "Role", "RoleBinding"):
        assert rendered.one(kind)["metadata"]["name"] == NAME
    assert rendered.one("ClusterRole")["metadata"]["name"] == f"gpu-operator:{NAME}"


def test_its_deployment(helm: Helm) -> None:
    """One pod, and never an old one beside a new one, which would only wait for the Lease."""
    spec = helm.render(BOTH).follower["spec"]
    assert (1, {"type": "Recreate"}) == (spec["replicas"], spec["strategy"])
    assert helm.render({**BOTH, "controller.replicas": 2}).follower["spec"]["replicas"] == 2


def test_its_selector_meets_its_own_pods_only(helm: Helm) -> None:
    """Whatever labels users add, in every way they can."""
    own: Values = {name: {"app.kubernetes.io/component": "x"} for name in ("commonLabels", "controller.podLabels")}
    rendered = helm.render({**BOTH, **own, "podLabels": {"app.kubernetes.io/component": "controller"}})
    spec = rendered.follower["spec"]
    selector = spec["selector"]["matchLabels"].items()
    assert selector <= spec["template"]["metadata"]["labels"].items()
    assert not selector <= rendered.job["spec"]["template"]["metadata"]["labels"].items()


def test_it_is_found_by_the_label_of_its_pods(helm: Helm) -> None:
    """Where no pod can be created, the Deployment says why; whatever labels users add."""
    deployment = helm.render({**BOTH, "commonLabels": {"app.kubernetes.io/component": "x", "team": "y"}}).follower
    labels = deployment["metadata"]["labels"].items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels
    assert {"app.kubernetes.io/component": "controller", "team": "y"}.items() <= labels


@pytest.mark.parametrize("release", ["gpu-operator-post", LONG])
def test_its_names_are_its_own_and_not_too_long(helm: Helm, release: str) -> None:
    """The name of a Deployment is copied into labels of what it makes, which hold 63 characters."""
    rendered = helm.render(BOTH, release=release)
    names = [item["metadata"]["name"] for item in (rendered.job, rendered.follower)]
    assert len(set(names)) == 2
    assert max(map(len, names)) <= 63


def test_its_pod_is_the_jobs_but_for_what_makes_it_a_follower(helm: Helm) -> None:
    """Image, security, placement, volumes and environment are set once, for both."""
    rendered = helm.render({**BOTH, **SHARED})
    job, follower = rendered.pod, rendered.follower_pod
    assert {"restartPolicy", "serviceAccountName", "containers"} == _differences(job, follower)
    container, following = rendered.container, rendered.follower_container
    assert {"args", "env", "resources", "ports", "livenessProbe", "readinessProbe"} == _differences(
        container, following
    )
    assert (follower["restartPolicy"], follower["serviceAccountName"]) == ("Always", NAME)


def test_its_probes_ask_the_program(helm: Helm) -> None:
    """On the port that it is told to listen on, which has the name by which metrics are scraped."""
    container = helm.render(BOTH).follower_container
    (port,) = container["ports"]
    assert port["name"] == "metrics"
    assert f"--listen=:{port['containerPort']}" in container["args"]
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "metrics"}


def test_a_restart_comes_later_than_a_deployers_first_look(helm: Helm) -> None:
    """A loop that is slow is not killed for it: liveness has a minute, readiness tells within seconds."""
    container = helm.render(BOTH).follower_container
    patience = {name: container[name]["periodSeconds"] * container[name]["failureThreshold"] for name in _PROBES}
    assert patience["livenessProbe"] >= 60 > patience["readinessProbe"]


_PROBES: Final = ("livenessProbe", "readinessProbe")


def test_its_arguments(helm: Helm) -> None:
    """Which command runs, and the names of its own objects; all settings are in the environment."""
    own = [f"--workload-name={NAME}", "--listen=:8080", "--lease-name=gpu-operator-post"]
    expected = ["controller", *own, "--lease-namespace=gpu-operator"]
    assert expected == helm.render(BOTH).follower_container["args"]


def test_its_pod_has_labels_annotations_and_resources_of_its_own(helm: Helm) -> None:
    """Those of the Job's pod are for a pod that ends, such as those that keep a mesh out."""
    values: Values = {
        **BOTH,
        "podLabels": {"job": "l"},
        "podAnnotations": {"job": "a"},
        "controller.podLabels": {"follow": "l"},
        "controller.podAnnotations": {"follow": "a"},
        "controller.resources.limits.memory": "1Gi",
    }
    rendered = helm.render(values)
    metadata = rendered.follower["spec"]["template"]["metadata"]
    assert metadata["annotations"] == {"follow": "a"}
    assert metadata["labels"].items() >= {"follow": "l"}.items()
    assert "job" not in metadata["labels"]
    assert rendered.follower_container["resources"]["limits"]["memory"] == "1Gi"
    assert rendered.container["resources"]["limits"]["memory"] == "128Mi"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"trigger": "v26.7.0"}, id="trigger"),
        pytest.param({"expect.chartVersion": "v26.7.0"}, id="expected-chart"),
        pytest.param({"timeout": "2h"}, id="timeout"),
        pytest.param({"job.mode": "delegate"}, id="wait"),
        pytest.param({"job.enabled": False}, id="no-job"),
        pytest.param({"jobLabels": {"a": "b"}}, id="job-labels"),
    ],
)
def test_what_concerns_a_run_does_not_restart_the_follower(helm: Helm, change: Values) -> None:
    """An upgrade of the operator changes these, and that is when the follower should be there."""
    assert helm.render(BOTH).follower["spec"] == helm.render({**BOTH, **change}).follower["spec"]


def test_a_job_that_hands_over_knows_whom_to_ask(helm: Helm) -> None:
    """By the Lease that the follower is told to hold; in both modes."""
    for mode in ({}, {"hook.enabled": False}):
        rendered = helm.render({**BOTH, **mode, "job.mode": "delegate"})
        lease = [arg for arg in rendered.follower_container["args"] if arg.startswith("--lease-")]
        assert set(lease) <= set(rendered.args)
        assert rendered.config["job"]["mode"] == "delegate"
        assert len(lease) == 2


def test_its_account(helm: Helm) -> None:
    """Created, named or brought, apart from the Job's."""
    values: Values = {
        **BOTH,
        "controller.serviceAccount.name": "mine",
        "controller.serviceAccount.annotations": {"a": "b"},
        "serviceAccount.annotations": {"c": "d"},
    }
    rendered = helm.render(values)
    follower, job = rendered.all("ServiceAccount")
    assert (job["metadata"]["name"], follower["metadata"]["name"]) == ("gpu-operator-post", "mine")
    assert follower["metadata"]["annotations"] == {"a": "b"}
    assert rendered.follower_pod["serviceAccountName"] == "mine"
    brought = helm.render({**values, "controller.serviceAccount.create": False})
    assert brought.one("ServiceAccount")["metadata"]["name"] == "gpu-operator-post"
    assert brought.roles_of("mine")


def test_network_policies_let_its_metrics_in(helm: Helm) -> None:
    """Nothing reaches the Job; the follower's one port is reached, and it gets out as far as the Job."""
    rendered = helm.render({**BOTH, "podNetworkPolicy.enabled": True})
    everyone, metrics = rendered.all("NetworkPolicy")
    follower = rendered.follower["spec"]["template"]["metadata"]["labels"]
    job = rendered.job["spec"]["template"]["metadata"]["labels"]
    assert [_selected(everyone, pod) for pod in (job, follower)] == [True, True]
    assert [_selected(metrics, pod) for pod in (job, follower)] == [False, True]
    assert "ingress" not in everyone["spec"]
    assert metrics["spec"]["policyTypes"] == ["Ingress"]
    assert metrics["spec"]["ingress"] == [{"ports": [{"port": "metrics", "protocol": "TCP"}]}]


def _selected(policy: Object, labels: dict[str, str]) -> bool:
    return bool(policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items())


def _differences(one: Object, other: Object) -> set[str]:
    return {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
