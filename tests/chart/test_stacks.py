"""Driver stacks in the chart: one table, from which arguments, permissions and the guard follow."""

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
    ("values", "stacks", "names"),
    [
        pytest.param({}, ["gpu"], GPU, id="default"),
        pytest.param({"stacks": ["network"]}, ["network"], NETWORK, id="network"),
        pytest.param({"stacks": BOTH}, BOTH, GPU + NETWORK, id="both"),
        pytest.param({"consumer.names": ["mine"]}, ["gpu"], ["gpu:mine"], id="first-stack"),
        pytest.param({"stacks": BOTH, "consumer.names": ["mine"]}, BOTH, ["gpu:mine", *NETWORK], id="one-replaced"),
        pytest.param(
            {"stacks": BOTH, "consumer.names": ["network:b", "network:a"]},
            BOTH,
            [*GPU, "network:b", "network:a"],
            id="the-other-replaced",
        ),
        pytest.param({"stacks": BOTH[::-1], "consumer.names": ["a"]}, BOTH[::-1], ["network:a", *GPU], id="order"),
        pytest.param({"consumer.names": ["a", "gpu:a"]}, ["gpu"], ["gpu:a"], id="named-twice"),
    ],
)
def test_names_are_given_a_stack_or_its_defaults(
    helm: Helm, values: Values, stacks: list[str], names: list[str]
) -> None:
    """The program gets every name with its stack; names that are given replace those of their stack alone."""
    args = helm.render(values).args
    assert stacks == _given(args, "--driver")
    assert names == _given(args, "--plugin-name")


def test_further_consumers_are_given_a_stack(helm: Helm) -> None:
    """By name or by labels; the first stack is meant where none is named."""
    values: Values = {"stacks": BOTH, "consumers": ["a/b", "network:c/d", "network:x.y/z=1,k=v", "k=v"]}
    expected = ["gpu:a/b", "network:c/d", "network:x.y/z=1,k=v", "gpu:k=v"]
    assert expected == _given(helm.render(values).args, "--driver-client")
