"""The command line without a cluster: what is wrong is named in a sentence, with the documented exit code."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devcluster.settings import VARIABLE
from tests.client.server import Said, serving
from tests.process.program import ENOUGH_SECONDS, documented, reaching, run, start


@pytest.fixture
def nowhere() -> Iterator[str]:
    """Return the address of a port that is taken, and on which nothing listens: connections are refused."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"https://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def kubeconfig(tmp_path: Path, nowhere: str) -> str:
    """Return the flag for a kubeconfig whose API server is out of reach."""
    return reaching(tmp_path, nowhere)


USAGE: Final = {
    "run --timeout=25min": "'--timeout': \"25min\" is not a duration",
    "run --timeout=0s": "'--timeout': it must be longer than 0s",
    "run --plugin-name=Not_A_Name": "the flags: Expected `str` matching regex",
    "run pluginTimout=3m": f"{VARIABLE}: Object contains unknown field `pluginTimout`",
    "run plugin=3 --plugin-namespace=dra": "got `int` - at `$.plugin`",
    "run --config=/nonexistent.yaml": "--config /nonexistent.yaml cannot be read",
    "run surplus": "surplus",
    "controller dryRun=true": "dryRun: the controller has no dry run",
    "run --kubeconfig={folder}/missing": "{folder}/missing",
    "run --kubeconfig={good} --context=elsewhere": "elsewhere",
    # Neither a kubeconfig nor a ServiceAccount; a ServiceAccount without an authority; no guess at localhost.
    "run --service-account-dir={folder}": "",
    "run --service-account-dir={folder}/account": "{folder}/account",
    **{f"{command} --kubeconfig={{folder}}/open": "{folder}/open" for command in ("run", "controller", "status")},
    **{f"{command} {VARIABLE}={{open}}": "Error: " for command in ("run", "controller", "status")},
    **{f"run {VARIABLE}={{{name}}}": "Error: " for name in ("list", "deep", "no-text")},
    **{f"run --config={{folder}}/{name}": "" for name in ("open", "list", "control", "tag", "half")},
}
"""Commands, and what is named. Braces stand for what is in a file of that name, too."""
UNFIT: Final = {
    "open": "{[",
    "list": "[]",
    "deep": "{" * 100_000,
    "no-text": '"\udcff"',
    "control": "\N{NULL}",
    "tag": "dryRun: !!bool x",
    "half": 'logFormat: "\\uD800"',
}
"""What is no kubeconfig, and no settings: it is no YAML or JSON, no mapping, or has a value that no setting takes."""


@pytest.mark.parametrize(("line", "named"), USAGE.items(), ids=USAGE)
def test_a_usage_error_names_what_is_wrong(tmp_path: Path, kubeconfig: str, line: str, named: str) -> None:
    """A flag, a setting, a file, a context or a ServiceAccount.

    Exit 2, which the Job does not retry; no stack trace, no secret, and no request to any cluster.
    """
    (tmp_path / "account").mkdir()
    (tmp_path / "account" / "token").write_text("secret")
    for name in ("open", "list", "control", "tag", "half"):
        (tmp_path / name).write_text(UNFIT[name])
    places = {"folder": str(tmp_path), "good": kubeconfig.partition("=")[2], **UNFIT}
    words = [word.format(**places) for word in line.split()]
    done = run(tmp_path, *words, "KUBERNETES_SERVICE_HOST=127.0.0.1")
    assert (done.code, named.format(**places) in done.err, done.out) == (2, True, ""), done.said
    assert "Traceback" not in done.said
    assert "secret" not in done.said


def test_flags_override_the_file_which_replaces_the_variable(kubeconfig: str, tmp_path: Path) -> None:
    """The file is not merged with the variable, which belongs to the pod: as in a pod without a file."""
    file = tmp_path / "settings.yaml"
    file.write_text("# comment\nadvanced: {apiPatience: 1s}\ntimeout: 25h\nlogFormat: text\nlogLevel: debug\n")
    flags = (f"--config={file}", "--timeout=20s", "--log-format=json")
    commands = (
        ("run", kubeconfig, *flags, "pluginTimeout=nonsense"),
        ("run", kubeconfig, "advanced.apiPatience=1s", "logFormat=json", "dryRun=true"),
    )
    for done in (run(tmp_path, *words) for words in commands):
        assert done.code == 1, done.said
        assert all(documented("log", line)["level"] for line in done.out.splitlines())


def test_an_unreachable_server_is_worth_another_try(kubeconfig: str, nowhere: str, tmp_path: Path) -> None:
    """Exit 1, which the Job retries, after the patience; the server is named, in the termination message too."""
    server = nowhere.removeprefix("https://")
    file = tmp_path / "message"
    file.touch()
    commands = (
        ("run", kubeconfig, "advanced.apiPatience=1s", f"--termination-log={file}"),
        ("status", kubeconfig, "--exit-code"),
    )
    for done in (run(tmp_path, *words) for words in commands):
        assert (done.code, server in done.said) == (1, True), done.said
    message = documented("termination-message", file.read_text())
    assert ("ApiUnreachable", 1, True) == (message["reason"], message["exitCode"], server in message["message"])
    done = run(tmp_path, "run", "--kubeconfig=/nonexistent", f"--termination-log={file}")
    message = documented("termination-message", file.read_text())
    assert (done.code, "/nonexistent" in message["message"]) == (2, True), done.said


HOSTILE: Final = {
    "page": Said(418, b"\x1b[2J<html>"),
    "list for a message": Said(400, b'{"kind": "Status", "message": ["\\u001b[2J"]}'),
}


def test_whatever_answers_in_the_servers_place(tmp_path: Path) -> None:
    """Exit 1 or 3, without a traceback, and no terminal obeys anything."""
    for name, said in HOSTILE.items():
        with serving(said) as server:
            flag = reaching(tmp_path, server.api.host)
            done = run(tmp_path, "run", flag, "advanced.apiPatience=1s")
        assert done.code in (1, 3), (name, done.said)
        assert "Traceback" not in done.said, name
        assert "\x1b" not in done.said, name


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("arguments", [(), ("--job-name=job",)], ids=["run", "as a Job"])
def test_a_signal_ends_it(arguments: tuple[str, ...], number: signal.Signals, code: int, tmp_path: Path) -> None:
    """With the exit code that shells expect, while it waits for an answer that does not come, in any thread."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(ENOUGH_SECONDS)
        flag = reaching(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        process = start(tmp_path / "log", "run", flag, *arguments)
        connection, _address = silent.accept()
        with connection:
            connection.recv(1)
            process.signal(number)
            done = process.ended(seconds=30)  # a request has a minute
    assert (done.code, "Terminated" in done.out) == (code, True), done.said
    assert "The next run continues where it stopped." in done.out, done.said


def test_what_needs_no_cluster_works_without_one(tmp_path: Path) -> None:
    """Exit 0; the help has what the Job's conditions, a pod's environment and scripts refer to."""
    cases = {
        "--version": (),
        "--help": ("143", "124", "GPU_OPERATOR_POST_CONFIG"),
        "run --help": (),
        "status --help": (
            "3 if a plugin is stale or a node has failed",
            "0 otherwise, also while nodes wait or restart",
        ),
    }
    for command, words in cases.items():
        done = run(tmp_path, *command.split())
        assert done.code == 0, (command, done.said)
        shown = " ".join(done.out.split())
        assert [word for word in words if word not in shown] == [], command
