"""`make test-cluster` certifies the cluster that its arguments name, and never one that the environment names."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

from devcluster.layout import CHECKOUT

INHERITED = ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL", "KUBECONFIG", "IMAGE")
"""What would reach this make from one that runs the tests, or from the shell."""
SOMEBODYS = "/somebody/prod"
IMAGE = "registry.example/image:1"


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        pytest.param([], {}, [], id="nothing"),
        pytest.param([], {"KUBECONFIG": SOMEBODYS}, [], id="environment"),
        pytest.param([f"KUBECONFIG={SOMEBODYS}"], {}, ["--kubeconfig", SOMEBODYS], id="argument"),
        pytest.param(
            [f"KUBECONFIG={SOMEBODYS}", f"IMAGE={IMAGE}"],
            {"KUBECONFIG": "/another"},
            ["--kubeconfig", SOMEBODYS, "--test_extra_info", f"image={IMAGE}"],
            id="both",
        ),
        pytest.param([], {"IMAGE": IMAGE}, ["--test_extra_info", f"image={IMAGE}"], id="image-of-the-environment"),
    ],
)
def test_cluster_of_the_arguments(arguments: list[str], environment: dict[str, str], expected: list[str]) -> None:
    """Only what is asked for reaches pytest: no cluster of the environment, and no image that nobody can pull."""
    own = {key: value for key, value in os.environ.items() if key not in INHERITED}
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "test-cluster", *arguments],
        cwd=CHECKOUT,
        env={**own, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    command = next(line for line in done.stdout.splitlines() if "-m pytest" in line)
    _, _, flags = command.partition("tests/certify")
    assert expected == shlex.split(flags)
