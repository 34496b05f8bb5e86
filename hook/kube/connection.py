"""Connection to the API server: its address, what its certificate must prove, the proxy, and the credentials."""

from __future__ import annotations

import socket
import threading
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import urllib3

from hook.kube import tls
from hook.kube.credentials import Credential, Credentials, blaming

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

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
