"""Finding the DaemonSets whose pods hold the driver."""

from __future__ import annotations

import pytest

from hook.config import Plugin, PluginName, Settings
from hook.decide import clients
from hook.objects import readers
from hook.objects.drivers import GPU_OPERATOR
from tests.fixtures.objects import Object, obj

OLD_NAME = "nvidia-dra-driver-gpu-kubelet-plugin"
NEW_NAME = "dra-driver-nvidia-gpu-kubelet-plugin"
MANAGED = "nvidia-dra-driver-kubelet-plugin"


def plugin(name: str, spec: str = "{}", labels: str = "{}") -> Object:
    """Give a plugin's DaemonSet under a name."""
    return obj("plugin-daemonset", f"{{metadata: {{name: {name}, uid: {name}, labels: {labels}}}, spec: {spec}}}")


def managed(labels: str = "{}", kind: str = "GPUCluster") -> Object:
    """Give a DaemonSet of the name that the operator's own plugin has, under an owner of some kind."""
    owners = f"[{{kind: {kind}, uid: gc, controller: true}}]"
    return obj(
        "plugin-daemonset",
        f"metadata: {{name: {MANAGED}, uid: {MANAGED}, labels: {labels}, ownerReferences: {owners}}}",
    )


def containers(*names: str) -> str:
    """Give a DaemonSet spec with these containers, and a selector that says nothing."""
    listed = ", ".join(f"{{name: {name}}}" for name in names)
    selector = "{matchLabels: {app: mine, dra-driver-nvidia-gpu-component: null}}"
    return f"{{selector: {selector}, template: {{spec: {{containers: [{listed}]}}}}}}"


@pytest.mark.parametrize(
    ("daemonset", "named", "unnamed", "managed"),
    [
        pytest.param(plugin(NEW_NAME), [NEW_NAME], [], [], id="name-since-0.4"),
        pytest.param(plugin(OLD_NAME), [OLD_NAME], [], [], id="name-before-0.4"),
        pytest.param(plugin(NEW_NAME, containers("sidecar")), [NEW_NAME], [], [], id="a-name-is-enough"),
        pytest.param(plugin("mine-kubelet-plugin"), [], ["mine-kubelet-plugin"], [], id="name-override"),
        pytest.param(plugin("mine", containers("gpus", "compute-domains")), [], ["mine"], [], id="by-its-containers"),
        pytest.param(plugin("mine", containers("compute-domains")), [], ["mine"], [], id="compute-domains-only"),
        pytest.param(plugin("mine", containers("gpus", "sidecar")), [], [], [], id="a-container-too-many"),
        pytest.param(plugin("mine", containers("device-plugin")), [], [], [], id="something-else"),
        pytest.param(plugin("mine", "{template: {spec: {containers: [{name: x}]}}}"), [], [], [],
                     id="another-kubelet-plugin"),
        pytest.param(plugin("mine", "{template: {spec: {containers: [{name: gpus}, {name: x}]}}}"), [], ["mine"], [],
                     id="by-its-selector"),
        pytest.param(managed(), [], [], [MANAGED], id="owned-by-a-gpu-cluster"),
        pytest.param(plugin(MANAGED, labels=f"{{app.kubernetes.io/component: {MANAGED}}}"), [], [], [MANAGED],
                     id="labelled-by-the-operator"),
        pytest.param(plugin(MANAGED), [], [MANAGED], [], id="a-name-override-that-gives-the-operators-name"),
        pytest.param(managed(kind="HelmRelease"), [], [MANAGED], [], id="that-name-under-another-owner"),
        pytest.param(plugin("daemon", labels="{resource.nvidia.com/computeDomain: uid}"), [], [], [],
                     id="compute-domain-daemon"),
        pytest.param(plugin(NEW_NAME, labels="{resource.nvidia.com/computeDomain: uid}"), [], [], [],
                     id="compute-domain-daemon-of-that-name"),
        pytest.param(obj("driver-daemonset"), [], [], [], id="driver"),
    ],
)  # fmt: skip
def test_consumers_are_found_by_exact_name(
    daemonset: Object, named: list[str], unnamed: list[str], managed: list[str]
) -> None:
    """Ours are named; what only looks like one is told apart, as is the operator's own."""
    found = clients.find([readers.daemonset(daemonset)], GPU_OPERATOR, Settings())
    kinds = (found.named, found.unnamed, found.operator_managed)
    assert (named, unnamed, managed) == tuple([one.name for one in kind] for kind in kinds)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(Settings(), (2, 1), id="anywhere"),
        pytest.param(Settings(plugin=Plugin(namespace="nvidia-dra-driver-gpu")), (1, 1), id="one-namespace"),
        pytest.param(Settings(plugin=Plugin(namespace="elsewhere")), (0, 0), id="another-namespace"),
        pytest.param(
            Settings(plugin=Plugin(names=(PluginName(driver="gpu", name="mine-kubelet-plugin"),))),
            (1, 2),
            id="another-name",
        ),
        pytest.param(
            Settings(plugin=Plugin(names=(PluginName(driver="gpu", name=MANAGED),))), (0, 3), id="none-of-these-names"
        ),
    ],
)
def test_namespace_and_names_confine_what_is_served(settings: Settings, expected: tuple[int, int]) -> None:
    """The namespace confines what is looked at, the names what is served."""
    found = clients.find(
        [
            readers.daemonset(plugin(NEW_NAME)),
            readers.daemonset(obj("plugin-daemonset", f"metadata: {{name: {OLD_NAME}, uid: old, namespace: old}}")),
            readers.daemonset(plugin("mine-kubelet-plugin")),
        ],
        GPU_OPERATOR,
        settings,
    )
    assert expected == (len(found.named), len(found.unnamed))
