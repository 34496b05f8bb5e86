"""Proxies: which one leads to a server, by the rules of Go's ``httpproxy``, which kubectl and Helm follow."""

from __future__ import annotations

import ipaddress
import os
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

SCHEMES: Final = ("http", "https", "socks5", "socks5h")
_HOST_AND_PORT: Final = re.compile(r"\[(?P<bracketed>[^]]*)\](?::(?P<port6>\d*))?|(?P<host>[^:]*)(?::(?P<port>\d*))?")
"""An entry of NO_PROXY that is not a bare IPv6 address."""
_PORTS: Final = {"https": 443, "http": 80}


def of_environment(server: str) -> str:
    """Return the URL of the proxy that the environment names for a server, or "". Raises ValueError if it is invalid.

    Neither Go nor this program uses ALL_PROXY.
    """
    url = urlsplit(server)
    name = f"{url.scheme.upper()}_PROXY"
    proxy = _variable(name)
    if not proxy or _excluded(url, _variable("NO_PROXY")):
        return ""
    try:
        return checked(proxy if "://" in proxy else f"http://{proxy}")
    except ValueError as error:
        raise ValueError(f"environment variable {name}: {error}") from error


def checked(proxy: str) -> str:
    """Return a proxy's URL. Raises ValueError, without the URL, which may contain a password."""
    url = urlsplit(proxy)
    if url.scheme not in SCHEMES:
        raise ValueError(f"the URL of a proxy must begin with one of {', '.join(f'{each}://' for each in SCHEMES)}")
    if not located(url):
        raise ValueError("the URL of the proxy has no host, or its port is not a number")
    return proxy


def located(url: SplitResult) -> bool:
    """Return whether a URL has a host, and no port that is impossible."""
    try:
        return bool(url.hostname) and url.port != 0
    except ValueError:
        return False


def _variable(name: str) -> str:
    return os.environ.get(name) or os.environ.get(name.lower()) or ""


def _excluded(url: SplitResult, entries: str) -> bool:
    """Return whether NO_PROXY names a host, or it is this machine."""
    host, port = url.hostname or "", str(url.port or _PORTS[url.scheme])
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry.strip().lower(), host, address, port) for entry in entries.split(",") if entry.strip())


def _matches(entry: str, host: str, address: _Address | None, port: str) -> bool:
    """Return whether one entry of NO_PROXY names a host."""
    if entry == "*":
        return True
    if "/" in entry:
        return address is not None and _in_network(address, entry)
    named, only = entry, ""
    if _address(entry) is None and (parts := _HOST_AND_PORT.fullmatch(entry)):
        named = parts["bracketed"] or parts["host"] or ""
        only = parts["port6"] or parts["port"] or ""
    if only not in ("", port) or not named:
        return False
    if (theirs := _address(named)) is not None:
        return theirs == address
    named = named.removeprefix("*")
    return host.endswith(named) if named.startswith(".") else host == named or host.endswith(f".{named}")


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _in_network(address: _Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
