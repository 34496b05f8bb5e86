"""Run the program as users do from a shell: a process with arguments, an exit code and two streams."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import yaml
from jsonschema import Draft202012Validator

from devcluster.patience import TooSlowError
from devcluster.settings import separated

ROOT: Final = Path(__file__).parents[2]
ENOUGH_SECONDS: Final = 150.0
"""Longer than any run of a test; one that hangs fails instead of blocking the others."""

CAPITALS: Final = re.compile("[A-Z_]+=")
FORKING: Final = """
import gc, json, os, runpy, sys
import hook.cli, hook.run.controller, kubernetes.client.rest, kubernetes.config, yaml
gc.freeze()
for number, (arguments, environment) in enumerate(json.load(sys.stdin)):
    child = os.fork()
    if not child:
        for stream, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{sys.argv[1]}/{number}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["hook", *arguments]
        runpy.run_module("hook", run_name="__main__", alter_sys=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Imports the program once, and runs it in a process of its own for each command."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What is left of a process."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Both streams, as a terminal shows them."""
        return self.out + self.err


@dataclass(frozen=True, slots=True)
class Logged:
    """The program as a process with a log that can be read meanwhile."""

    process: subprocess.Popen[str]
    log: Path

    @property
    def said(self) -> str:
        """Its whole output so far."""
        return self.log.read_text()

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def ended(self) -> int:
        """Wait for its end; return its exit code."""
        try:
            return self.process.wait(ENOUGH_SECONDS)
        except subprocess.TimeoutExpired:
            raise TooSlowError(f"{self.log.stem} did not end within {ENOUGH_SECONDS:.0f} s:\n{self.said}") from None


def start(*words: str, **environment: str) -> subprocess.Popen[str]:
    """Start the program with nothing of the user's own configuration; words like ``stallTimeout=3s`` are settings."""
    return _started(words, environment, subprocess.PIPE)


def start_logged(log: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """Start the same with both streams in a file, which can be read while it is written."""
    with log.open("w", encoding="utf-8") as both:
        return _started(words, environment, both)


def _started(words: Iterable[str], environment: Mapping[str, str], stream: int | IO[str]) -> subprocess.Popen[str]:
    arguments, settings = separated(words)
    return subprocess.Popen(
        [sys.executable, "-m", "hook", *arguments], cwd=ROOT, env=_variables({**settings, **environment}),
        stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, text=True,
    )  # fmt: skip


def run_each(folder: Path, commands: Iterable[Iterable[str]]) -> list[Ended]:
    """Run the program to its end for each of these words, one after the other: faster than `run`."""
    # A word like ``NAME=value`` in capitals is an environment variable.
    wanted = []
    for words in commands:
        arguments, settings = separated(words)
        variables = dict(word.split("=", 1) for word in arguments if CAPITALS.match(word))
        wanted.append(([word for word in arguments if not CAPITALS.match(word)], _variables({**settings, **variables})))
    done = subprocess.run(
        [sys.executable, "-c", FORKING, str(folder)],
        cwd=ROOT, input=json.dumps(wanted), capture_output=True, text=True, timeout=ENOUGH_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    texts = ([(folder / f"{number}.{name}").read_text() for name in ("out", "err")] for number in range(len(wanted)))
    return [Ended(int(code), *streams) for code, streams in zip(done.stdout.split(), texts, strict=True)]


def write_kubeconfig(file: Path, server: str) -> Path:
    """Write a kubeconfig for the API server at an address."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lost", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
        "contexts": [{"name": "lost", "context": {"cluster": "lost", "user": "me"}}],
        "current-context": "lost",
    }
    file.write_text(yaml.safe_dump(config))
    return file


def as_pod(kubeconfig: Path) -> tuple[str, dict[str, str]]:
    """Return the flag and the variables by which a pod would connect as this kubeconfig does.

    The program then does not import the client library, which takes more time than the rest of its start.
    """
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    if "tls-server-name" in cluster:
        return f"--kubeconfig={kubeconfig}", {}
    folder = kubeconfig.with_suffix(".account")
    folder.mkdir(exist_ok=True)
    (folder / "token").write_text(user["token"])
    (folder / "ca.crt").write_bytes(b64decode(cluster["certificate-authority-data"]))
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    return f"--service-account-dir={folder}", {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


def _variables(more: Mapping[str, str]) -> dict[str, str]:
    ours = ("KUBECONFIG", "KUBERNETES_", "GPU_OPERATOR_POST_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**inherited, "HOME": "/nonexistent", **more}


def ended(process: subprocess.Popen[str], who: str = "it", seconds: float = ENOUGH_SECONDS) -> Ended:
    """Wait for a process that was started."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise TooSlowError(f"{who} did not end within {seconds:.0f} s:\n{out}{err}") from None
    return Ended(process.returncode, out, err)


def run(*arguments: str, **environment: str) -> Ended:
    """Run the program to its end."""
    return ended(start(*arguments, **environment))


def documented(schema: str, text: str) -> Any:  # noqa: ANN401 - JSON
    """Return what the program wrote as JSON. It is as its published schema says."""
    found = json.loads(text)
    Draft202012Validator(json.loads((ROOT / "docs" / f"{schema}.schema.json").read_text())).validate(found)
    return found


def http(port: int, path: str) -> tuple[int, str]:
    """Ask a program on this machine for a page: status and text; 0 is no answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
    except OSError:
        return 0, ""
