"""Access to a cluster by kubeconfig: the API server, what its certificate must prove, the proxy, and the account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import urllib3

from hook.kube import account, kubeconfig, proxies, tls
from hook.kube.credentials import Credential, blaming

if TYPE_CHECKING:
    from collections.abc import Callable

    from hook.kube.kubeconfig import Cluster


@dataclass(frozen=True, slots=True)
class Access:
    """What a kubeconfig says about a connection."""

    where: str
    """The files."""
    server: str
    read: Callable[[], Credential]
    trust: tls.Trust | None
    """None for plain HTTP."""
    proxy: str
    headers: account.Headers


def by_kubeconfig(file: str, listed: str, context: str) -> Access | None:
    """Read one file, else those of a list, or return None if there is none. Raises OSError or ValueError."""
    files = kubeconfig.paths(file, listed)
    if not files:
        return None
    chosen = kubeconfig.choose(files, context)
    where = ":".join(map(str, files))
    with blaming(where):
        server = _server(chosen.cluster)
        trust = _trust(chosen.cluster) if server.startswith("https:") else None
        read = account.reader(chosen, trust.authority if trust else b"")
        # Like kubectl, send no secret in plain text.
        read = read if trust else Credential
        return Access(where, server, read, trust, _proxy(chosen.cluster, server), account.impersonation(chosen.user))


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
