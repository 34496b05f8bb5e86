"""Connection to the API server: as the ServiceAccount of a pod, or by a kubeconfig.

In a pod this needs a few files and two environment variables. What only a kubeconfig needs is imported for one alone.
"""

from __future__ import annotations

import ipaddress
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from hook.errors import SettingsError
from hook.kube import proxies, tls, transport
from hook.kube.credentials import Credential, Credentials, blaming, of_token_file, told

if TYPE_CHECKING:
    from collections.abc import Callable

    import urllib3

KUBECONFIG: Final = "KUBECONFIG"
"""Environment variable with the files that kubectl reads."""
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
"""Environment variables that the kubelet sets in every pod."""
ANONYMOUS: Final = "system:anonymous"
"""User of a request without credentials."""
_ANONYMOUS: Final = Credential()


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
            return transport.pool(proxy=self._proxy)
        with blaming("client certificate"):
            context = tls.context(trust, certificate, key)
        return transport.pool(context, trust.server_name, self._proxy)


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
