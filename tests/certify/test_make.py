"""`make test-cluster` certifies the cluster that its arguments name, and never one that the environment names."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

from devcluster.boot.layout import CHECKOUT

INHERITED = ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL", "KUBECONFIG", "IMAGE")
"""What would reach this make from one that runs the tests, or from the shell."""
SOMEBODYS = "/somebody/prod"
IMAGE = "registry.example/image:1"


ARGUMENT = f"KUBECONFIG={SOMEBODYS}"
EXPECTED: tuple[tuple[list[str], dict[str, str], list[str]], ...] = (
    ([], {"KUBECONFIG": SOMEBODYS}, []),
    ([ARGUMENT], {}, ["--kubeconfig", SOMEBODYS]),
    (
        [ARGUMENT, f"IMAGE={IMAGE}"],
        {"KUBECONFIG": "/another"},
        ["--kubeconfig", SOMEBODYS, "--test_extra_info", f"image={IMAGE}"],
    ),
    ([], {"IMAGE": IMAGE}, ["--test_extra_info", f"image={IMAGE}"]),
)


@pytest.mark.parametrize(("arguments", "environment", "expected"), EXPECTED)
def test_cluster_of_the_arguments(arguments: list[str], environment: dict[str, str], expected: list[str]) -> None:
    """Only what is asked for reaches pytest: no cluster of the environment, and no image that cannot be pulled."""
    own = {key: value for key, value in os.environ.items() if key not in INHERITED}
    command = ["make", "--dry-run", "--no-print-directory", "test-cluster", *arguments]
    done = subprocess.run(command, cwd=CHECKOUT, env={**own, **environment}, capture_output=True, text=True, check=True)
    (line,) = (line for line in done.stdout.splitlines() if "-m pytest" in line)
    assert shlex.split(line.partition("tests/certify")[2]) == expected
