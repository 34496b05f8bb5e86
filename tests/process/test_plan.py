"""The command plan, as a process: its flags, and what is wrong with them."""

from __future__ import annotations

import pytest

from tests.process.program import run


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        pytest.param("--target-window=2", "--target-window", id="no-unit"),
        pytest.param("--target-window=0s", "--target-window", id="no-time"),
        pytest.param("--target-window=soon", "--target-window", id="a-word"),
        pytest.param("--output=yaml", "--output", id="unknown-output"),
        pytest.param("--driver=disk", "--driver", id="unknown-stack"),
        pytest.param("--timeout=1h", "--timeout", id="a-flag-of-run"),
        pytest.param("--kubeconfig=/nonexistent", "/nonexistent", id="no-kubeconfig"),
    ],
)
def test_bad_input_is_named(argument: str, named: str) -> None:
    """Exit 2, as of the other commands; no cluster is asked for anything."""
    done = run("plan", "--kubeconfig=/nonexistent", argument)
    assert (2, True, "") == (done.code, named in done.err, done.out), done.said
    assert "Traceback" not in done.said


def test_help_tells_the_flags() -> None:
    """Exit 0, without a cluster."""
    done = run("plan", "--help")
    assert (0, True) == (done.code, "--target-window" in done.out)
