"""Connect as a kubeconfig says: the API server, what its certificate must prove, the proxy, and the account."""

from __future__ import annotations

import math
import re
import time
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Final

import urllib3

from hook.kube import execplugin, kubeconfig, proxies, tls
from hook.kube.connection import Connection
from hook.kube.credentials import FILE_SECONDS, Credential, bearer, blaming, of_token_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from hook.kube.kubeconfig import Chosen, Cluster, User

Headers = tuple[tuple[str, str], ...]

_ILLEGAL: Final = re.compile(r"[^\w!#$&'*+.^`|~-]", re.ASCII)
"""Characters of a key that are escaped in the name of a header, as client-go does."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def by_kubeconfig(file: str, listed: str, context: str) -> Connection | None:
    """Connect by one file, else by those of a list, or return None if there is none. Raises OSError or ValueError."""
    files = kubeconfig.paths(file, listed)
    if not files:
        return None
    chosen = kubeconfig.choose(files, context)
    with blaming(":".join(map(str, files))):
        server = _server(chosen.cluster)
        trust = _trust(chosen.cluster) if server.startswith("https:") else None
        read = _reader(chosen, trust.authority if trust else b"")
        # Like kubectl, send no secret in plain text.
        read = read if trust else Credential
        made = Connection(server, read, trust, _proxy(chosen.cluster, server), _impersonation(chosen.user))
        made.prepare()
        return made


def _server(cluster: Cluster) -> str:
    with blaming("server"):
        url = proxies.parsed(cluster.server, ("https", "http"))
        if url.username is not None or url.query or url.fragment:
            raise ValueError("it must have no user name, no query and no fragment")
        return f"{url.scheme}:{cluster.server.partition(':')[2]}".rstrip("/")


def _trust(cluster: Cluster) -> tls.Trust:
    data, file = cluster.certificate_authority_data, cluster.certificate_authority
    authority = kubeconfig.content(data, file, "certificate-authority")
    if cluster.insecure_skip_tls_verify:
        if data or file:
            raise ValueError("insecure-skip-tls-verify and certificate-authority: only one of them can be used")
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    if data or file:
        with blaming("certificate-authority-data" if data else "certificate-authority"):
            tls.authority(authority)
    return tls.Trust(authority, cluster.tls_server_name, not cluster.insecure_skip_tls_verify)


def _proxy(cluster: Cluster, server: str) -> str:
    if not cluster.proxy_url:
        return proxies.of_environment(server)
    with blaming("proxy-url"):
        return proxies.checked(cluster.proxy_url)


def _reader(chosen: Chosen, authority: bytes) -> Callable[[], Credential]:
    """Return a function that reads the credential of a user. It raises OSError or ValueError, as this does."""
    user = chosen.user
    for given, name in ((user.token, "token"), (user.token_file, "tokenFile")):
        if given and (user.username or user.password):
            raise ValueError(f"{name} and username: only one of them can be used")
    static = _static(user)
    if user.auth_provider is not None and not static.authorization:
        raise ValueError("auth-provider is not supported: use a plugin (exec) that provides credentials")
    if user.exec is None or static.authorization or static.certificate:
        # As with kubectl, no plugin runs if there are other credentials.
        return lambda: _static(user)
    return execplugin.prepared(user.exec, chosen.cluster, authority)


def _impersonation(user: User) -> Headers:
    """Return the headers by which a user acts as another one. Raises ValueError."""
    name = user.impersonated
    if not name:
        if user.as_uid or user.as_groups or user.as_user_extra:
            raise ValueError("as-uid, as-groups and as-user-extra need the field as")
        return ()
    found = [("as", "Impersonate-User", name)]
    found += [("as-uid", "Impersonate-Uid", user.as_uid)] if user.as_uid else []
    found += [("as-groups", "Impersonate-Group", group) for group in user.as_groups]
    for key, values in user.as_user_extra.items():
        found += [("as-user-extra", f"Impersonate-Extra-{_escaped(key)}", value) for value in values]
    for origin, _header, value in found:
        if _CONTROL.search(value):
            raise ValueError(f"{origin}: it contains a control character")
    # Headers are sent as Latin-1, while the server reads UTF-8.
    return tuple((header, value.encode().decode("latin-1")) for _origin, header, value in found)


def _escaped(key: str) -> str:
    return _ILLEGAL.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), key)


def _static(user: User) -> Credential:
    """Read what stands in the kubeconfig, or in files that may be replaced."""
    certificate = kubeconfig.content(user.client_certificate_data, user.client_certificate, "client-certificate")
    key = kubeconfig.content(user.client_key_data, user.client_key, "client-key")
    if bool(certificate) != bool(key):
        raise ValueError("client-certificate and client-key: one of them is missing or empty")
    files = user.client_certificate or user.client_key or user.token_file
    until = time.monotonic() + FILE_SECONDS if files else math.inf
    return Credential(_authorization(user), certificate, key, until)


def _authorization(user: User) -> str:
    if user.token_file:
        with blaming("tokenFile"):
            return of_token_file(Path(user.token_file)).authorization
    if user.token:
        with blaming("token"):
            return bearer(user.token)
    if user.username or user.password:
        return f"Basic {b64encode(f'{user.username}:{user.password}'.encode()).decode()}"
    return ""
