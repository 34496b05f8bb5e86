"""Kubeconfig: read the files, merge them, and choose a context, as kubectl does.

Kubernetes' client library drops fields that it does not know, those of impersonation among them, and swallows errors.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import yaml
from msgspec import field

from hook.kube.credentials import blaming

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DEFAULT: Final = "~/.kube/config"
_EXTENSION: Final = "extension"
"""Key of content that is not ours to read."""


class _Struct(msgspec.Struct, kw_only=True, rename="kebab"):
    """Part of a kubeconfig."""


class Extension(_Struct):
    """Content for others."""

    name: str = ""
    extension: Any = None


class Cluster(_Struct):
    """An API server."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[Extension] = []


class Variable(_Struct):
    """Environment variable of a plugin."""

    name: str
    value: str = ""


class Exec(_Struct, rename="camel"):
    """Plugin: a program that provides credentials."""

    command: str = ""
    args: list[str] = []
    env: list[Variable] = []
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class User(_Struct):
    """An account."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    impersonated: str = field(name="as", default="")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}
    auth_provider: Any = None
    """Predecessor of plugins, which is refused."""
    exec: Exec | None = None


class Context(_Struct):
    """A cluster and a user."""

    cluster: str = ""
    user: str = ""


class _NamedCluster(_Struct):
    name: str
    cluster: Cluster = field(default_factory=Cluster)


class _NamedUser(_Struct):
    name: str
    user: User = field(default_factory=User)


class _NamedContext(_Struct):
    name: str
    context: Context = field(default_factory=Context)


class _File(_Struct):
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []
    current_context: str = ""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a context names. The paths in it do not depend on the working directory."""

    cluster: Cluster
    user: User


def paths(file: str, listed: str) -> list[Path]:
    """Return the files to read: the one that is given, else those of a list that exist, else the default."""
    if file:
        return [_expanded(file)]
    several = [_expanded(each) for each in listed.split(os.pathsep) if each]
    return [each for each in several or [_expanded(DEFAULT)] if each.exists()]


def choose(files: Sequence[Path], context: str) -> Chosen:
    """Read files, of which the first one counts, and choose a context, or the current one. Raises ValueError."""
    clusters: dict[str, Cluster] = {}
    users: dict[str, User] = {}
    contexts: dict[str, Context] = {}
    current = context
    for file in files:
        with blaming(str(file)):
            read = _read(file)
            more_clusters = _by_name("clusters", ((each.name, _located(each.cluster, file)) for each in read.clusters))
            more_users = _by_name("users", ((each.name, _located_user(each.user, file)) for each in read.users))
            more_contexts = _by_name("contexts", ((each.name, each.context) for each in read.contexts))
        clusters, users, contexts = more_clusters | clusters, more_users | users, more_contexts | contexts
        current = current or read.current_context
    where = ":".join(map(str, files))
    if not current:
        raise ValueError(f"{where}: current-context is not set, and no context is given")
    with blaming(where):
        chosen = _named(contexts, "context", current)
        with blaming(f"context {current!r}"):
            user = _named(users, "user", chosen.user) if chosen.user else User()
            return Chosen(_named(clusters, "cluster", chosen.cluster), user)


def content(data: str, file: str, name: str) -> bytes:
    """Return what a kubeconfig contains in one field, or in the file that another field names."""
    with blaming(f"{name}-data" if data else name):
        if data:
            return base64.b64decode("".join(data.split()), validate=True)
        return Path(file).read_bytes() if file else b""


Item = TypeVar("Item")


def _by_name(field_name: str, pairs: Iterable[tuple[str, Item]]) -> dict[str, Item]:
    """Return the items of one file by name. Raises ValueError if one name stands for two of them."""
    found: dict[str, Item] = {}
    for name, item in pairs:
        if name in found:
            raise ValueError(f"{field_name}: two of them have the name {name!r}")
        found[name] = item
    return found


def _named(items: dict[str, Item], kind: str, name: str) -> Item:
    if not name:
        raise ValueError(f"it names no {kind}")
    if name not in items:
        raise ValueError(f"{kind} {name!r} does not exist")
    return items[name]


def _read(file: Path) -> _File:
    """Read one file. Raises ValueError."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ValueError(error.strerror) from error
    try:
        found = yaml.load(text, _Loader)  # noqa: S506 - a safe loader
        return msgspec.convert(_without_nulls(found or {}), _File)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    except yaml.MarkedYAMLError as error:
        # Only the place: the library's sentence quotes the line, which may have a password in it.
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
        raise ValueError(f"it is not valid YAML: {where}") from error
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        # The library raises all of these for a tag that does not fit its value.
        raise ValueError("it is not valid YAML: a tag or a character cannot be used") from error
    except RecursionError as error:
        raise ValueError("it is not valid YAML: it is nested too deeply") from error


class _Loader(yaml.SafeLoader):
    """Loader that reads a date as text, as Go does: what a plugin gets is JSON, which has no dates."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if not tag.endswith(":timestamp")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _without_nulls(value: Any) -> Any:  # noqa: ANN401 - YAML
    """Return a value without the keys that have none: for kubectl they are empty."""
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if each is not None}
        return {key: each if key == _EXTENSION else _without_nulls(each) for key, each in kept.items()}
    return value


def _located(cluster: Cluster, file: Path) -> Cluster:
    return msgspec.structs.replace(cluster, certificate_authority=_beside(file, cluster.certificate_authority))


def _located_user(user: User, file: Path) -> User:
    names = ("client_certificate", "client_key", "token_file")
    user = msgspec.structs.replace(user, **{name: _beside(file, getattr(user, name)) for name in names})
    # A command without a slash is one that PATH finds.
    if user.exec is None or os.sep not in user.exec.command:
        return user
    command = msgspec.structs.replace(user.exec, command=_beside(file, user.exec.command))
    return msgspec.structs.replace(user, exec=command)


def _beside(file: Path, path: str) -> str:
    """Return a path that is relative to the folder of a kubeconfig."""
    return str(file.absolute().parent / path) if path else ""


def _expanded(path: str) -> Path:
    """Return a path in which the user's home is named. Where it is not known, the path stays as it is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises an error instead
