"""The command line without a cluster: what is wrong is said in a sentence, with the documented exit code."""

from __future__ import annotations

import json
import signal
import socket
import time
from typing import TYPE_CHECKING

import pytest

from tests.process.program import ended, run, start, write_kubeconfig

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
    ("words", "named"),
    [
        pytest.param(["--timeout=25min"], 'timeout: "25min" is not a duration', id="flag-for-a-setting"),
        pytest.param(["--plugin-name=Not_A_Name"], 'plugin.names[0]: "Not_A_Name" is not a valid name', id="name"),
        pytest.param(["--namespace=a", "--namespace=B"], 'rbac.namespaces[1]: "B" is not', id="second-namespace"),
        pytest.param(["--driver=disk"], "--driver", id="unknown-driver"),
        pytest.param(["--driver=network", 'refreshAfter=["toolkit"]'], "refreshAfter[0]: ", id="flag-and-setting"),
        pytest.param(["stallTimeout=-3m"], 'stallTimeout: "-3m" is not a duration', id="setting"),
        pytest.param(["controller.circuitBreaker.treshold=3"], "did you mean controller.circuitBreaker.threshold?",
                     id="unknown-setting"),
        pytest.param(["plugin=3", "--plugin-namespace=dra"], "plugin: 3 is not a block of settings", id="no-block"),
        pytest.param(["timeout=0s", "pluginTimeout=0s"], "pluginTimeout: must be longer than 0s", id="second-problem"),
        pytest.param(["--config=/nonexistent.yaml"], "--config /nonexistent.yaml cannot be read", id="no-file"),
        pytest.param(["--stall-timeout=3m"], "--stall-timeout", id="unknown-flag"),
        pytest.param(["surplus"], "surplus", id="surplus-argument"),
    ],
)  # fmt: skip
def test_a_wrong_setting_or_argument_is_a_usage_error_that_names_it(words: list[str], named: str) -> None:
    """Exit 2, which the Job does not retry, and no stack trace."""
    done = run("run", *words)
    assert done.code == 2, done.said
    assert named in done.err
    assert "Traceback" not in done.said


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"timeout": 25}', "{" * 100_000])
def test_a_variable_that_holds_no_settings_is_a_usage_error(text: str) -> None:
    """For each command, before any request."""
    for command in ("run", "controller", "status", "plan"):
        done = run(command, GPU_OPERATOR_POST_CONFIG=text)
        assert done.code == 2, done.said
        assert done.err.startswith("Error: ")
        assert "Traceback" not in done.said


def test_a_controller_has_no_dry_run() -> None:
    """Exit 2, because it would never act and look like one that does."""
    assert "dryRun: the controller has no dry run" in run("controller", "dryRun=true").err


@pytest.mark.parametrize("text", ["timeout: {", "- a", "timeout: 25", "\N{NULL}"])
def test_a_file_that_holds_no_settings_is_a_usage_error(tmp_path: Path, text: str) -> None:
    """Whether it is no YAML, or has other things in it."""
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    done = run("run", f"--config={file}")
    assert done.code == 2, done.said
    assert "Traceback" not in done.said


def test_flags_override_the_file_which_replaces_the_variable(kubeconfig: Path, tmp_path: Path) -> None:
    """The file is not merged with the variable, which belongs to the pod."""
    file = tmp_path / "settings.yaml"
    file.write_text("# comment\nadvanced: {apiPatience: 1s}\ntimeout: 25min\nlogFormat: text\nlogLevel: debug\n")
    flags = (f"--kubeconfig={kubeconfig}", f"--config={file}", "--timeout=20s", "--log-format=json")
    done = run("run", *flags, "stallTimeout=nonsense")
    assert done.code == 1, done.said
    assert all(json.loads(line)["level"] for line in done.out.splitlines())


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
    done = run("run", f"--kubeconfig={kubeconfig}", "advanced.apiPatience=2s", f"--termination-log={message}")
    assert done.code == 1, done.said
    assert time.monotonic() - began < 50
    assert nobody.removeprefix("https://") in done.out
    story = json.loads(message.read_text())
    assert ("ApiUnreachable", 1) == (story["reason"], story["exitCode"])
    assert nobody.removeprefix("https://") in story["message"]


def test_settings_come_from_the_environment(kubeconfig: Path) -> None:
    """As in a pod."""
    done = run("run", f"--kubeconfig={kubeconfig}", "advanced.apiPatience=1s", "logFormat=json", "dryRun=true")
    assert done.code == 1, done.said
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
    assert time.monotonic() - began < 50
    assert nobody.removeprefix("https://") in done.err


def test_help_tells_exit_codes_and_variables() -> None:
    """What the Job's conditions and a pod's environment refer to can be looked up where one stands."""
    done = run("--help")
    assert done.code == 0
    for word in ("143", "124", "GPU_OPERATOR_POST_CONFIG"):
        assert word in done.out


@pytest.mark.parametrize("arguments", [("--version",), ("run", "--help"), ("status", "--help")])
def test_what_needs_no_cluster_works_without_one(arguments: tuple[str, ...]) -> None:
    """Exit 0, from any directory, with no configuration."""
    assert run(*arguments).code == 0
