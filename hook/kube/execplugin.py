"""Plugins of a kubeconfig (``exec``): programs that print the credentials of a user, as for EKS, GKE and AKS."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from hook.format import printable
from hook.kube.credentials import Credential, bearer, blaming, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from hook.kube.kubeconfig import Cluster, Exec

VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXTENSION: Final = "client.authentication.k8s.io/exec"
"""Name of a cluster's extension that is for its plugin."""
INFORMATION: Final = "KUBERNETES_EXEC_INFO"
"""Environment variable with what a plugin may know."""
SECONDS: Final = 120.0
"""Longest time that a plugin may take. The user may have to log in."""
NEVER, ALWAYS, MODES = "Never", "Always", ("", "Never", "IfAvailable", "Always")


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


def prepared(settings: Exec, cluster: Cluster, authority: bytes) -> Callable[[], Credential]:
    """Check the settings of a plugin, and return a function that runs it. Raises ValueError."""
    with blaming("exec"):
        if not settings.command:
            raise ValueError("command is missing")
        if settings.api_version not in VERSIONS:
            raise ValueError(f"apiVersion {settings.api_version!r} is none of {', '.join(VERSIONS)}")
        if settings.interactive_mode not in MODES:
            raise ValueError(f"interactiveMode {settings.interactive_mode!r} is none of {', '.join(MODES[1:])}")
        if not all(each.name for each in settings.env):
            raise ValueError("a variable in env has no name")
    known = _information(cluster, authority) if settings.provide_cluster_info else None
    with blaming(f"extension {EXTENSION}"):
        try:
            msgspec.json.encode(known)
        except (TypeError, RecursionError) as error:
            raise ValueError(f"it has no form in JSON: {error}") from error
    return partial(_run, settings, known)


def _run(settings: Exec, cluster: dict[str, Any] | None) -> Credential:
    """Run a plugin, and return the credential that it prints. Raises ValueError."""
    with blaming(settings.command):
        return _credential(settings, _output(settings, cluster))


def _output(settings: Exec, cluster: dict[str, Any] | None) -> bytes:
    interactive = _interactive(settings.interactive_mode)
    spec = {"interactive": interactive, **({"cluster": cluster} if cluster is not None else {})}
    information = {"apiVersion": settings.api_version, "kind": "ExecCredential", "spec": spec}
    variables = {each.name: each.value for each in settings.env}
    variables[INFORMATION] = msgspec.json.encode(information).decode()
    try:
        done = subprocess.run(
            [settings.command, *settings.args],
            env={**os.environ, **variables},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # It may ask the user something.
            stderr=None if interactive else subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"the plugin did not end within {SECONDS:.0f} s") from error
    except OSError as error:
        hint = printable(" ".join(settings.install_hint.split()))
        raise ValueError(f"the plugin cannot be run: {told(error)}{f'; {hint}' if hint else ''}") from error
    if done.returncode:
        said = printable(" ".join((done.stderr or b"").decode("utf-8", "replace").split()))
        raise ValueError(f"the plugin failed with exit code {done.returncode}{f': {said}' if said else ''}")
    return done.stdout


def _information(cluster: Cluster, authority: bytes) -> dict[str, Any]:
    """Return what a plugin gets to know about a cluster, without what is empty."""
    config = next((each.extension for each in cluster.extensions if each.name == EXTENSION), None)
    found = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": authority,
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
        "config": config,
    }
    return {name: value for name, value in found.items() if value}


def _interactive(mode: str) -> bool:
    """Return whether a plugin may ask the user. Raises ValueError if it must and cannot."""
    terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if mode == ALWAYS and not terminal:
        raise ValueError("interactiveMode is Always, but standard input is not a terminal")
    return terminal and mode != NEVER


def _credential(settings: Exec, output: bytes) -> Credential:
    """Read what a plugin printed. Raises ValueError, which never quotes it."""
    try:
        answer = msgspec.json.decode(output, type=_Answer)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"the plugin printed no ExecCredential: {error}") from error
    if answer.kind != "ExecCredential" or answer.api_version != settings.api_version:
        expected = f"ExecCredential of {settings.api_version}"
        raise ValueError(f"the plugin printed {answer.kind!r} of {answer.api_version!r} instead of {expected}")
    status = answer.status or _Status()
    certificate, key = (status.client_certificate_data or "").encode(), (status.client_key_data or "").encode()
    if not status.token and not certificate and not key:
        raise ValueError("the plugin printed neither a token nor a certificate")
    if bool(certificate) != bool(key):
        raise ValueError("the plugin printed a certificate without its key, or a key without its certificate")
    authorization = bearer(status.token) if status.token else ""
    return Credential(authorization, certificate, key, _until(status.expiration_timestamp or ""))


def _until(text: str) -> float:
    """Return a time by the monotonic clock. Raises ValueError."""
    if not text:
        return math.inf
    try:
        end: datetime = msgspec.convert(text, Annotated[datetime, msgspec.Meta(tz=True)])
        return time.monotonic() + end.timestamp() - time.time()
    except (msgspec.ValidationError, OverflowError) as error:
        raise ValueError(f"the plugin printed expirationTimestamp {text[:40]!r}: {error}") from error
