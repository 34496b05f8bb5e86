"""Proxies: which one leads to a server, by the rules of Go's ``httpproxy``, which kubectl and Helm follow."""

from __future__ import annotations

import ipaddress
import os
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMES: Final = ("http", "https", "socks5", "socks5h")
_HOST_AND_PORT: Final = re.compile(r"\[(?P<bracketed>[^]]*)\](?::(?P<port6>\d*))?|(?P<host>[^:]*)(?::(?P<port>\d*))?")
"""An entry of NO_PROXY that is not a bare IPv6 address."""
_HOST: Final = re.compile(r"[a-z0-9_.-]+|[0-9a-f:.]+(%[a-z0-9_.-]+)?")
_BLANK: Final = re.compile(r"[\x00-\x20\x7f\\]")
"""Characters that no URL may have; the standard library leaves some of them out."""
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
    """Return a proxy's URL, its scheme in small letters. Raises ValueError without it: it may have a password."""
    return f"{parsed(proxy, SCHEMES).scheme}:{proxy.partition(':')[2]}"


def parsed(url: str, schemes: Sequence[str]) -> SplitResult:
    """Return the parts of a URL with one of these schemes. Raises ValueError, without the URL."""
    scheme, separator, _rest = url.partition("://")
    if not separator or scheme.lower() not in schemes:
        raise ValueError(f"it must begin with one of {', '.join(f'{each}://' for each in schemes)}")
    try:
        found = urlsplit(url)
        usable = _HOST.fullmatch(found.hostname or "") and found.port != 0 and not _BLANK.search(url)
    except ValueError:
        usable = None
    if not usable:
        raise ValueError("it must have a host, and its port, if it has one, must be a number")
    return found


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
