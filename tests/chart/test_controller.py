"""The controller: a Deployment next to the Job, or alone, that shares with it all but the settings of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.chart.rendering import container_of, pod_of

if TYPE_CHECKING:
    from tests.chart.rendering import Helm, Values

BOTH: Final[Values] = {"controller.enabled": True}
PLAIN: Final[Values] = {"hook.enabled": False}
NAME: Final = "gpu-operator-post-controller"
OF_A_RUN: Final[tuple[Values, ...]] = (
    {"trigger": "v26.7.0"},
    {"expect.chartVersion": "v26.7.0"},
    {"timeout": "2h"},
    {"job.mode": "delegate"},
    {"job.enabled": False},
    {"jobLabels": {"a": "b"}},
)


OF_PODS: Final[Values] = {
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "priorityClassName": "high",
    "runtimeClassName": "gvisor",
}
OF_CONTAINERS: Final[Values] = {
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
}
VOLUMES: Final = [{"name": "ca", "configMap": {"name": "ca"}}]


def test_it_does_not_change_the_job(helm: Helm) -> None:
    """The Job stays as it is, and a plain Job keeps its name."""
    for mode in ({}, PLAIN):
        assert helm.render(mode).job == helm.render({**mode, **BOTH}).job, mode


def test_its_selector_matches_only_its_own_pods(helm: Helm) -> None:
    """No label of a user changes that. The Deployment has these labels too: it explains why no pod can be created."""
    component = {"app.kubernetes.io/component": "x", "team": "y"}
    own: Values = {f"{name}abels": component for name in ("commonL", "controller.podL", "jobL")}
    rendered = helm.render({**BOTH, **own, "podLabels": {"app.kubernetes.io/component": "controller"}})
    spec = rendered.controller["spec"]
    selector = spec["selector"]["matchLabels"].items()
    assert selector <= spec["template"]["metadata"]["labels"].items()
    assert not selector <= rendered.job["spec"]["template"]["metadata"]["labels"].items()
    labels = rendered.controller["metadata"]["labels"].items()
    assert selector <= labels
    assert {"app.kubernetes.io/component": "controller", "team": "y"}.items() <= labels


def test_its_pod_differs_from_the_jobs_only_where_it_must(helm: Helm) -> None:
    """Image, security, placement, volumes and environment are set once, for both, and reach both as they are."""
    rendered = helm.render({**BOTH, **OF_PODS, **OF_CONTAINERS, "extraVolumes": VOLUMES, "controller.replicas": 2})
    job, pod = rendered.pod, pod_of(rendered.controller)
    of_job, container = rendered.container, container_of(rendered.controller)
    assert {key for key in job | pod if job.get(key) != pod.get(key)} == {
        "restartPolicy", "serviceAccountName", "containers"
    }  # fmt: skip
    assert {key for key in of_job | container if of_job.get(key) != container.get(key)} == {
        "args", "env", "resources", "ports", "livenessProbe", "readinessProbe"
    }  # fmt: skip
    assert (OF_PODS | {"volumes": VOLUMES}).items() <= pod.items()
    for each in (of_job, container):
        assert (each["env"][1:2], each["volumeMounts"]) == tuple(OF_CONTAINERS.values())
    assert rendered.controller["spec"]["replicas"] == 2


def test_its_pod_has_labels_annotations_and_resources_of_its_own(helm: Helm) -> None:
    """Those of the Job's pod are for a pod that ends, such as those that exclude it from a service mesh."""
    values: Values = {f"pod{kind}": {"job": "x"} for kind in ("Labels", "Annotations")}
    values |= {f"controller.pod{kind}": {"controller": "x"} for kind in ("Labels", "Annotations")}
    rendered = helm.render({**BOTH, **values, "controller.resources.limits.memory": "1Gi"})
    metadata = rendered.controller["spec"]["template"]["metadata"]
    assert metadata["annotations"] == {"controller": "x"}
    assert metadata["labels"]["controller"] == "x"
    assert "job" not in metadata["labels"]
    assert container_of(rendered.controller)["resources"]["limits"]["memory"] == "1Gi"
    assert rendered.container["resources"]["limits"]["memory"] == "128Mi"


def test_settings_of_a_run_do_not_restart_it(helm: Helm) -> None:
    """An upgrade of the operator changes these, and then the controller must be there."""
    before = helm.render(BOTH).controller["spec"]
    for change in OF_A_RUN:
        assert helm.render({**BOTH, **change}).controller["spec"] == before, change


def test_network_policies_admit_its_metrics(helm: Helm) -> None:
    """Nothing reaches the Job, and only one port of the controller is reached; both reach what the user sets."""
    egress = [{"to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]}]
    rendered = helm.render({**BOTH, "podNetworkPolicy.enabled": True, "podNetworkPolicy.egress": egress})
    everyone, metrics = (policy["spec"] for policy in rendered.all("NetworkPolicy"))
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in (rendered.job, rendered.controller)]
    for policy, expected in ((everyone, [True, True]), (metrics, [False, True])):
        selector = policy["podSelector"]["matchLabels"].items()
        assert [selector <= pod.items() for pod in labels] == expected
    assert (everyone["policyTypes"], everyone["egress"]) == (["Ingress", "Egress"], egress)
    assert "ingress" not in everyone
    assert metrics["policyTypes"] == ["Ingress"]
    assert metrics["ingress"] == [{"ports": [{"port": "metrics", "protocol": "TCP"}]}]
