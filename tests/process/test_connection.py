"""In a pod three files and two variables are enough; the client library is for everything else."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hook import cli
from hook.errors import SettingsError
from hook.kube import connection
from hook.run import controller

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a pod's ServiceAccount directory and variables, and no proxy."""
    for name, content in (("token", "first\n"), ("ca.crt", "-----BEGIN CERTIFICATE-----"), ("namespace", "here")):
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(connection, "getproxies", dict)
    monkeypatch.setenv(connection.HOST, "10.96.0.1")
    monkeypatch.setenv(connection.PORT, "443")
    return tmp_path


@pytest.mark.parametrize(
    ("host", "url"),
    [
        pytest.param("10.96.0.1", "https://10.96.0.1:443", id="ipv4"),
        pytest.param("fd00::1", "https://[fd00::1]:443", id="ipv6"),
        pytest.param("kubernetes.default.svc", "https://kubernetes.default.svc:443", id="name"),
    ],
)
def test_a_pod_finds_its_api_server(mount: Path, monkeypatch: pytest.MonkeyPatch, host: str, url: str) -> None:
    """Where the kubelet says, checked by the mounted authority, as the mounted account; as the library has it."""
    monkeypatch.setenv(connection.HOST, host)
    ours = connection.connect("", "", str(mount))
    monkeypatch.setattr(connection, "getproxies", lambda: {"https": "for the library"})
    library = connection.connect("", "", str(mount))
    assert not isinstance(library.authorization, connection.Token)
    assert (ours.host, ours.authorization()) == (url, "bearer first")
    assert (library.host, library.authorization().strip()) == (url, "bearer first")
    for key in ("ca_certs", "maxsize"):
        assert ours.pool.connection_pool_kw[key] == library.pool.connection_pool_kw[key], key
    assert ours.pool.connection_pool_kw["cert_reqs"] == "CERT_REQUIRED"
    assert sorted(ours.pool.connection_pool_kw["socket_options"]) == sorted(
        library.pool.connection_pool_kw["socket_options"]
    )


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


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "ALL_PROXY"])
def test_a_proxy_is_for_the_library(mount: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It knows which hosts are not to be asked through it."""
    monkeypatch.undo()
    monkeypatch.setenv(connection.HOST, "10.96.0.1")
    monkeypatch.setenv(connection.PORT, "443")
    monkeypatch.setenv(name, "http://proxy.example:3128")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert connection.connect("", "", str(mount)).pool.proxy is not None
    monkeypatch.setenv("NO_PROXY", "10.96.0.1")
    assert connection.connect("", "", str(mount)).pool.proxy is None


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_an_empty_file_is_refused(mount: Path, name: str) -> None:
    """Nothing is sent to a server that cannot be checked, nor in nobody's name."""
    (mount / name).write_text("")
    with pytest.raises(SettingsError, match="empty"):
        connection.connect("", "", str(mount))


def test_without_a_port_there_is_no_server(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an address is none."""
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
