"""In a pod three files and two variables are enough; the client library is for everything else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hook import cli
from hook.errors import SettingsError
from hook.kube import connection
from hook.run import controller


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a pod's ServiceAccount directory and variables, and no proxy."""
    for name, content in (("token", "first\n"), ("ca.crt", "-----BEGIN CERTIFICATE-----"), ("namespace", "here")):
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(connection, "getproxies", dict)
    monkeypatch.setenv(connection.HOST, "10.96.0.1")
    monkeypatch.setenv(connection.PORT, "443")
    return tmp_path


def test_a_pod_finds_its_api_server(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kubelet says, checked by the mounted authority, as the mounted account; as the library has it."""
    for host, url in (
        ("10.96.0.1", "https://10.96.0.1:443"),
        ("fd00::1", "https://[fd00::1]:443"),
        ("kubernetes.default.svc", "https://kubernetes.default.svc:443"),
    ):
        monkeypatch.setenv(connection.HOST, host)
        monkeypatch.setattr(connection, "getproxies", dict)
        ours = connection.connect("", "", str(mount))
        monkeypatch.setattr(connection, "getproxies", lambda: {"https": "for the library"})
        library = connection.connect("", "", str(mount))
        assert not isinstance(library.authorization, connection.Token), host
        assert (ours.host, ours.authorization()) == (url, "bearer first")
        assert (library.host, library.authorization().strip()) == (url, "bearer first")
        mine, theirs = ours.pool.connection_pool_kw, library.pool.connection_pool_kw
        for key in ("ca_certs", "maxsize"):
            assert mine[key] == theirs[key], (host, key)
        assert mine["cert_reqs"] == "CERT_REQUIRED"
        assert sorted(mine["socket_options"]) == sorted(theirs["socket_options"]), host


def test_a_token_that_was_replaced_is_used(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a minute; and one that is gone is trouble with credentials, not a request without any."""
    lasting = connection.connect("", "", str(mount))
    monkeypatch.setattr(connection, "TOKEN_SECONDS", 0.0)
    ours = connection.connect("", "", str(mount))
    (mount / "token").write_text("second")
    assert (lasting.authorization(), ours.authorization()) == ("bearer first", "bearer second")
    (mount / "token").write_text("")
    with pytest.raises(ValueError, match="empty"):
        ours.authorization()
    (mount / "token").unlink()
    with pytest.raises(FileNotFoundError):
        ours.authorization()


def test_a_proxy_is_for_the_library(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows which hosts are not to be asked through it."""
    monkeypatch.undo()
    monkeypatch.setenv(connection.HOST, "10.96.0.1")
    monkeypatch.setenv(connection.PORT, "443")
    for name in ("HTTPS_PROXY", "ALL_PROXY"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "http://proxy.example:3128")
            patch.delenv("no_proxy", raising=False)
            for excluded in ("", "10.96.0.1"):
                patch.setenv("NO_PROXY", excluded)
                proxy = connection.connect("", "", str(mount)).pool.proxy
                assert (proxy is None) is bool(excluded), (name, excluded)


def test_half_a_service_account_is_refused(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent to a server that cannot be checked, nor without a name, nor to half an address."""
    for name in ("token", "ca.crt"):
        content = (mount / name).read_text()
        (mount / name).write_text("")
        with pytest.raises(SettingsError, match=f"{name} is empty"):
            connection.connect("", "", str(mount))
        (mount / name).write_text(content)
    monkeypatch.delenv(connection.PORT)
    with pytest.raises(SettingsError, match=connection.PORT):
        connection.connect("", "", str(mount))


def test_a_pod_does_not_load_the_client_library(mount: Path) -> None:
    """Nor what comes with it, neither Job nor controller: it costs a small container more than the fleet does."""
    code = (
        f"import sys, {cli.__name__}, {controller.__name__}, {connection.__name__} as connection; "
        f"connection.getproxies = dict; connection.connect('', '', {str(mount)!r}).authorization(); "
        "print(*(name for name in ('kubernetes', 'pydantic', 'requests', 'asyncio') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
