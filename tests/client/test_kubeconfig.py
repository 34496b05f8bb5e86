"""A kubeconfig means what it means to kubectl; whatever is wrong with it is one sentence without a secret."""

from __future__ import annotations

import functools
import os
from base64 import b64encode
from pathlib import Path
from typing import Final

import pytest

from hook.errors import SettingsError
from hook.kube import client
from tests.client.access import Authority, connected, kubeconfig, server_side
from tests.client.server import GRANTED, ONE, Heard, serving

PLUGIN: Final = "exec: {command: gone, apiVersion: client.authentication.k8s.io/v1}"
WHOLE: Final = (
    "clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n"
    "contexts: [{name: c, context: {cluster: k, user: u}}]\ncurrent-context: c\n"
)
FILES: Final[dict[str | bytes, str]] = {
    "": "current-context is not set",
    "- a": "Expected `object`, got `array`",
    "a: &a [*a]": "nested too deeply",
    b"users: \xff\xfe": "'utf-8' codec can't decode byte 0xff",
    "token: !!int secret": "it is not valid YAML: a tag or a character",
    "? [a]\n: b": "it is not valid YAML",
    "a: b\npassword: @secret": "it is not valid YAML: line 2, column 11",
    "users: [{name: u}, {name: u}]": "users: two of them have the name 'u'",
    "clusters: [{name: k}, {name: k}]": "clusters: two of them have the name 'k'",
    "contexts: [{name: c}, {name: d}, {name: c}]": "contexts: two of them have the name 'c'",
    "users: [{name: u, user: {as-groups: [null]}}]": "Expected `str`, got `null` - at `$.users[0].user.as-groups[0]`",
    f"{WHOLE}current-context: gone": "context 'gone' does not exist",
    WHOLE.replace("user: u}", "user: gone}"): "context 'c': user 'gone' does not exist",
    WHOLE.replace("cluster: k,", "cluster: gone,"): "context 'c': cluster 'gone' does not exist",
    WHOLE.replace("cluster: k,", ""): "context 'c': it names no cluster",
    WHOLE.replace("http:", "ftp:"): "server: it must begin with one of https://, http://",
    WHOLE.replace("127.0.0.1:1", "127.0.0.1:99999"): "server: it must have a host, and its port",
    WHOLE.replace("127.0.0.1:1", "a b"): "server: it must have a host",
    WHOLE.replace("127.0.0.1:1", "me:secret@127.0.0.1:1"): "server: it must have no user name",
    WHOLE.replace("127.0.0.1:1", "127.0.0.1:1/?secret=://"): "server: it must have no user name",
}
CLUSTERS: Final = {
    "certificate-authority: gone": "certificate-authority: No such file or directory: FOLDER/gone",
    "certificate-authority: .": "certificate-authority: Is a directory",
    "certificate-authority: empty": "certificate-authority: it contains no certificate",
    "certificate-authority: damaged": "certificate-authority: it contains a certificate that cannot be read",
    "certificate-authority-data: '###'": "certificate-authority-data: ",
    "certificate-authority-data: ZW1wdHk=": "certificate-authority-data: it contains no certificate",
    "certificate-authority: CERTIFICATE, insecure-skip-tls-verify: true": "insecure-skip-tls-verify and certificate-",
}
USERS: Final = {
    "as-groups: [system:masters]": "as-uid, as-groups and as-user-extra need the field as",
    "as-uid: x": "need the field as",
    "as-user-extra: {k: [v]}": "need the field as",
    'as: "a\\nb"': "as: it contains a control character",
    "token: secret, username: me": "token and username: only one of them",
    "tokenFile: KEY, username: me": "tokenFile and username: only one of them",
    'token: "secret\\nwith: more"': "token: the token contains a character",
    "tokenFile: gone": "tokenFile: No such file or directory",
    "tokenFile: empty": "empty is empty",
    "tokenFile: latin": "tokenFile: 'ascii' codec",
    "client-certificate: CERTIFICATE": "client-certificate and client-key: one of them is missing",
    "client-certificate: CERTIFICATE, client-key: gone": "client-key: No such file or directory",
    "client-certificate: CERTIFICATE, client-key: CERTIFICATE": "client certificate: certificate and key",
    "client-certificate-data: '#', client-key: KEY": "client-certificate-data: ",
    "auth-provider: {name: oidc, config: {id-token: secret}}": "auth-provider is not supported: use a plugin (exec)",
}


@pytest.mark.parametrize("content", FILES)
def test_a_file_that_cannot_be_used(content: str | bytes, tmp_path: Path) -> None:
    """The sentence names the file, and the place where there is one."""
    file = tmp_path / "kubeconfig"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    _is_refused(file, FILES[content])


@pytest.mark.parametrize("fields", [*CLUSTERS, *USERS])
def test_a_cluster_or_user_that_cannot_be_used(fields: str, tmp_path: Path, authority: Authority) -> None:
    """The sentence names the field."""
    (tmp_path / "empty").touch()
    (tmp_path / "latin").write_bytes("sécret".encode("latin-1"))
    (tmp_path / "damaged").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    named = {"CERTIFICATE": str(authority.certificate), "KEY": str(authority.pair.key), "FOLDER": str(tmp_path)}
    text, problem = (
        functools.reduce(lambda text, word: text.replace(word, named[word]), named, found)
        for found in (fields, {**CLUSTERS, **USERS}[fields])
    )
    of_user = fields in USERS
    _is_refused(kubeconfig(tmp_path, "https://127.0.0.1:1", "" if of_user else text, text if of_user else ""), problem)


def _is_refused(file: Path, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        connected(file)
    said = str(caught.value)
    assert problem in said
    assert str(file) in said
    assert "\n" not in said
    assert "secret" not in said


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is named must exist; a folder is no file; and no home is needed to say so."""
    monkeypatch.delenv(client.KUBECONFIG, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # As for a user without an entry in passwd.
    for named, problem in {
        str(tmp_path / "gone"): f"{tmp_path}/gone: No such file or directory",
        str(tmp_path): f"{tmp_path}: Is a directory",
        "a\0b": "null",
        "": "there is none, and no ServiceAccount in /nonexistent",
    }.items():
        with pytest.raises(SettingsError) as caught:
            client.connect(named, "", "/nonexistent")
        assert problem in str(caught.value), named
    monkeypatch.setenv(client.KUBECONFIG, f"{tmp_path}/gone:{tmp_path}/lost")
    with pytest.raises(SettingsError, match=r"KUBECONFIG names no file that exists: .*/gone:.*/lost"):
        client.connect("", "", "/nonexistent")


def test_files_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one counts for each name. Those that do not exist are skipped, unless one of them is named alone."""
    first, second, home = tmp_path / "first", tmp_path / "second", tmp_path / ".kube"
    first.write_text("clusters: [{name: k, cluster: {server: 'http://127.0.0.1:2'}}]\ncurrent-context: d\n")
    second.write_text(
        WHOLE.replace("contexts: [", "contexts: [{name: d, context: {cluster: e}}, ").replace(
            "clusters: [", "clusters: [{name: e, cluster: {server: 'http://127.0.0.1:3'}}, "
        )
    )
    home.mkdir()
    (home / "config").write_text(WHOLE)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(client.KUBECONFIG, f"{tmp_path}/gone:{first}::{second}")
    expected = {("", ""): 3, ("", "c"): 2, (str(second), "c"): 1, ("~/.kube/config", ""): 1}
    found = {words: client.connect(*words, "/nonexistent").host for words in expected}
    assert found == {words: f"http://127.0.0.1:{port}" for words, port in expected.items()}
    monkeypatch.delenv(client.KUBECONFIG)
    assert client.connect("", "", "/nonexistent").host == "http://127.0.0.1:1"


def test_paths_are_relative_to_their_file(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the program was started, and whichever file of several has them."""
    pair, inner = authority.sign(subject="someone"), tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    with serving(GRANTED, tls=server_side(authority.sign(), clients=authority)) as server:
        cluster = f"certificate-authority: {authority.certificate.name}"
        user = f"client-certificate: {pair.certificate.name}, client-key: ../{tmp_path.name}/{pair.key.name}"
        file = kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", cluster, user)
        (inner / "other").write_text("current-context: c\n")
        monkeypatch.setenv(client.KUBECONFIG, f"other:../{file.name}")
        client.connect("", "", "/nonexistent").send(*ONE)
        assert [each.subject for each in server.heard] == ["someone"]


def test_what_is_null_is_empty_and_a_server_may_have_a_path(tmp_path: Path) -> None:
    """As for kubectl: null in each field, list and block; a path as behind Rancher, and a scheme in capitals."""
    names = ("token", "as", "as-uid", "as-groups", "as-user-extra", "username", "tokenFile", "exec", "auth-provider")
    user = ", ".join(f"{name}: null" for name in names)
    cluster = "certificate-authority: null, proxy-url: ~, insecure-skip-tls-verify: null, extensions: null"
    with serving(GRANTED) as server:
        host = f"{server.api.host.replace('http', 'HTTP')}/k8s/clusters/c-1/"
        file = kubeconfig(tmp_path, host, cluster, user)
        connected(file).send(*ONE)
        file.write_text(WHOLE.replace("user: {}", "user: null").replace("http://127.0.0.1:1", server.api.host))
        connected(file).send(*ONE)
        assert server.asked == ["GET /k8s/clusters/c-1/api/v1/nodes/gpu-0", "GET /api/v1/nodes/gpu-0"]


# The user.


def asked_as(folder: Path, authority: Authority, user: str) -> Heard:
    """Send a request as a user to a server whose authority the kubeconfig contains; return what the server heard."""
    cluster = f"certificate-authority-data: {b64encode(authority.certificate.read_bytes()).decode()}"
    with serving(GRANTED, tls=server_side(authority.sign(), clients=authority)) as server:
        connected(kubeconfig(folder, f"https://127.0.0.1:{server.port}", cluster, user)).send(*ONE)
    return server.heard[0]


@pytest.mark.parametrize(
    ("user", "header", "subject"),
    [
        ("token: secret", "Bearer secret", ""),
        ("token: secret, tokenFile: token", "Bearer from-file", ""),
        ("username: me, password: 'p:ä'", f"Basic {b64encode('me:p:ä'.encode()).decode()}", ""),
        (f"token: secret, {PLUGIN}", "Bearer secret", ""),
        ("FILES", None, "me"),
        ("DATA, token: secret", "Bearer secret", "me"),
        pytest.param(f"FILES, {PLUGIN}", None, "me", id="no plugin runs: its token would name another user"),
    ],
)
def test_each_kind_of_credentials_is_sent(
    user: str, header: str | None, subject: str, tmp_path: Path, authority: Authority
) -> None:
    """A header, a certificate, or both."""
    (tmp_path / "token").write_text("from-file\n")
    pair = authority.sign(subject="me")
    data = [b64encode(file.read_bytes()).decode() for file in (pair.certificate, pair.key)]
    user = user.replace("FILES", f"client-certificate: {pair.certificate}, client-key: {pair.key}")
    user = user.replace("DATA", f"client-certificate-data: {data[0]}, client-key-data: {data[1]}")
    heard = asked_as(tmp_path, authority, user)
    assert (heard.headers["authorization"], heard.subject) == (header, subject)


def test_an_impersonated_user_acts(tmp_path: Path, authority: Authority) -> None:
    """With groups, UID and further attributes, whose keys are escaped as client-go does; in UTF-8."""
    heard = asked_as(
        tmp_path,
        authority,
        "token: secret, as: jürgen, as-uid: '7', as-groups: [a, 'b, c'], "
        "as-user-extra: {scopes: [x, y], 'acme.io/Größe %1': [z], none: [], k: null}",
    )
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


def test_no_secret_is_sent_in_plain_text(tmp_path: Path) -> None:
    """Like kubectl. Whom to act as is no secret."""
    with serving(GRANTED) as server:
        connected(kubeconfig(tmp_path, server.api.host, user="token: secret, as: me")).send(*ONE)
        assert server.heard[0].headers["authorization"] is None
        assert server.heard[0].headers["impersonate-user"] == "me"
