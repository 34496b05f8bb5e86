"""Plugins of a kubeconfig: what they print is used until it ends or is refused; one that fails is an error."""

from __future__ import annotations

import json
import os
import pty
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from hook.errors import ApiError, SettingsError
from hook.kube import execplugin
from tests.client.access import Authority, server_side, trusting
from tests.client.server import GRANTED, ONE, PATIENCE, Said, refused, serving

V1: Final = "client.authentication.k8s.io/v1"
V1BETA1: Final = "client.authentication.k8s.io/v1beta1"


def printed(status: Mapping[str, object], version: str = V1, kind: str = "ExecCredential") -> str:
    """Return what a plugin prints."""
    return json.dumps({"apiVersion": version, "kind": kind, "status": status})


class Plugin:
    """A plugin next to the kubeconfig that prints what is in a file, and counts its runs."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "plugin"
        self.write('echo run >> "$0.runs"; env > "$0.env"; cat "$0.out"')
        self.prints(printed({"token": "first"}))

    def write(self, script: str) -> None:
        """Replace its script."""
        self.file.write_text(f"#!/bin/sh\n{script}\n")
        self.file.chmod(0o700)

    def prints(self, text: str) -> None:
        """Set what it prints."""
        self.file.with_suffix(".out").write_text(text)

    @property
    def runs(self) -> int:
        """How often it ran."""
        runs = self.file.with_suffix(".runs")
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    @property
    def information(self) -> dict[str, Any]:
        """What it got to know at its last run."""
        return dict(json.loads(self.variable(execplugin.INFORMATION)))

    def variable(self, name: str) -> str:
        """Return one of its variables at its last run."""
        lines = self.file.with_suffix(".env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)[name]


def user(more: str = "", version: str = V1) -> str:
    """Return the field of a user of the plugin."""
    return f"exec: {{command: ./plugin, apiVersion: {version}{more}}}"


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    """Return a plugin next to the kubeconfig."""
    return Plugin(tmp_path)


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_its_token_is_used_until_it_is_refused(
    version: str, tmp_path: Path, plugin: Plugin, authority: Authority
) -> None:
    """Then the plugin runs again, in both versions of the interface; before that, it runs once."""
    accepted = "Bearer first"

    def answer(_line: str) -> Said:
        return GRANTED if server.heard[-1].headers["authorization"] == accepted else refused(401)

    plugin.prints(printed({"token": "first", "expirationTimestamp": None}, version))
    with serving(answer, tls=server_side(authority.sign())) as server:
        nulls = ", args: null, env: null, installHint: null, interactiveMode: null, provideClusterInfo: null"
        api = trusting(tmp_path, authority, server.port, user(nulls, version))
        api.send(*ONE)
        api.send(*ONE)
        assert plugin.runs == 1
        accepted = "Bearer second"
        plugin.prints(printed({"token": "second"}, version))
        with pytest.raises(ApiError):
            api.send(*ONE)
        api.send(*ONE)
        assert plugin.runs == 2


HOUR: Final = timedelta(hours=1)


@pytest.mark.parametrize(
    ("ends", "runs"),
    [
        pytest.param(datetime.now(UTC) + HOUR, 1, id="in an hour"),
        pytest.param(datetime.now(UTC) - HOUR, 3, id="an hour ago"),
        pytest.param("0001-01-01T00:00:00+14:00", 3, id="before all clocks"),
        pytest.param("9999-12-31T23:59:59-14:00", 1, id="after all clocks"),
    ],
)
def test_it_runs_again_when_its_credentials_end(
    ends: datetime | str, runs: int, tmp_path: Path, plugin: Plugin, authority: Authority
) -> None:
    """By the time that it prints, without waiting for a refusal."""
    with serving(GRANTED, tls=server_side(authority.sign())) as server:
        plugin.prints(printed({"token": "secret", "expirationTimestamp": str(ends)}))
        api = trusting(tmp_path, authority, server.port, user())
        api.send(*ONE)
        api.send(*ONE)
        assert plugin.runs == runs


@pytest.mark.parametrize("provided", [True, False])
def test_what_it_gets_to_know(provided: bool, tmp_path: Path, plugin: Plugin, authority: Authority) -> None:
    """Its variables and arguments; of the cluster only on demand, with the extension that is for it. Dates are text."""
    plugin.write('echo "$@" > "$0.args"; env > "$0.env"; cat "$0.out"')
    config = "{audience: x, since: 2026-01-01, none: null}"
    extensions = f"[{{name: other, extension: 1}}, {{name: client.authentication.k8s.io/exec, extension: {config}}}]"
    more = f", args: [a, 'b c'], env: [{{name: A, value: x}}, {{name: B}}], provideClusterInfo: {str(provided).lower()}"
    cluster = "tls-server-name: inside, proxy-url: 'http://127.0.0.1:2'"
    trusting(tmp_path, authority, 1, user(more), f"{cluster}, extensions: {extensions}")
    found = plugin.information
    described = found["spec"].pop("cluster", None)
    assert found == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}
    assert (plugin.variable("A"), plugin.variable("B")) == ("x", "")
    assert (tmp_path / "plugin.args").read_text() == "a b c\n"
    if not provided:
        assert described is None
        return
    assert described.pop("certificate-authority-data")
    assert described == {
        "server": "https://127.0.0.1:1",
        "tls-server-name": "inside",
        "proxy-url": "http://127.0.0.1:2",
        "config": {"audience": "x", "since": "2026-01-01", "none": None},
    }


@pytest.mark.parametrize("config", ["&a {b: *a}", "{? [a] : 1}"])
def test_an_extension_that_json_cannot_say(config: str, tmp_path: Path, plugin: Plugin, authority: Authority) -> None:
    """No plugin can get it, so it is an error of the kubeconfig."""
    extension = f"extensions: [{{name: client.authentication.k8s.io/exec, extension: {config}}}]"
    with pytest.raises(SettingsError, match=r"it has no form in JSON|it is not valid YAML"):
        trusting(tmp_path, authority, 1, user(", provideClusterInfo: true"), extension)
    assert plugin.runs == 0


@pytest.mark.parametrize(
    ("mode", "at_terminal", "asked"),
    [
        ("", True, True),
        ("IfAvailable", True, True),
        ("Always", True, True),
        ("Never", True, False),
        ("IfAvailable", False, False),
        ("Always", False, None),
    ],
)
def test_it_asks_the_user_only_at_a_terminal(  # noqa: PLR0913, PLR0917 - with fixtures
    mode: str, at_terminal: bool, asked: bool | None, tmp_path: Path, plugin: Plugin, authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """And only if its mode allows that; one that must ask is not run without a terminal."""
    plugin.write('test -t 0 && touch "$0.asked"; env > "$0.env"; cat "$0.out"')
    named = user(f", interactiveMode: {mode}" if mode else "")
    master, terminal = pty.openpty()
    standard = os.dup(0)
    try:
        os.dup2(terminal if at_terminal else standard, 0)
        with Path(os.ttyname(terminal) if at_terminal else os.devnull).open() as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            if asked is None:
                with pytest.raises(SettingsError, match="interactiveMode is Always, but standard input is not a"):
                    trusting(tmp_path, authority, 1, named)
                return
            trusting(tmp_path, authority, 1, named)
        assert ((tmp_path / "plugin.asked").exists(), plugin.information["spec"]["interactive"]) == (asked, asked)
    finally:
        os.dup2(standard, 0)
        for descriptor in (master, terminal, standard):
            os.close(descriptor)


SETTINGS: Final = {
    "exec: {V1}": "exec: command is missing",
    "exec: {command: a}": "exec: apiVersion '' is none of client.authentication.k8s.io/v1, ",
    "exec: {command: a, V1, interactiveMode: Maybe}": "interactiveMode 'Maybe'",
    "exec: {command: a, V1, env: [{name: ''}]}": "a variable in env has no name",
    'exec: {command: sh, V1, args: ["\\0"]}': "sh: embedded null byte",
    'exec: {command: no-such-plugin, V1, installHint: "get it\\nat x"}': (
        "no-such-plugin: the plugin cannot be run: No such file or directory: no-such-plugin; get it at x"
    ),
    "exec: {command: ./token, V1}": "/token: the plugin cannot be run: Permission",
}
PRINTED: Final = {
    "[" * 100_000: "the plugin printed no ExecCredential",
    "{}": f"the plugin printed '' of '' instead of ExecCredential of {V1}",
    printed({"token": "secret"}, V1BETA1): f"'ExecCredential' of '{V1BETA1}' instead of ExecCredential of {V1}",
    printed({"token": "secret"}, kind="Secret"): "'Secret'",
    json.dumps({"apiVersion": V1, "kind": "ExecCredential"}): "the plugin printed neither a token nor a certificate",
    printed({"clientCertificateData": "x"}): "the plugin printed a certificate without its key",
    printed({"clientKeyData": "secret"}): "the plugin printed a certificate without its key",
    printed({"clientKeyData": "secret", "clientCertificateData": "x"}): "client certificate: certificate and key",
    printed({"token": "secret\nX: y"}): "the token contains a character that no header may contain",
    printed({"token": "secret", "expirationTimestamp": "2026-01-01T00:00:00"}): "expirationTimestamp",
}
SCRIPTS: Final = {
    "echo 'no session:\n  log in' >&2; exit 3": "/plugin: the plugin failed with exit code 3: no session: log in",
    "printf '\\033[2Jx' >&2; exit 1": "\\x1b[2Jx",
    "echo secret": "the plugin printed no ExecCredential: JSON is malformed",
    "sleep 4 & exec sleep 60": "the plugin did not end within 1 s",
}


@pytest.mark.parametrize(
    ("fields", "text", "script", "problem"),
    [
        *((fields, "", "", problem) for fields, problem in SETTINGS.items()),
        *(pytest.param(user(), text, "", problem, id=text[:80]) for text, problem in PRINTED.items()),
        *((user(), "", script, problem) for script, problem in SCRIPTS.items()),
    ],
)
def test_one_that_fails_is_reported(  # noqa: PLR0913, PLR0917 - with fixtures
    fields: str, text: str, script: str, problem: str, tmp_path: Path, plugin: Plugin, authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """With what it wrote to standard error, in a line, and never with what it printed; no request is sent."""
    monkeypatch.setattr(execplugin, "SECONDS", 1.0 if "sleep" in script else PATIENCE)
    (tmp_path / "token").touch()
    plugin.prints(text)
    if script:
        plugin.write(script)
    with pytest.raises(SettingsError) as caught:
        trusting(tmp_path, authority, 1, fields.replace("V1", f"apiVersion: {V1}"))
    assert problem in str(caught.value)
    assert [word for word in ("\n", "secret") if word in str(caught.value)] == []


def test_one_that_fails_later_is_lost_credentials(tmp_path: Path, plugin: Plugin, authority: Authority) -> None:
    """Requests are not sent without them, and each says why; the plugin may recover."""
    with serving(refused(401), tls=server_side(authority.sign())) as server:
        api = trusting(tmp_path, authority, server.port, user())
        with pytest.raises(ApiError):
            api.send(*ONE)
        plugin.prints("")
        with pytest.raises(ApiError, match=r"there are no credentials: .*the plugin printed no ExecCredential"):
            api.send(*ONE)
        assert len(server.asked) == 1


def test_the_time_of_a_request_counts_it(tmp_path: Path, plugin: Plugin, authority: Authority) -> None:
    """A write that was delayed by a plugin is not sent any more: another one may act."""
    with serving(GRANTED, tls=server_side(authority.sign())) as server:
        api = trusting(tmp_path, authority, server.port, user())
        api.connection.refused(api.connection.prepare()[1])
        plugin.write('sleep 0.5; cat "$0.out"')
        with pytest.raises(ApiError, match="no time is left"):
            api.send(*ONE, seconds=0.2)
        assert server.asked == []
