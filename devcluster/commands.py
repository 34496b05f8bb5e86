"""Run kubectl and Helm against a cluster, without traces outside of its state directory."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, TypeAlias

from devcluster.build import binaries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devcluster.boot.layout import State

Result: TypeAlias = "subprocess.CompletedProcess[str]"


class CommandError(Exception):
    """A command failed; the message holds its output."""

    def __init__(self, result: Result) -> None:
        words = " ".join(str(word) for word in result.args)
        super().__init__(f"`{words}` ended with {result.returncode}\n{result.stdout}{result.stderr}")


def environment(state: State) -> dict[str, str]:
    """Return our environment with every cache and home of the tools moved into the state directory."""
    homes = state.root / "homes"
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("HELM_")},
        "GOGC": "400",  # a fifth less CPU for a command of a second
        "KUBECONFIG": str(state.kubeconfig),
        "KUBECACHEDIR": str(homes / "kube"),
        "HELM_CACHE_HOME": str(homes / "helm-cache"),
        "HELM_CONFIG_HOME": str(homes / "helm-config"),
        "HELM_DATA_HOME": str(homes / "helm-data"),
    }


def run(
    state: State,
    command: Sequence[str],
    *,
    check: bool = True,
    text: str | None = None,
) -> Result:
    """Run a program of ours (``kubectl``, ``helm4`` …) to its end; with `check`, a failure raises `CommandError`."""
    result = subprocess.run(
        _resolved(command),
        env=environment(state),
        input=text,
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        text=True,
        check=False,
    )
    if check and result.returncode != 0:
        raise CommandError(result)
    return result


def launch(state: State, command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a program of ours whose output the caller reads."""
    return subprocess.Popen(
        _resolved(command),
        env=environment(state),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _resolved(command: Sequence[str]) -> list[str]:
    """Replace the program's name by its path."""
    program, *arguments = command
    return [str(binaries.ensure([program])[program]), *arguments]
