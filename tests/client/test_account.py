"""A kubeconfig's user: no field that changes who acts is dropped, and lost credentials are no missing permissions."""

from __future__ import annotations

import functools
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Final

import pytest

from hook.errors import SettingsError
from hook.kube.resources import NODES
from tests.client.access import connected, kubeconfig, trusting
from tests.client.certificates import Authority, server_side
from tests.client.server import GRANTED, Server, serving


def asked_as(folder: Path, authority: Authority, user: str) -> Server:
    """Send a request as a user, and return the server that got it."""
    with serving(GRANTED, tls=server_side(authority.sign(), clients=authority)) as server:
        trusting(folder, authority, server.port, user).send("get", NODES, "gpu-0")
    return server


def test_an_impersonated_user_acts(tmp_path: Path, authority: Authority) -> None:
    """With groups, UID and further attributes, whose keys are escaped as client-go does; in UTF-8."""
    user = (
        "token: secret, as: jürgen, as-uid: '7', as-groups: [a, 'b, c'], "
        "as-user-extra: {scopes: [x, y], 'acme.io/Größe %1': [z], none: [], k: null}"
    )
    (heard,) = asked_as(tmp_path, authority, user).heard
    found = [(name.lower(), value) for name, value in heard.headers.items() if name.lower().startswith("impersonate")]
    assert found == [
        ("impersonate-user", "jürgen".encode().decode("latin-1")),
        ("impersonate-uid", "7"),
        ("impersonate-group", "a"),
        ("impersonate-group", "b, c"),
        ("impersonate-extra-scopes", "x"),
        ("impersonate-extra-scopes", "y"),
        ("impersonate-extra-acme.io%2fgr%c3%b6%c3%9fe%20%251", "z"),
    ]
    assert heard.headers["authorization"] == "Bearer secret"


CREDENTIALS: Final = {
    "token: secret": "Bearer secret",
    "token: secret, tokenFile: token": "Bearer from-file",
    "tokenFile: token": "Bearer from-file",
    "username: me, password: 'p:ä'": f"Basic {b64encode('me:p:ä'.encode()).decode()}",
    "username: me": f"Basic {b64encode(b'me:').decode()}",
    "token: secret, exec: {command: gone, apiVersion: client.authentication.k8s.io/v1}": "Bearer secret",
}


def test_each_kind_of_credentials_is_sent(tmp_path: Path, authority: Authority) -> None:
    """And a certificate besides, from a file or from the kubeconfig itself."""
    (tmp_path / "token").write_text("from-file\n")
    pair = authority.sign(subject="me")
    by_file = f"client-certificate: {pair.certificate}, client-key: {pair.key}"
    data = [b64encode(file.read_bytes()).decode() for file in (pair.certificate, pair.key)]
    by_data = f"client-certificate-data: {data[0]}, client-key-data: {data[1]}"
    for user, header in CREDENTIALS.items():
        (heard,) = asked_as(tmp_path, authority, f"{user}, {by_file}").heard
        assert (heard.headers["authorization"], heard.subject) == (header, "me"), user
    (heard,) = asked_as(tmp_path, authority, by_data).heard
    assert (heard.headers["authorization"], heard.subject) == (None, "me")


def test_no_plugin_runs_where_a_certificate_is(tmp_path: Path, authority: Authority) -> None:
    """As with kubectl: its token would name another user."""
    pair = authority.sign(subject="me")
    plugin = "exec: {command: gone, apiVersion: client.authentication.k8s.io/v1}"
    user = f"client-certificate: {pair.certificate}, client-key: {pair.key}, {plugin}"
    (heard,) = asked_as(tmp_path, authority, user).heard
    assert (heard.headers["authorization"], heard.subject) == (None, "me")


def test_no_secret_is_sent_in_plain_text(tmp_path: Path) -> None:
    """Like kubectl. Whom to act as is no secret."""
    with serving(GRANTED) as server:
        connected(kubeconfig(tmp_path, server.api.host, user="token: secret, as: me")).send("get", NODES, "gpu-0")
        assert server.heard[0].headers["authorization"] is None
        assert server.heard[0].headers["impersonate-user"] == "me"


REFUSED: Final = {
    "as-groups: [system:masters]": "as-uid, as-groups and as-user-extra need the field as",
    "as-uid: x": "need the field as",
    "as-user-extra: {k: [v]}": "need the field as",
    'as: "a\\nb"': "as: it contains a control character",
    'as: a, as-user-extra: {k: ["\\n"]}': "as-user-extra: it contains a control character",
    "token: secret, username: me": "token and username: only one of them",
    "tokenFile: KEY, username: me": "tokenFile and username: only one of them",
    'token: "secret\\nwith: more"': "token: the token contains a character",
    "token: sécret": "token: the token contains a character",
    "tokenFile: gone": "tokenFile: No such file or directory",
    "tokenFile: .": "tokenFile: Is a directory",
    "tokenFile: empty": "empty is empty",
    "tokenFile: latin": "tokenFile: 'ascii' codec",
    "client-certificate: CERTIFICATE": "client-certificate and client-key: one of them is missing",
    "client-key: KEY": "client-certificate and client-key: one of them is missing",
    "client-certificate: gone, client-key: KEY": "client-certificate: No such file or directory",
    "client-certificate: CERTIFICATE, client-key: gone": "client-key: No such file or directory",
    "client-certificate: CERTIFICATE, client-key: OTHER": "client certificate: certificate and key",
    "client-certificate: CERTIFICATE, client-key: CERTIFICATE": "client certificate: certificate and key",
    "client-certificate: CERTIFICATE, client-key: locked": "client certificate: certificate and key",
    "client-certificate-data: '#', client-key: KEY": "client-certificate-data: ",
    "auth-provider: {name: oidc}": "auth-provider is not supported: use a plugin (exec)",
    "exec: {command: a}, auth-provider: {name: oidc, config: {id-token: secret}}": "auth-provider is not supported",
}


def test_a_user_that_cannot_be_used_is_a_sentence(tmp_path: Path, authority: Authority) -> None:
    """It names the field, and no secret."""
    pair, other = authority.sign(), authority.sign()
    (tmp_path / "empty").touch()
    (tmp_path / "latin").write_bytes("sécret".encode("latin-1"))
    locking = [
        "openssl",
        "pkcs8",
        "-topk8",
        "-in",
        str(pair.key),
        "-out",
        f"{tmp_path}/locked",
        "-passout",
        "pass:secret",
    ]
    subprocess.run(locking, check=True, capture_output=True)
    files = {"CERTIFICATE": str(pair.certificate), "KEY": str(pair.key), "OTHER": str(other.key)}
    for user, problem in REFUSED.items():
        named = functools.reduce(lambda text, word: text.replace(word, files[word]), files, user)
        with pytest.raises(SettingsError) as caught:
            connected(kubeconfig(tmp_path, "https://127.0.0.1:1", user=named))
        assert problem in str(caught.value), user
        assert str(tmp_path / "kubeconfig") in str(caught.value), user
        assert "secret" not in str(caught.value), user
