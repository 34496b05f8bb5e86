"""A kubeconfig means what it means to kubectl; whatever is wrong with it is one sentence."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from hook.errors import SettingsError
from hook.kube import client, connection
from hook.kube.resources import NODES
from tests.client import access
from tests.client.access import connected
from tests.client.certificates import Authority, server_side
from tests.client.server import GRANTED, serving

WHOLE: Final = (
    "clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n"
    "contexts: [{name: c, context: {cluster: k, user: u}}]\ncurrent-context: c\n"
)
CONTENTS: Final[dict[str | bytes, str]] = {
    "": "current-context is not set",
    "null": "current-context is not set",
    "- a": "Expected `object`, got `array`",
    "{[": "it is not valid YAML",
    "a: &a [*a]": "nested too deeply",
    "[" * 3000: "nested too deeply",
    "\x00": "it is not valid YAML",
    b"users: \xff\xfe": "'utf-8' codec can't decode byte 0xff",
    "users: [{name: u, user: {token: !!bool foo}}]": "it is not valid YAML",
    "users: [{name: u, user: {token: !!timestamp foo}}]": "it is not valid YAML",
    "users: [{name: u, user: {token: !!python/none x}}]": "it is not valid YAML",
    "? [a]\n: b": "it is not valid YAML",
    "a: b\npassword: @secret": "it is not valid YAML: line 2, column 11",
    "password: *secret": "it is not valid YAML: line 1, column 11",
    "password: !secret": "it is not valid YAML: line 1, column 11",
    "token: secret: x": "it is not valid YAML: line 1, column 14",
    'token: "secret': "it is not valid YAML: line 1, column 15",
    "token: !!int secret": "it is not valid YAML: a tag or a character",
    "users: [{name: u}, {name: u}]": "users: two of them have the name 'u'",
    "clusters: [{name: k}, {name: k}]": "clusters: two of them have the name 'k'",
    "contexts: [{name: c}, {name: d}, {name: c}]": "contexts: two of them have the name 'c'",
    "users: [{name: u, user: {as-groups: [null]}}]": "Expected `str`, got `null` - at `$.users[0].user.as-groups[0]`",
    f"{WHOLE}current-context: gone": "context 'gone' does not exist",
    WHOLE.replace("user: u}", "user: gone}"): "context 'c': user 'gone' does not exist",
    WHOLE.replace("cluster: k,", "cluster: gone,"): "context 'c': cluster 'gone' does not exist",
    WHOLE.replace("cluster: k,", ""): "context 'c': it names no cluster",
    WHOLE.replace("http:", "ftp:"): "server: it must begin with one of https://, http://",
    WHOLE.replace("http://127.0.0.1:1", ""): "server: it must begin with",
    WHOLE.replace("http://127.0.0.1:1", "127.0.0.1:6443"): "server: it must begin with",
    WHOLE.replace("127.0.0.1:1", "127.0.0.1:x"): "server: it must have a host, and its port",
    WHOLE.replace("127.0.0.1:1", "127.0.0.1:99999"): "server: it must have a host",
    WHOLE.replace("127.0.0.1:1", "[::1"): "server: it must have a host",
    WHOLE.replace("127.0.0.1:1", ""): "server: it must have a host",
    WHOLE.replace("127.0.0.1:1", "a b"): "server: it must have a host",
    WHOLE.replace("'http://127.0.0.1:1'", '"http://a\\tb"'): "server: it must have a host",
    WHOLE.replace("127.0.0.1:1", "me:secret@127.0.0.1:1"): "server: it must have no user name",
    WHOLE.replace("127.0.0.1:1", "127.0.0.1:1/?secret"): "server: it must have no user name",
}
"""Contents of a file, and what is said of them."""


def test_what_is_wrong_with_a_file_is_a_sentence(tmp_path: Path) -> None:
    """With the file, and the field where there is one. Nothing but a sentence is raised."""
    file = tmp_path / "kubeconfig"
    for content, problem in CONTENTS.items():
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        with pytest.raises(SettingsError) as caught:
            connected(file)
        assert problem in str(caught.value), content[:80]
        assert str(file) in str(caught.value), content[:80]
        assert "\n" not in str(caught.value), content[:80]
        assert "secret" not in str(caught.value), content[:80]


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is named must exist; a folder is no file; and no home is needed to say so."""
    monkeypatch.delenv(connection.KUBECONFIG, raising=False)
    for home in ("/nonexistent", None):
        if home is None:
            monkeypatch.delenv("HOME")
            monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # As for a user without an entry in passwd.
        for named, problem in {
            str(tmp_path / "gone"): f"{tmp_path}/gone: No such file or directory",
            str(tmp_path): f"{tmp_path}: Is a directory",
            "~nouser/x": "~nouser/x: No such file or directory",
            "a\0b": "null",
            "": "there is none, and no ServiceAccount in /nonexistent",
        }.items():
            with pytest.raises(SettingsError) as caught:
                client.connect(named, "", "/nonexistent")
            assert problem in str(caught.value), (home, named)
    monkeypatch.setenv(connection.KUBECONFIG, f"{tmp_path}/gone:{tmp_path}/lost")
    with pytest.raises(SettingsError, match=r"KUBECONFIG names no file that exists: .*/gone:.*/lost"):
        client.connect("", "", "/nonexistent")


def test_files_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one counts for each name. Those that do not exist are skipped, unless one of them is named alone."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("clusters: [{name: k, cluster: {server: 'http://127.0.0.1:2'}}]\ncurrent-context: d\n")
    second.write_text(f"{WHOLE.replace('contexts: [', 'contexts: [{name: d, context: {cluster: e}}, ')}")
    with second.open("a") as file:
        file.write("preferences: {}\n")
    third = tmp_path / "third"
    third.write_text("clusters: [{name: e, cluster: {server: 'http://127.0.0.1:3'}}]\n")
    monkeypatch.setenv(connection.KUBECONFIG, f"{tmp_path}/gone:{first}::{second}:{third}")
    assert client.connect("", "", "/nonexistent").host == "http://127.0.0.1:3"
    assert client.connect("", "c", "/nonexistent").host == "http://127.0.0.1:2"
    assert client.connect(str(second), "c", "/nonexistent").host == "http://127.0.0.1:1"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(connection.KUBECONFIG)
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(WHOLE)
    assert client.connect("", "", "/nonexistent").host == "http://127.0.0.1:1"
    assert client.connect("~/.kube/config", "", "/nonexistent").host == "http://127.0.0.1:1"


def test_paths_are_relative_to_their_file(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the program was started, and whichever file of several has them."""
    pair = authority.sign(subject="someone")
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    with serving(GRANTED, tls=server_side(authority.sign(), clients=authority)) as server:
        cluster = f"certificate-authority: {authority.certificate.name}"
        user = f"client-certificate: {pair.certificate.name}, client-key: ../{tmp_path.name}/{pair.key.name}"
        file = access.kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", cluster, user)
        (inner / "other").write_text("current-context: c\n")
        monkeypatch.setenv(connection.KUBECONFIG, f"other:../{file.name}")
        client.connect("", "", "/nonexistent").send("get", NODES, "gpu-0")
        assert [each.subject for each in server.heard] == ["someone"]


def test_what_is_null_is_empty(tmp_path: Path) -> None:
    """As for kubectl, in each field, list and block."""
    nulls = ("token", "as", "as-uid", "as-groups", "as-user-extra", "username", "tokenFile", "exec", "auth-provider")
    user = ", ".join(f"{name}: null" for name in nulls)
    cluster = "certificate-authority: null, proxy-url: ~, tls-server-name: , insecure-skip-tls-verify: null"
    with serving(GRANTED) as server:
        connected(access.kubeconfig(tmp_path, server.api.host, f"{cluster}, extensions: null", user)).send(
            "get", NODES, "gpu-0"
        )
        file = tmp_path / "kubeconfig"
        file.write_text(
            f"clusters: [{{name: k, cluster: {{server: '{server.api.host}'}}}}]\nusers: null\n"
            "contexts: [{name: c, context: {cluster: k, user: null}}]\ncurrent-context: c\nextensions: null\n"
        )
        connected(file).send("get", NODES, "gpu-0")
        file.write_text(WHOLE.replace("user: {}", "user: null").replace("http://127.0.0.1:1", server.api.host))
        connected(file).send("get", NODES, "gpu-0")
        assert len(server.asked) == 3


def test_a_server_may_have_a_path(tmp_path: Path) -> None:
    """As behind Rancher; and its scheme may be in capitals."""
    with serving(GRANTED) as server:
        host = server.api.host.replace("http", "HTTP")
        connected(access.kubeconfig(tmp_path, f"{host}/k8s/clusters/c-1/")).send("get", NODES, "gpu-0")
        assert server.asked == ["GET /k8s/clusters/c-1/api/v1/nodes/gpu-0"]
