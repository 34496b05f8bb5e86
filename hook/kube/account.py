"""The account of a kubeconfig's user: its credentials, and whom it impersonates."""

from __future__ import annotations

import json
import math
import re
import time
from base64 import b64encode, urlsafe_b64decode
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hook.kube import execplugin
from hook.kube.credentials import FILE_SECONDS, Credential, bearer, blaming, of_token_file
from hook.kube.kubeconfig import content

if TYPE_CHECKING:
    from collections.abc import Callable

    from hook.kube.kubeconfig import AuthProvider, Chosen, User

Headers = tuple[tuple[str, str], ...]

_ILLEGAL: Final = re.compile(r"[^\w!#$&'*+.^`|~-]", re.ASCII)
"""Characters of a key that are escaped in the name of a header, as client-go does."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def reader(chosen: Chosen, authority: bytes) -> Callable[[], Credential]:
    """Return a function that reads the credential of a user. It raises OSError or ValueError, as this does."""
    user = chosen.user
    for given, name in ((user.token, "token"), (user.token_file, "tokenFile")):
        if given and (user.username or user.password):
            raise ValueError(f"{name} and username: only one of them can be used")
    static = _static(user)
    if static.authorization or (user.exec is None and user.auth_provider is None):
        return lambda: _static(user)
    if user.exec is None:
        return lambda: _by_provider(user)
    if user.auth_provider is not None:
        raise ValueError("exec and auth-provider: only one of them can be used")
    if static.certificate:
        # As with kubectl, no plugin runs then.
        return lambda: _static(user)
    return execplugin.prepared(user.exec, chosen.cluster, authority)


def impersonation(user: User) -> Headers:
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
    certificate = content(user.client_certificate_data, user.client_certificate, "client-certificate")
    key = content(user.client_key_data, user.client_key, "client-key")
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


def _by_provider(user: User) -> Credential:
    provider = user.auth_provider
    with blaming("auth-provider"):
        if provider is None or provider.name != "oidc":
            name = provider.name if provider else ""
            raise ValueError(f"{name!r} is not supported: use a plugin (exec) that provides credentials")
        token, until = _id_token(provider)
        return replace(_static(user), authorization=bearer(token), until=until)


def _id_token(provider: AuthProvider) -> tuple[str, float]:
    """Return the token of an OpenID provider, and until when it is valid. Raises ValueError, without the token."""
    token = provider.config.get("id-token", "")
    if not token:
        raise ValueError("oidc has no id-token: use a plugin (exec) that provides credentials")
    try:
        claims = token.split(".")[1]
        left = float(json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]) - time.time()
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError) as error:
        raise ValueError("the id-token of oidc cannot be read") from error
    if left <= 0:
        raise ValueError("the id-token of oidc has expired: use a plugin (exec) that provides credentials")
    return token, time.monotonic() + left
