"""In a pod three files and two variables are enough; credentials that are replaced are used."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from hook import cli
from hook.errors import ApiError, PermissionDeniedError, SettingsError
from hook.kube import client, connection, credentials
from hook.run import controller
from tests.client.access import Authority, Pair, account, connected, kubeconfig, server_side, trusting
from tests.client.server import GRANTED, JSON, ONE, Said, refused, serving

ANONYMOUS: Final = Said(
    403, b'{"kind": "Status", "message": "nodes is forbidden: User \\"system:anonymous\\" cannot list resource"}'
)
KEPT: Final = {**JSON, "connection": "keep-alive"}


@pytest.fixture
def mount(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a pod's ServiceAccount directory and variables."""
    return account(tmp_path, authority.certificate, 443, monkeypatch)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("10.96.0.1", "https://10.96.0.1:443"),
        ("fd00::1", "https://[fd00::1]:443"),
        ("kubernetes.default.svc", "https://kubernetes.default.svc:443"),
    ],
)
def test_a_pod_finds_its_api_server(host: str, url: str, mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kubelet says, with connections that a router does not forget."""
    monkeypatch.setenv(client.HOST, host)
    made = client.connect("", "", str(mount)).connection
    pool, credential = made.prepare()
    assert (made.host, credential.authorization) == (url, "Bearer token")
    assert pool.connection_pool_kw["socket_options"] is connection.KEEP_ALIVE


def test_kubeconfig_counts_before_the_service_account(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with kubectl: a job of a pipeline that runs in a pod may have another cluster in mind than the pod's own."""
    assert client.connect("", "", str(mount)).host == "https://127.0.0.1:443"
    monkeypatch.setenv(client.KUBECONFIG, str(kubeconfig(mount, "http://127.0.0.1:1")))
    assert client.connect("", "", str(mount)).host == "http://127.0.0.1:1"


def test_half_a_service_account_is_refused(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent to a server that cannot be checked, nor without a name, nor to half an address."""
    for name, problem in (("token", "token is empty"), ("ca.crt", "ca.crt: it contains no certificate")):
        content = (mount / name).read_text()
        (mount / name).write_text("")
        with pytest.raises(SettingsError, match=problem):
            client.connect("", "", str(mount))
        (mount / name).write_text(content)
    monkeypatch.delenv(client.PORT)
    with pytest.raises(SettingsError, match=client.PORT):
        client.connect("", "", str(mount))


def test_a_token_that_was_replaced_is_used(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a minute; and one that is gone is trouble with credentials, not a request without any."""
    lasting = client.connect("", "", str(mount)).connection
    monkeypatch.setattr(credentials, "FILE_SECONDS", 0.0)
    api = client.connect("", "", str(mount))
    (mount / "token").write_text("second")
    assert [each.prepare()[1].authorization for each in (lasting, api.connection)] == ["Bearer token", "Bearer second"]
    (mount / "token").unlink()
    with pytest.raises(ApiError, match="there are no credentials: No such file") as caught:
        api.send(*ONE)
    assert caught.value.status == 401


def test_a_refused_token_is_read_again(mount: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, although its minute is not over: by a pod and by a kubeconfig alike."""

    def answer(_line: str) -> Said:
        return GRANTED if server.heard[-1].headers["authorization"] == "Bearer second" else refused(401)

    with serving(answer, tls=server_side(authority.sign())) as server:
        account(mount, authority.certificate, server.port, monkeypatch)
        for api in (client.connect("", "", str(mount)), trusting(mount, authority, server.port, "tokenFile: token")):
            with pytest.raises(ApiError):
                api.send(*ONE)
            (mount / "token").write_text("second")
            api.send(*ONE)
            (mount / "token").write_text("token")


def test_a_renewed_client_certificate_is_presented(tmp_path: Path, authority: Authority) -> None:
    """Connections that are kept open would present the old one. Half a pair replaces nothing."""
    old, new = authority.sign(subject="old"), authority.sign(subject="new")
    used = Pair(tmp_path / "client.crt", tmp_path / "client.key")
    accepted = "old"

    def put(certificate: Path, key: Path) -> None:
        used.certificate.write_bytes(certificate.read_bytes())
        used.key.write_bytes(key.read_bytes())

    def answer(_line: str) -> Said:
        said = GRANTED if server.heard[-1].subject == accepted else refused(401)
        return dataclasses.replace(said, headers=KEPT)

    put(old.certificate, old.key)
    with serving(answer, tls=server_side(authority.sign(), clients=authority)) as server:
        api = trusting(tmp_path, authority, server.port, "client-certificate: client.crt, client-key: client.key")
        for _time in range(2):
            api.send(*ONE)
        assert len({each.connection for each in server.heard}) == 1, "the connection is kept"
        pool, _credential = api.connection.prepare()
        accepted = "new"
        with pytest.raises(ApiError):
            api.send(*ONE)
        put(new.certificate, old.key)
        with pytest.raises(ApiError, match="client certificate: certificate and key"):
            api.send(*ONE)
        put(new.certificate, new.key)
        api.send(*ONE)
        assert [each.subject for each in server.heard] == ["old", "old", "old", "new"]
        assert len(pool.pools) == 0, "the old one is closed"


def test_an_anonymous_request_says_nothing_about_permissions(tmp_path: Path) -> None:
    """Lost credentials are reported as such. Only one who asks to act as system:anonymous lacks permissions."""
    with serving(ANONYMOUS) as server:
        with pytest.raises(ApiError, match="system:anonymous") as caught:
            server.api.send(*ONE)
        assert caught.value.status == 401
        with pytest.raises(PermissionDeniedError):
            connected(kubeconfig(tmp_path, server.api.host, user="as: system:anonymous")).send(*ONE)


def test_a_pod_loads_only_what_it_needs(mount: Path) -> None:
    """Neither Job nor controller loads YAML, plugins or SOCKS: they cost a small container more than the fleet does."""
    code = (
        f"import sys, {cli.__name__}, {controller.__name__}, {client.__name__} as client; "
        f"client.connect('', '', {str(mount)!r}); "
        "print(*(name for name in ('yaml', 'subprocess', 'socks', 'asyncio') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
