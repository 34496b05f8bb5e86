"""Run the program as users do from a shell: a process with arguments, an exit code and two streams."""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import os
import re
import runpy
import signal
import sys
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import yaml

from devcluster.boot.layout import CHECKOUT
from devcluster.patience import TooSlowError
from devcluster.settings import separated
from tests.client.access import kubeconfig
from tests.fixtures.schemas import conforms

ROOT: Final = Path(__file__).parents[2]
ENOUGH_SECONDS: Final = 150.0
"""Longer than any run of a test; one that hangs fails instead of blocking the others."""

HOOK: Final = "hook"
CTL: Final = "ctl"
"""The program for people, which is in no image."""
CAPITALS: Final = re.compile("[A-Z_]+=")
FORKING: Final = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload([__name__, "hook.run.controller", "hook.kube.access", "ctl.cli"])
_FILES: Final = itertools.count()


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

    process: BaseProcess
    log: Path
    """Its standard output."""

    @property
    def said(self) -> str:
        """Both streams so far, as a terminal shows them."""
        return self.log.read_text() + self._err.read_text()

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return not self.process.is_alive()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, as a kubelet or the kernel does."""
        assert self.process.pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def ended(self, seconds: float = ENOUGH_SECONDS) -> Ended:
        """Wait for its end."""
        self.process.join(seconds)
        if self.process.exitcode is None:
            raise TooSlowError(f"{self.log.stem} did not end within {seconds:.0f} s:\n{self.said}")
        return Ended(self.process.exitcode, self.log.read_text(), self._err.read_text())

    @property
    def _err(self) -> Path:
        return self.log.with_suffix(".err")


def start(log: Path, *words: str, program: str = HOOK) -> Logged:
    """Start a program with nothing of the user's own configuration.

    Words like ``pluginTimeout=3s`` are settings, those like ``NAME=value`` variables. The process is forked from one
    that has imported the program: a new interpreter takes half a second of processor time for that.
    """
    arguments, settings = separated(words)
    variables = dict(word.split("=", 1) for word in arguments if CAPITALS.match(word))
    command = [program, *(word for word in arguments if not CAPITALS.match(word))]
    log.touch()
    log.with_suffix(".err").touch()
    process = FORKING.Process(target=_become, args=(command, _variables({**settings, **variables}), log), daemon=True)
    process.start()
    return Logged(process, log)


def _become(command: list[str], variables: dict[str, str], log: Path) -> None:
    """Run a program as ``python -m`` does, in a process that was forked for it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for file, stream in ((log, sys.stdout), (log.with_suffix(".err"), sys.stderr)):
        os.dup2(os.open(file, os.O_WRONLY), stream.fileno())
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(CHECKOUT)
    sys.argv = command
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)


def run(folder: Path, *words: str, program: str = HOOK) -> Ended:
    """Run a program to its end."""
    return start(folder / f"program-{next(_FILES)}.log", *words, program=program).ended()


def reaching(folder: Path, server: str) -> str:
    """Return the flag for a kubeconfig that names the API server at an address."""
    return f"--kubeconfig={kubeconfig(folder, server, user='token: secret')}"


def as_pod(file: Path) -> list[str]:
    """Return the words by which a pod would connect as this kubeconfig does."""
    config = yaml.safe_load(file.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    folder = file.with_suffix(".account")
    folder.mkdir(exist_ok=True)
    _replace(folder / "token", user["token"].encode())
    _replace(folder / "ca.crt", b64decode(cluster["certificate-authority-data"]))
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    return [f"--service-account-dir={folder}", f"KUBERNETES_SERVICE_HOST={host}", f"KUBERNETES_SERVICE_PORT={port}"]


def _replace(file: Path, content: bytes) -> None:
    """Replace a file at once: a program that was started before may just read it."""
    new = file.with_suffix(".new")
    new.write_bytes(content)
    new.replace(file)


def _variables(more: Mapping[str, str]) -> dict[str, str]:
    ours = ("KUBECONFIG", "KUBERNETES_", "GPU_OPERATOR_POST_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**inherited, "HOME": "/nonexistent", **more}


def documented(schema: str, text: str) -> Any:  # noqa: ANN401 - JSON
    """Return what the program wrote as JSON. It is as its published schema says."""
    return conforms(schema, json.loads(text))


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
