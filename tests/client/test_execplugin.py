"""Plugins of a kubeconfig: what they print is used until it ends or is refused; one that fails is an error."""

from __future__ import annotations

import json
import os
import pty
import stat
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from hook.errors import ApiError, SettingsError
from hook.kube import execplugin
from hook.kube.resources import NODES
from tests.client.access import trusting
from tests.client.certificates import Authority, server_side
from tests.client.server import GRANTED, Said, refused, serving

V1: Final = "client.authentication.k8s.io/v1"
V1BETA1: Final = "client.authentication.k8s.io/v1beta1"


def printed(status: Mapping[str, object], version: str = V1, kind: str = "ExecCredential") -> str:
    """Return what a plugin prints."""
    return json.dumps({"apiVersion": version, "kind": kind, "status": status})


class Plugin:
    """A plugin that prints what is in a file, and counts its runs."""

    def __init__(self, folder: Path) -> None:
        """Write it."""
        self.folder = folder
        self.file = folder / "plugin"
        self.write('echo run >> "$0.runs"; env > "$0.env"; cat "$0.out"')
        self.prints(printed({"token": "first"}))

    def write(self, script: str) -> None:
        """Replace its script."""
        self.file.write_text(f"#!/bin/sh\n{script}\n")
        self.file.chmod(self.file.stat().st_mode | stat.S_IXUSR)

    def prints(self, text: str) -> None:
        """Set what it prints."""
        (self.folder / "plugin.out").write_text(text)

    @property
    def runs(self) -> int:
        """How often it ran."""
        runs = self.folder / "plugin.runs"
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    @property
    def environment(self) -> Mapping[str, str]:
        """Its variables, at its last run."""
        lines = (self.folder / "plugin.env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def user(self, version: str = V1, more: str = "") -> str:
        """Return the field of a user."""
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
    plugin.prints(printed({"token": "first", "expirationTimestamp": None}, version))
    with serving(lambda _line: answer(), tls=server_side(authority.sign())) as server:

        def answer() -> Said:
            return GRANTED if server.heard[-1].headers["authorization"] == accepted else refused(401)

        nulls = ", args: null, env: null, installHint: null, interactiveMode: null, provideClusterInfo: null"
        api = trusting(tmp_path, authority, server.port, plugin.user(version, nulls))
        api.send("get", NODES, "gpu-0")
        api.send("get", NODES, "gpu-0")
        assert plugin.runs == 1
        accepted = "Bearer second"
        plugin.prints(printed({"token": "second"}, version))
        with pytest.raises(ApiError):
            api.send("get", NODES, "gpu-0")
        api.send("get", NODES, "gpu-0")
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
        api = trusting(tmp_path, authority, server.port, plugin.user())
        api.send("get", NODES, "gpu-0")
        api.send("get", NODES, "gpu-0")
        assert plugin.runs == runs


def test_what_it_gets_to_know(tmp_path: Path, plugin: Plugin, authority: Authority) -> None:
    """Its variables and arguments; of the cluster only on demand, with the extension that is for it. Dates are text."""
    plugin.write('echo "$@" > "$0.args"; env > "$0.env"; cat "$0.out"')
    config = "{audience: x, since: 2026-01-01, at: 2026-01-01 0:00:00, none: null}"
    extensions = f"[{{name: other, extension: 1}}, {{name: client.authentication.k8s.io/exec, extension: {config}}}]"
    more = ", args: [a, 'b c'], env: [{name: A, value: x}, {name: B}], provideClusterInfo: "
    for told in ("true", "false"):
        cluster = f"tls-server-name: inside, extensions: {extensions}"
        trusting(tmp_path, authority, 1, plugin.user(more=more + told), cluster)
        found: dict[str, Any] = json.loads(plugin.environment[execplugin.INFORMATION])
        described = found["spec"].pop("cluster", None)
        assert found == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}
        assert (plugin.environment["A"], plugin.environment["B"]) == ("x", "")
        assert (tmp_path / "plugin.args").read_text() == "a b c\n"
        if told == "false":
            assert described is None
            continue
        assert described.pop("certificate-authority-data")
        assert described == {
            "server": "https://127.0.0.1:1",
            "tls-server-name": "inside",
            "config": {"audience": "x", "since": "2026-01-01", "at": "2026-01-01 0:00:00", "none": None},
        }


@pytest.mark.parametrize("config", ["&a {b: *a}", "{? [a] : 1}", "{a: !!timestamp x}"])
def test_what_json_cannot_say_is_a_sentence(config: str, tmp_path: Path, plugin: Plugin, authority: Authority) -> None:
    """An extension that no plugin can get is an error of the kubeconfig."""
    extension = f"extensions: [{{name: client.authentication.k8s.io/exec, extension: {config}}}]"
    with pytest.raises(SettingsError, match=r"it has no form in JSON|it is not valid YAML"):
        trusting(tmp_path, authority, 1, plugin.user(more=", provideClusterInfo: true"), extension)


def test_it_asks_the_user_only_at_a_terminal(
    tmp_path: Path, plugin: Plugin, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only if its mode allows that; one that must ask is not run without a terminal."""
    plugin.write('test -t 0 && touch "$0.asked"; env > "$0.env"; cat "$0.out"')
    master, terminal = pty.openpty()
    standard = os.dup(0)
    try:
        for mode, at_terminal, asked in (
            ("", True, True),
            ("IfAvailable", True, True),
            ("Always", True, True),
            ("Never", True, False),
            ("IfAvailable", False, False),
            ("Always", False, None),
        ):
            (tmp_path / "plugin.asked").unlink(missing_ok=True)
            os.dup2(terminal if at_terminal else standard, 0)
            name = os.ttyname(terminal) if at_terminal else os.devnull
            with Path(name).open() as stdin, monkeypatch.context() as patch:
                patch.setattr("sys.stdin", stdin)
                more = f", interactiveMode: {mode}" if mode else ""
                if asked is None:
                    with pytest.raises(SettingsError, match="interactiveMode is Always, but standard input is not a"):
                        trusting(tmp_path, authority, 1, plugin.user(more=more))
                    continue
                trusting(tmp_path, authority, 1, plugin.user(more=more))
            assert (tmp_path / "plugin.asked").exists() is asked, mode
            assert json.loads(plugin.environment[execplugin.INFORMATION])["spec"]["interactive"] is asked, mode
    finally:
        os.dup2(standard, 0)
        for descriptor in (master, terminal, standard):
            os.close(descriptor)


FAILING: Final = {
    "echo 'no session:\n  log in' >&2; exit 3": "/plugin: the plugin failed with exit code 3: no session: log in",
    "exit 4": "the plugin failed with exit code 4",
    "printf '\\033[2Jx' >&2; exit 1": "\\x1b[2Jx",
    "echo secret": "the plugin printed no ExecCredential: JSON is malformed",
    "exec sleep 60": "the plugin did not end within 1 s",
    "sleep 4 & exec sleep 60": "the plugin did not end within 1 s",
}
PRINTED: Final = {
    "[]": "the plugin printed no ExecCredential",
    "[" * 100_000: "the plugin printed no ExecCredential",
    "{}": f"the plugin printed '' of '' instead of ExecCredential of {V1}",
    printed({"token": "secret"}, V1BETA1): f"'ExecCredential' of '{V1BETA1}' instead of ExecCredential of {V1}",
    printed({"token": "secret"}, kind="Secret"): "'Secret'",
    printed({}): "the plugin printed neither a token nor a certificate",
    json.dumps({"apiVersion": V1, "kind": "ExecCredential"}): "the plugin printed neither",
    printed({"clientCertificateData": "x"}): "the plugin printed a certificate without its key",
    printed({"clientKeyData": "secret"}): "the plugin printed a certificate without its key",
    printed(
        {"clientKeyData": "secret", "clientCertificateData": "x"}
    ): "client certificate: certificate and key cannot be",
    printed({"token": 5}): "the plugin printed no ExecCredential: Expected `str | null`",
    printed({"token": "secret\nX: y"}): "the token contains a character that no header may contain",
    printed({"token": "secret", "expirationTimestamp": "soon"}): "the plugin printed expirationTimestamp 'soon'",
    printed({"token": "secret", "expirationTimestamp": "2026-01-01T00:00:00"}): "expirationTimestamp",
}
SETTINGS: Final = {
    "exec: {V1}": "exec: command is missing",
    "exec: {command: a}": "exec: apiVersion '' is none of client.authentication.k8s.io/v1, ",
    "exec: {command: a, apiVersion: client.authentication.k8s.io/v1alpha1}": "exec: apiVersion 'client.",
    "exec: {command: a, V1, interactiveMode: Maybe}": "interactiveMode 'Maybe'",
    "exec: {command: a, V1, env: [{name: ''}]}": "a variable in env has no name",
    'exec: {command: sh, V1, args: ["\\0"]}': "sh: embedded null byte",
    "exec: {command: sh, V1, env: [{name: 'A=B'}]}": "sh: illegal environment",
    'exec: {command: no-such-plugin, V1, installHint: "get it\\nat x"}': (
        "no-such-plugin: the plugin cannot be run: No such file or directory: no-such-plugin; get it at x"
    ),
    "exec: {command: ./gone, apiVersion: client.authentication.k8s.io/v1beta1}": "/gone: the plugin cannot be run: No",
    "exec: {command: ./token, V1}": "/token: the plugin cannot be run: Permission",
}


def test_one_that_fails_is_reported(
    tmp_path: Path, plugin: Plugin, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what it wrote to standard error, in a line, and never with what it printed; no request is sent."""
    monkeypatch.setattr(execplugin, "SECONDS", 1.0)
    (tmp_path / "token").touch()

    def told(user: str) -> str:
        with pytest.raises(SettingsError) as caught:
            trusting(tmp_path, authority, 1, user)
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)
        return str(caught.value)

    for user, problem in SETTINGS.items():
        assert problem in told(user.replace("V1", f"apiVersion: {V1}")), user
    for text, problem in PRINTED.items():
        plugin.prints(text)
        assert problem in told(plugin.user()), text[:80]
    for script, problem in FAILING.items():
        plugin.write(script)
        began = time.monotonic()
        assert problem in told(plugin.user()), script
        assert time.monotonic() - began < 30, script


def test_one_that_fails_later_is_lost_credentials(tmp_path: Path, plugin: Plugin, authority: Authority) -> None:
    """Requests are not sent without them, and each says why; the plugin may recover."""
    with serving(refused(401), tls=server_side(authority.sign())) as server:
        api = trusting(tmp_path, authority, server.port, plugin.user())
        with pytest.raises(ApiError):
            api.send("get", NODES, "gpu-0")
        plugin.prints("")
        with pytest.raises(ApiError, match=r"there are no credentials: .*the plugin printed no ExecCredential"):
            api.send("get", NODES, "gpu-0")
        assert len(server.asked) == 1


def test_the_time_of_a_request_counts_it(tmp_path: Path, plugin: Plugin, authority: Authority) -> None:
    """A write that was delayed by a plugin is not sent any more: another one may act."""
    with serving(GRANTED, tls=server_side(authority.sign())) as server:
        api = trusting(tmp_path, authority, server.port, plugin.user())
        api.connection.refused(api.connection.prepare()[1])
        plugin.write('sleep 0.5; cat "$0.out"')
        with pytest.raises(ApiError, match="no time is left"):
            api.send("get", NODES, "gpu-0", seconds=0.2)
        assert server.asked == []
