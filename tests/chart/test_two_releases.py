"""Two releases of the chart in one cluster, one for each driver stack."""

from __future__ import annotations

from typing import Final

import pytest

from hook.flags import SET_BY_THE_CHART
from hook.objects.stacks import StackName
from tests.chart.rendering import NAMESPACE, Helm, Manifests, Values, container_of

EVERYTHING: Final[Values] = {
    "controller.enabled": True,
    "controller.replicas": 2,
    "controller.podMonitor.enabled": True,
    "controller.prometheusRule.enabled": True,
    "controller.dashboard.enabled": True,
    "podNetworkPolicy.enabled": True,
    "plugin.namespace": "dra",
    "driverClients": [{"namespace": "dra", "name": name} for name in ("exporter", "profiler")],
}
"""Every object that the chart can render."""
PLACES: Final = {
    "two names": (("gpu-operator-post", NAMESPACE), ("network-operator-post", NAMESPACE)),
    "one name begins as the other": (("post", NAMESPACE), ("post-network", NAMESPACE)),
    "two namespaces": (("gpu-operator-post", NAMESPACE), ("gpu-operator-post", "network-operator")),
}


def _keys(rendered: Manifests) -> set[tuple[str, str, str]]:
    """Return kind, namespace and name of each object; one in the whole cluster has no namespace."""
    return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in rendered.objects}


def _written(rendered: Manifests) -> set[str]:
    """Return where the programs of a release write: the arguments with the names of Lease and status object."""
    places = [container_of(rendered.job), container_of(rendered.controller)]
    named = ("--lease-name=", "--status-name=", "--job-name=", "--workload-name=")
    where = [one["metadata"]["namespace"] for one in (rendered.job, rendered.controller)]
    return {
        f"{namespace} {argument}"
        for namespace, container in zip(where, places, strict=True)
        for argument in container["args"]
        if argument.startswith(named)
    }


def test_help_shows_apart_what_the_chart_sets(helm: Helm) -> None:
    """People who run the program from a shell need none of these options."""
    rendered = helm.render(EVERYTHING)
    arguments = [argument for part in (rendered.job, rendered.controller) for argument in container_of(part)["args"]]
    options = {argument.partition("=")[0][2:].replace("-", "_") for argument in arguments if "=" in argument}
    assert {"job_name", "lease_name"} <= options <= SET_BY_THE_CHART


@pytest.mark.parametrize("place", PLACES)
def test_no_object_of_two_releases_collides(helm: Helm, place: str) -> None:
    """Neither in the cluster nor in a namespace; and each has a Lease and a status object of its own."""
    rendered = [
        helm.render({**EVERYTHING, "stack": stack}, f"--namespace={namespace}", release=release)
        for stack, (release, namespace) in zip(StackName, PLACES[place], strict=True)
    ]
    gpu, network = map(_keys, rendered)
    assert [len(gpu), len(network)] == [len(release.objects) for release in rendered]
    assert gpu & network == set()
    assert {kind for kind, _namespace, _name in gpu} == {kind for kind, _namespace, _name in network}
    assert {"ClusterRole", "ValidatingAdmissionPolicy", "ConfigMap"} <= {kind for kind, _namespace, _name in gpu}
    gpu_writes, network_writes = map(_written, rendered)
    assert (len(gpu_writes), gpu_writes & network_writes) == (4, set())
