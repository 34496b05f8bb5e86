"""The command line without a cluster: what is wrong is said in a sentence, with the documented exit code."""

from __future__ import annotations

import json
import signal
import socket
import time
from typing import TYPE_CHECKING

import pytest

from tests.shell.program import ended, run, start, write_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def nobody() -> Iterator[str]:
    """Give the address of a port that is taken, and that nobody listens to: connections are refused."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"https://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def kubeconfig(tmp_path: Path, nobody: str) -> Path:
    """Write a kubeconfig whose API server is out of reach."""
    return write_kubeconfig(tmp_path / "kubeconfig", nobody)


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        pytest.param("--timeout=25", "--timeout", id="duration-without-unit"),
        pytest.param("--timeout=1.5h", "--timeout", id="duration-with-a-fraction"),
        pytest.param("--timeout=", "--timeout", id="empty-duration"),
        pytest.param("--timeout=0s", "--timeout", id="no-time-at-all"),
        pytest.param("--stall-timeout=-3m", "--stall-timeout", id="negative-duration"),
        pytest.param("--plugin-timeout=5 minutes", "--plugin-timeout", id="duration-in-words"),
        pytest.param("--timeout=3m5h", "--timeout", id="duration-in-the-wrong-order"),
        pytest.param("--strategy=everything", "--strategy", id="unknown-strategy"),
        pytest.param("--on-deadline=ignore", "--on-deadline", id="unknown-choice"),
        pytest.param("--max-parallel-restarts=-1", "--max-parallel-restarts", id="negative-number"),
        pytest.param("--max-parallel-restarts=many", "--max-parallel-restarts", id="no-number"),
        pytest.param("--driver=disk", "--driver", id="unknown-stack"),
        pytest.param("--refresh-after=disk", "--refresh-after", id="unknown-provider"),
        pytest.param("--on-missing-plugin=guess", "--on-missing-plugin", id="unknown-behaviour"),
        pytest.param("--plugin-name=Not_A_Name", "--plugin-name 'Not_A_Name'", id="no-name"),
        pytest.param("--plugin-name=disk:mine", "'disk:mine' names an unknown", id="name-of-an-unknown-stack"),
        pytest.param("--plugin-name=network:mine", "network, which is not among --driver", id="name-of-another-stack"),
        pytest.param("--driver-client=mine", "--driver-client 'mine' is neither", id="consumer-without-a-namespace"),
        pytest.param("--driver-client=app in (a)", "--driver-client 'app in (a)' is neither", id="consumer-by-a-set"),
        pytest.param("--frobnicate", "--frobnicate", id="unknown-flag"),
        pytest.param("surplus", "surplus", id="surplus-argument"),
    ],
)
def test_a_wrong_argument_is_a_usage_error_that_names_it(argument: str, named: str) -> None:
    """Exit 2, which the Job does not retry, and no stack trace."""
    done = run("run", argument)
    assert done.code == 2, done.said
    assert named in done.err
    assert "Traceback" not in done.said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("GPU_OPERATOR_POST_TIMEOUT", "soon", id="duration"),
        pytest.param("GPU_OPERATOR_POST_STRATEGY", "everything", id="choice"),
        pytest.param("GPU_OPERATOR_POST_DRY_RUN", "perhaps", id="flag"),
        pytest.param("GPU_OPERATOR_POST_DRIVER", "gpu disk", id="one-of-two-stacks"),
        pytest.param("GPU_OPERATOR_POST_DRIVER_CLIENT", "a/b c", id="one-of-two-consumers"),
    ],
)
def test_a_wrong_environment_variable_is_a_usage_error_too(name: str, value: str) -> None:
    """An environment variable is the same flag, with the same checks."""
    done = run("run", **{name: value})
    assert done.code == 2, done.said
    assert name.removeprefix("GPU_OPERATOR_POST_").lower().replace("_", "-") in done.err


BROKEN = {
    "not-yaml": "{[",
    "a-list": "- a\n- b\n",
    "empty": "",
    "no-context": "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n",
    "context-without-a-cluster": (
        "apiVersion: v1\nkind: Config\nclusters: []\nusers: []\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: gone, user: gone}}]\n"
    ),
    "authority-file-missing": (
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1', certificate-authority: /nonexistent}}]\n"
        "users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
    ),
}


@pytest.mark.parametrize("command", ["run", "status"])
@pytest.mark.parametrize("content", [pytest.param(text, id=name) for name, text in BROKEN.items()])
def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, command: str, content: str) -> None:
    """Exit 2 with the file's name; nothing was asked of any cluster."""
    file = tmp_path / "broken"
    file.write_text(content)
    done = run(command, f"--kubeconfig={file}")
    assert done.code == 2, done.said
    assert str(file) in done.err
    assert "Traceback" not in done.said


@pytest.mark.parametrize("path", ["missing", "."], ids=["missing", "a-directory"])
def test_a_kubeconfig_that_cannot_be_read_is_named(tmp_path: Path, path: str) -> None:
    """Exit 2 with the file's name."""
    done = run("run", f"--kubeconfig={tmp_path / path}")
    assert done.code == 2, done.said
    assert str(tmp_path / path) in done.err
    assert "Traceback" not in done.said


def test_an_unknown_context_is_named(kubeconfig: Path) -> None:
    """Exit 2 with the context's name."""
    done = run("run", f"--kubeconfig={kubeconfig}", "--context=elsewhere")
    assert done.code == 2, done.said
    assert "elsewhere" in done.err


def test_without_any_credentials_it_says_so(tmp_path: Path) -> None:
    """Neither a kubeconfig nor a ServiceAccount: exit 2, not a guess at localhost."""
    done = run("run", f"--service-account-dir={tmp_path}")
    assert done.code == 2, done.said
    assert "Traceback" not in done.said


def test_a_service_account_without_an_authority_is_refused(tmp_path: Path) -> None:
    """A token whose server cannot be checked is not sent anywhere."""
    (tmp_path / "token").write_text("secret")
    done = run("run", f"--service-account-dir={tmp_path}", KUBERNETES_SERVICE_HOST="127.0.0.1")
    assert done.code == 2, done.said
    assert "secret" not in done.said


def test_an_unreachable_server_is_worth_another_try(kubeconfig: Path, nobody: str, tmp_path: Path) -> None:
    """Exit 1, which the Job retries, soon after the patience; the server is named, there and for the kubelet."""
    message = tmp_path / "termination-log"
    message.touch()
    began = time.monotonic()
    done = run("run", f"--kubeconfig={kubeconfig}", "--api-patience=2s", f"--termination-log={message}")
    assert done.code == 1, done.said
    assert time.monotonic() - began < 15
    assert nobody.removeprefix("https://") in done.out
    story = json.loads(message.read_text())
    assert ("ApiUnreachable", 1) == (story["reason"], story["exitCode"])
    assert nobody.removeprefix("https://") in story["message"]


def test_the_environment_speaks_for_the_flags(kubeconfig: Path) -> None:
    """``GPU_OPERATOR_POST_<FLAG>`` works for each kind of flag, as in a pod's environment."""
    began = time.monotonic()
    done = run(
        "run",
        GPU_OPERATOR_POST_KUBECONFIG=str(kubeconfig),
        GPU_OPERATOR_POST_API_PATIENCE="1s",
        GPU_OPERATOR_POST_LOG_FORMAT="json",
        GPU_OPERATOR_POST_DRY_RUN="true",
    )
    assert done.code == 1, done.said
    assert time.monotonic() - began < 15
    assert all(json.loads(line)["level"] for line in done.out.splitlines())


def test_a_usage_error_reaches_the_termination_message(tmp_path: Path) -> None:
    """A deployer that shows nothing else shows this."""
    message = tmp_path / "termination-log"
    message.touch()
    done = run("run", "--kubeconfig=/nonexistent", f"--termination-log={message}")
    assert done.code == 2, done.said
    assert "/nonexistent" in json.loads(message.read_text())["message"]


@pytest.mark.parametrize("arguments", [(), ("--job-name=job",)], ids=["in-a-thread", "in-the-main-thread"])
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["as-kubernetes-does", "as-a-person-does"]
)
def test_it_stops_when_told_to(tmp_path: Path, number: int, code: int, arguments: tuple[str, ...]) -> None:
    """Promptly, with the exit code that shells expect, even while it waits for an answer that does not come."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        file = write_kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{silent.getsockname()[1]}")
        process = start("run", f"--kubeconfig={file}", *arguments)
        connection, _ = silent.accept()
        with connection:
            connection.recv(1)
            began = time.monotonic()
            process.send_signal(number)
            done = ended(process)
    assert code == done.code, done.said
    assert time.monotonic() - began < 5
    assert "Terminated" in done.out


def test_status_of_an_unreachable_cluster_says_so(kubeconfig: Path, nobody: str) -> None:
    """Exit 1 after seconds, not minutes: a person waits."""
    began = time.monotonic()
    done = run("status", f"--kubeconfig={kubeconfig}")
    assert done.code == 1, done.said
    assert time.monotonic() - began < 25
    assert nobody.removeprefix("https://") in done.err


def test_help_tells_exit_codes_and_variables() -> None:
    """What the Job's conditions and a pod's environment refer to can be looked up where one stands."""
    done = run("--help")
    assert done.code == 0
    for word in ("143", "124", "GPU_OPERATOR_POST_"):
        assert word in done.out


@pytest.mark.parametrize("arguments", [("--version",), ("run", "--help"), ("status", "--help")])
def test_what_needs_no_cluster_works_without_one(arguments: tuple[str, ...]) -> None:
    """Exit 0, from any directory, with no configuration."""
    assert run(*arguments).code == 0
