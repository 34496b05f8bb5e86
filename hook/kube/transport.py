"""Transport: pools of connections, through a proxy or not."""

from __future__ import annotations

import socket
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import urllib3

from hook.kube import tls

if TYPE_CHECKING:
    import ssl

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


def pool(context: ssl.SSLContext | None = None, server_name: str = "", proxy: str = "") -> urllib3.PoolManager:
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
