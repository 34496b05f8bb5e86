"""The controller: a Deployment next to the Job, or alone, that shares with it all but the settings of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.chart.rendering import container_of, pod_of

if TYPE_CHECKING:
    from tests.chart.rendering import Helm, Object, Values

BOTH: Final[Values] = {"controller.enabled": True}
ALONE: Final[Values] = {**BOTH, "job.enabled": False}
PLAIN: Final[Values] = {"hook.enabled": False}
NAME: Final = "gpu-operator-post-controller"
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
OF_A_RUN: Final[tuple[Values, ...]] = (
    {"trigger": "v26.7.0"},
    {"expect.chartVersion": "v26.7.0"},
    {"timeout": "2h"},
    {"job.mode": "delegate"},
    {"job.enabled": False},
    {"jobLabels": {"a": "b"}},
)


def test_nothing_of_it_is_rendered_by_default(helm: Helm) -> None:
    """There is neither the Deployment nor an account, a role or a policy for it."""
    rendered = helm.render()
    assert rendered.all("Deployment") == []
    assert not [item for item in rendered.objects if NAME in str(item)]


def test_it_does_not_change_the_job(helm: Helm) -> None:
    """The Job stays as it is, and a plain Job keeps its name."""
    for mode in ({}, PLAIN):
        assert helm.render(mode).job == helm.render({**mode, **BOTH}).job, mode


def test_it_can_stand_alone(helm: Helm) -> None:
    """There is no Job, nor what only the Job needs: its account, its roles."""
    rendered = helm.render(ALONE)
    assert rendered.all("Job") == []
    for kind in ("Deployment", "ServiceAccount", "Role", "RoleBinding"):
        assert rendered.one(kind)["metadata"]["name"] == NAME
    assert rendered.one("ClusterRole")["metadata"]["name"] == f"gpu-operator:{NAME}"


def test_its_deployment(helm: Helm) -> None:
    """It has one pod, and never an old one next to a new one, which would only wait for the Lease."""
    spec = helm.render(BOTH).controller["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert helm.render({**BOTH, "controller.replicas": 2}).controller["spec"]["replicas"] == 2


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
    """Image, security, placement, volumes and environment are set once, for both."""
    rendered = helm.render({**BOTH, **SHARED})
    controller = pod_of(rendered.controller)
    assert _differences(rendered.pod, controller) == {"restartPolicy", "serviceAccountName", "containers"}
    own = {"args", "env", "resources", "ports", "livenessProbe", "readinessProbe"}
    assert _differences(rendered.container, container_of(rendered.controller)) == own
    assert (controller["restartPolicy"], controller["serviceAccountName"]) == ("Always", NAME)


def _differences(first: Object, second: Object) -> set[str]:
    return {key for key in first.keys() | second.keys() if first.get(key) != second.get(key)}


def test_its_arguments_and_probes(helm: Helm) -> None:
    """The probes use the port of the metrics. Liveness has a minute; readiness reports within seconds."""
    container = container_of(helm.render(BOTH).controller)
    own = [f"--workload-name={NAME}", "--listen=:8080", "--lease-name=gpu-operator-post"]
    where = ["--lease-namespace=gpu-operator", "--status-name=gpu-operator-post-status"]
    assert container["args"] == ["controller", *own, *where]
    (port,) = container["ports"]
    assert (port["name"], port["containerPort"]) == ("metrics", 8080)
    patience = {}
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "metrics"}
        patience[probe] = container[probe]["periodSeconds"] * container[probe]["failureThreshold"]
    assert patience["livenessProbe"] >= 60 > patience["readinessProbe"]


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


def test_a_job_that_delegates_knows_the_lease(helm: Helm) -> None:
    """In both modes it gets the name of the Lease that the controller holds."""
    for mode in ({}, PLAIN):
        rendered = helm.render({**BOTH, **mode, "job.mode": "delegate"})
        lease = [arg for arg in container_of(rendered.controller)["args"] if arg.startswith("--lease-")]
        assert len(lease) == 2
        assert set(lease) <= set(rendered.container["args"]), mode
        assert rendered.config["job"]["mode"] == "delegate", mode


def test_network_policies_admit_its_metrics(helm: Helm) -> None:
    """Nothing reaches the Job, and only one port of the controller is reached; both reach the API server."""
    rendered = helm.render({**BOTH, "podNetworkPolicy.enabled": True})
    everyone, metrics = (policy["spec"] for policy in rendered.all("NetworkPolicy"))
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in (rendered.job, rendered.controller)]
    for policy, expected in ((everyone, [True, True]), (metrics, [False, True])):
        selector = policy["podSelector"]["matchLabels"].items()
        assert [selector <= pod.items() for pod in labels] == expected
    assert "ingress" not in everyone
    assert metrics["policyTypes"] == ["Ingress"]
    assert metrics["ingress"] == [{"ports": [{"port": "metrics", "protocol": "TCP"}]}]
