"""Connection to the API server: as the ServiceAccount of a pod, or by a kubeconfig.

In a pod this needs a few files and two environment variables. What only a kubeconfig needs is imported for one alone.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import urllib3

from hook.errors import SettingsError
from hook.kube import proxies, tls
from hook.kube.credentials import Credential, Credentials, blaming, of_token_file, told

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

KUBECONFIG: Final = "KUBECONFIG"
"""Environment variable with the files that kubectl reads."""
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
"""Environment variables that the kubelet sets in every pod."""
ANONYMOUS: Final = "system:anonymous"
"""User of a request without credentials."""
_ANONYMOUS: Final = Credential()
CONNECTIONS: Final = 64
"""Connections that the pool keeps open: two per watch while a run confirms its end, some for lists and writes."""
KEEP_ALIVE: Final = (
    *urllib3.connection.HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 9))
        if hasattr(socket, name)
    ),
)
"""Socket options as of client-go."""


class Connection:
    """Connection to one API server, with credentials. Safe to use from several threads."""

    def __init__(
        self,
        host: str,
        read: Callable[[], Credential] = lambda: _ANONYMOUS,
        trust: tls.Trust | None = None,
        proxy: str = "",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.host = host
        """Address with scheme."""
        self.way = f"{host} through the proxy {urlsplit(proxy).hostname}" if proxy else host
        """The same, with the proxy on the way to it."""
        self.headers = headers
        """Headers of all requests."""
        self.impersonates_anonymous = ("Impersonate-User", ANONYMOUS) in headers
        """Whether a request without rights may be meant so."""
        self._credentials = Credentials(read)
        self._trust, self._proxy = trust, proxy
        self._lock = threading.Lock()
        self._pool: urllib3.PoolManager | None = None
        self._presented: tuple[bytes, bytes] = b"", b""
        """Certificate and key of the pool's connections."""

    def prepare(self) -> tuple[urllib3.PoolManager, Credential]:
        """Return the pool and the credential for a request. Raises OSError or ValueError."""
        credential = self._credentials.current()
        pair = credential.certificate, credential.key
        with self._lock:
            if self._pool is None or pair != self._presented:
                try:
                    pool = self._new_pool(*pair)
                except (OSError, ValueError):
                    self._credentials.refused(credential)
                    raise
                if self._pool is not None:
                    # Its connections would present the old certificate for as long as they are open.
                    self._pool.clear()
                self._pool, self._presented = pool, pair
            return self._pool, credential

    def refused(self, credential: Credential) -> None:
        """Renew the credential for the next request: the API server did not accept this one."""
        self._credentials.refused(credential)

    def _new_pool(self, certificate: bytes, key: bytes) -> urllib3.PoolManager:
        trust = self._trust
        if trust is None:
            return _new_pool(proxy=self._proxy)
        with blaming("client certificate"):
            context = tls.context(trust, certificate, key)
        return _new_pool(context, trust.server_name, self._proxy)


def connect(kubeconfig: str, context: str, service_account_dir: str) -> Connection:
    """Connect by kubeconfig if one is set or there is no ServiceAccount token, else as the ServiceAccount."""
    folder = Path(service_account_dir)
    in_cluster = not (kubeconfig or context or os.environ.get(KUBECONFIG)) and (folder / "token").is_file()
    what = f"the ServiceAccount in {folder}" if in_cluster else "the kubeconfig"
    try:
        return _in_cluster(folder) if in_cluster else _by_kubeconfig(kubeconfig, context, folder)
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot use {what}: {told(error)}") from error


def _in_cluster(folder: Path) -> Connection:
    host, port = os.environ.get(HOST, ""), os.environ.get(PORT, "")
    if not host or not port:
        raise ValueError(f"{HOST} and {PORT} are not set")
    file = folder / "ca.crt"
    authority = file.read_bytes()
    with blaming(str(file)):
        tls.authority(authority)
    server = f"https://{_bracketed(host)}:{port}"
    proxy = proxies.of_environment(server)
    made = Connection(server, lambda: of_token_file(folder / "token"), tls.Trust(authority), proxy)
    made.prepare()
    return made


def _by_kubeconfig(kubeconfig: str, context: str, folder: Path) -> Connection:
    # A pod does not load YAML.
    from hook.kube import access  # noqa: PLC0415

    named = os.environ.get(KUBECONFIG, "")
    found = access.by_kubeconfig(kubeconfig, named, context)
    if found is None:
        if named:
            raise ValueError(f"{KUBECONFIG} names no file that exists: {named}")
        raise ValueError(f"there is none, and no ServiceAccount in {folder}; name one with --kubeconfig or KUBECONFIG")
    made = Connection(found.server, found.read, found.trust, found.proxy, found.headers)
    with blaming(found.where):
        made.prepare()
    return made


def _bracketed(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host  # noqa: PLR2004 - IPv6
    except ValueError:
        return host


def _new_pool(context: ssl.SSLContext | None = None, server_name: str = "", proxy: str = "") -> urllib3.PoolManager:
    """Return a pool that connects through a proxy, if one is given."""
    options: dict[str, Any] = {"maxsize": CONNECTIONS, "socket_options": KEEP_ALIVE, "ssl_context": context}
    options["server_hostname"] = server_name or None
    if proxy.startswith("socks"):
        return _through_socks(proxy, options)
    if not proxy:
        return urllib3.PoolManager(**options)
    to_proxy = tls.context(tls.Trust()) if proxy.startswith("https:") else None
    return _Through(proxy, proxy_headers=_authorization(proxy), proxy_ssl_context=to_proxy, **options)


class _Through(urllib3.ProxyManager):
    """Pool that connects through a proxy. The base class would join headers of the same name for plain HTTP."""

    urlopen = urllib3.PoolManager.urlopen


def _authorization(proxy: str) -> dict[str, str]:
    """Return the header for the account in a proxy's URL, if there is one."""
    url = urlsplit(proxy)
    if url.username is None:
        return {}
    account = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return {"proxy-authorization": f"Basic {b64encode(account.encode()).decode()}"}


def _through_socks(proxy: str, options: dict[str, Any]) -> urllib3.PoolManager:
    """Return a pool that connects through a SOCKS proxy, which looks up the host's name as with Go."""
    from urllib3.contrib import socks  # noqa: PLC0415 - no other connection needs it

    return socks.SOCKSProxyManager(f"socks5h:{proxy.partition(':')[2]}", **options)
