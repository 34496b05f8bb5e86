"""Drivers in the chart: one table, from which arguments, permissions and admission policies follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.chart.rendering import Helm, Values

GPU: Final = ["gpu:nvidia-dra-driver-gpu-kubelet-plugin", "gpu:dra-driver-nvidia-gpu-kubelet-plugin"]
NETWORK: Final = ["network:rdma-shared-dp-ds", "network:network-operator-sriov-device-plugin"]
BOTH: Final = ["gpu", "network"]


def _given(args: list[str], flag: str) -> list[str]:
    return [arg.removeprefix(f"{flag}=") for arg in args if arg.startswith(f"{flag}=")]


@pytest.mark.parametrize(
    ("values", "drivers", "names"),
    [
        pytest.param({}, ["gpu"], GPU, id="default"),
        pytest.param({"drivers": ["network"]}, ["network"], NETWORK, id="network"),
        pytest.param({"drivers": BOTH}, BOTH, GPU + NETWORK, id="both"),
        pytest.param({"plugin.names": ["mine"]}, ["gpu"], ["gpu:mine"], id="first-stack"),
        pytest.param({"drivers": BOTH, "plugin.names": ["mine"]}, BOTH, ["gpu:mine", *NETWORK], id="one-replaced"),
        pytest.param(
            {"drivers": BOTH, "plugin.names": [{"driver": "network", "name": "b"}, {"driver": "network", "name": "a"}]},
            BOTH,
            [*GPU, "network:b", "network:a"],
            id="the-other-replaced",
        ),
        pytest.param({"drivers": BOTH[::-1], "plugin.names": ["a"]}, BOTH[::-1], ["network:a", *GPU], id="order"),
        pytest.param({"plugin.names": ["a", {"driver": "gpu", "name": "a"}]}, ["gpu"], ["gpu:a"], id="named-twice"),
    ],
)
def test_each_driver_has_its_given_names_or_its_defaults(
    helm: Helm, values: Values, drivers: list[str], names: list[str]
) -> None:
    """The program gets each name with its driver; given names replace those of their driver only."""
    args = helm.render(values).args
    assert drivers == _given(args, "--driver")
    assert names == _given(args, "--plugin-name")


def test_driver_clients_belong_to_a_driver(helm: Helm) -> None:
    """By name or by labels; to the first driver, unless the entry names one."""
    values: Values = {
        "drivers": BOTH,
        "driverClients": [
            {"namespace": "a", "name": "b"},
            {"driver": "network", "namespace": "c", "name": "d"},
            {"driver": "network", "labels": {"x.y/z": "1", "k": "v"}},
            {"labels": {"k": "v"}},
        ],
    }
    expected = ["gpu:a/b", "network:c/d", "network:k=v,x.y/z=1", "gpu:k=v"]
    assert expected == _given(helm.render(values).args, "--driver-client")
