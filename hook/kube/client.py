"""Client for the API server: send requests, read lists and watches, and turn failures into ApiError.

Objects are plain JSON. Typed models, as those of Kubernetes' own client, would cost hundreds of MiB on a large fleet,
and reject unknown objects.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import ssl
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import urllib3

from hook import __version__
from hook.errors import (
    FORBIDDEN,
    GONE,
    NO_ANSWER,
    NOT_FOUND,
    SERVER_ERRORS,
    THROTTLED,
    UNAUTHORIZED,
    ApiError,
    PermissionDeniedError,
    SettingsError,
    UntrustedError,
)
from hook.kube import proxies, tls
from hook.kube.connection import ANONYMOUS, Connection
from hook.kube.credentials import blaming, of_token_file, told
from hook.objects import decoding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hook.kube.credentials import Credential
    from hook.kube.resources import Resource
    from hook.objects.decoding import Json, Raw

CONNECT_SECONDS: Final = 5.0
"""Timeout of a connection attempt."""
READ_SECONDS: Final = 60.0
"""Timeout of a response. A page of 50 objects takes well below a second."""
WATCH_SLACK_SECONDS: Final = 15.0
"""Time by which a watch may outlast its timeout. The server ends a watch itself, so a longer silence is an error."""
PAGE_SIZE: Final = 50
"""Objects per page. More cost memory, fewer cost requests (docs/dev/performance-profile.md)."""
KUBECONFIG: Final = "KUBECONFIG"
"""Environment variable with the files that kubectl reads."""
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
"""Environment variables that the kubelet sets in every pod."""
SERVICE_ACCOUNT_DIR: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Directory of a pod's token (K8S ``plugin/pkg/admission/serviceaccount``)."""
LONGEST_RETRY_AFTER: Final = 60.0
"""Longest Retry-After that is obeyed, in seconds. API servers send a few seconds. A proxy may send an hour."""

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
"""Changes the named fields of an object, and no others."""
APPLY_PATCH: Final = "application/apply-patch+yaml"
"""Sets the fields that a field manager owns, and drops its others (server-side apply). JSON is YAML, too."""
METHODS: Final = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}
"""HTTP methods by RBAC verb; GET for all others."""
UNKNOWN_PATH: Final = b"404 page not found"
"""Plain text response of an API server to an unknown path (Go's ``http.NotFound``)."""
BY_AUTHORIZER: Final = re.compile(r'([^":]+ ("[^"]*" )?is )?forbidden: User ".*" cannot (?P<verb>[a-z]+) ')
"""Beginning of a 403 of RBAC and other authorizers (K8S ``endpoints/handlers/responsewriters/errors.go``).

Each other 403 to a write is of admission: a policy, a webhook, a quota, or a namespace that is being deleted.
"""
PLAIN: Final = frozenset({UNAUTHORIZED, THROTTLED})
"""Status codes that an API server may send as plain text. All other refusals have a Status object."""


class Counters:
    """Counters of one client since its start. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errors: Counter[tuple[str, str, str]] = Counter()

    def failed(self, error: ApiError, verb: str, resource: str) -> None:
        """Count an error."""
        with self._lock:
            self._errors[str(error.status), verb, resource] += 1

    @property
    def errors(self) -> Mapping[tuple[str, str, str], int]:
        """Return the number of errors by HTTP status (0 without an answer), verb and resource."""
        with self._lock:
            return dict(self._errors)


def connect(kubeconfig: str, context: str, service_account_dir: str) -> Api:
    """Connect by kubeconfig if one is set or there is no ServiceAccount token, else as the ServiceAccount.

    In a pod this needs a few files and two environment variables. Raises SettingsError.
    """
    folder = Path(service_account_dir)
    in_cluster = not (kubeconfig or context or os.environ.get(KUBECONFIG)) and (folder / "token").is_file()
    what = f"the ServiceAccount in {folder}" if in_cluster else "the kubeconfig"
    try:
        return Api(_in_cluster(folder) if in_cluster else _by_kubeconfig(kubeconfig, context, folder))
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
    return found


def _bracketed(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host  # noqa: PLR2004 - IPv6
    except ValueError:
        return host


class Api:
    """Client of one API server. Safe to use from several threads."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.host = connection.host
        self.counters = Counters()
        self.fence: Callable[[Resource], None] = lambda _resource: None
        """Called before each attempt of a write. It raises an error to forbid the write."""

    def send(  # noqa: PLR0913, PLR0917 - what a request is made of
        self,
        verb: str,
        resource: Resource,
        name: str = "",
        body: Json | None = None,
        seconds: float = READ_SECONDS,
        content_type: str = "",
        **query: str,
    ) -> dict[str, Any]:
        """Send a request about one object and return the answer. `seconds` limits each wait for the server."""
        content_type = content_type or (MERGE_PATCH if verb == "patch" else JSON)
        with self._failing(verb, resource):
            if verb != "get":
                self.fence(resource)
            request = _Request(verb, resource, resource.url(name, **query), body, content_type)
            answer = decoding.decode(self._body(request, seconds))
            if not answer.get("kind"):
                raise ApiError(NO_ANSWER, "the response is not an object of an API server: it has no kind")
            return answer

    def apply(self, resource: Resource, name: str, fields: Json, manager: str, seconds: float) -> None:
        """Set the fields of an object that a field manager owns, and drop its others."""
        metadata = {"name": name, "namespace": resource.namespace}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}
        self.send("patch", resource, name, body, seconds, APPLY_PATCH, fieldManager=manager, force="true")

    def list_page(
        self, resource: Resource, continue_from: str = "", seconds: float = READ_SECONDS
    ) -> tuple[Json, Sequence[Raw]]:
        """Read one page of the current state (a consistent read). Return its metadata and the text of its objects."""
        more = {"continue": continue_from} if continue_from else {}
        with self._failing("list", resource):
            request = _Request("list", resource, resource.collection(limit=str(PAGE_SIZE), **more))
            page = decoding.answer(decoding.Page, self._body(request, seconds))
            if not page.metadata.get("resourceVersion"):
                raise ApiError(NO_ANSWER, "the API server's list has no resourceVersion")
            return page.metadata, page.items

    @contextmanager
    def watch(self, resource: Resource, version: str, seconds: int) -> Iterator[Iterator[tuple[str, Raw]]]:
        """Open a watch from a version, for the context: type and object of each event, until the server ends it.

        The server ends it after `seconds`. A watch that is silent for longer may have missed events, which is a 410.
        """
        url = resource.collection(
            watch="true", resourceVersion=version, timeoutSeconds=str(seconds), allowWatchBookmarks="true"
        )
        with self._failing("watch", resource):
            response = self._open(_Request("watch", resource, url), seconds + WATCH_SLACK_SECONDS)
        try:
            yield self._events(response, resource)
        finally:
            response.close()

    def _events(self, response: urllib3.BaseHTTPResponse, resource: Resource) -> Iterator[tuple[str, Raw]]:
        with self._failing("watch", resource):
            try:
                for line in response:
                    if line.strip():
                        event = decoding.answer(decoding.Event, line)
                        if event.type == "ERROR":
                            status = decoding.decode(event.object)
                            code = status.get("code")
                            known = code if isinstance(code, int) else SERVER_ERRORS
                            raise self._meant(_refusal("watch", resource, known, status))
                        yield event.type, event.object
            except urllib3.exceptions.TimeoutError as error:
                raise ApiError(GONE, "the watch sent nothing in its time") from error
            except urllib3.exceptions.HTTPError as error:
                raise ApiError(NO_ANSWER, f"the watch was interrupted: {_short(error)}") from error

    @contextmanager
    def _failing(self, verb: str, resource: Resource) -> Iterator[None]:
        """Count an ApiError that is raised inside the context."""
        try:
            yield
        except ApiError as error:
            self.counters.failed(error, verb, resource.group_resource)
            raise

    def _body(self, request: _Request, seconds: float) -> bytes:
        response = self._open(request, seconds)
        try:
            return response.read()
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(NO_ANSWER, f"the response of {self.host} was interrupted: {_short(error)}") from error
        finally:
            response.release_conn()

    def _open(self, request: _Request, seconds: float) -> urllib3.BaseHTTPResponse:
        """Send a request. Limit, in seconds, the connection and each silence of the response."""
        end = time.monotonic() + seconds
        pool, credential = self._prepare()
        left = end - time.monotonic()
        if left <= 0:
            raise ApiError(NO_ANSWER, f"no time is left for a request to the API server at {self.host}")
        try:
            response: urllib3.BaseHTTPResponse = pool.request(
                request.method,
                self.host + request.url,
                body=json.dumps(request.body).encode() if request.body is not None else None,
                headers=self._headers(request, credential),
                timeout=request.timeout(left),
                retries=False,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._without_answer(error) from error
        if response.status >= 300:  # noqa: PLR2004 - HTTP: errors, and redirects, which no API server sends
            refused = self._meant(_refused(request, response))
            if refused.status == UNAUTHORIZED:
                self.connection.refused(credential)
            raise refused
        kind = response.headers.get("content-type", JSON)
        if not kind.startswith(JSON):
            response.close()
            raise ApiError(NO_ANSWER, f"the response of {self.host} is {kind[:40]}, which is not from an API server")
        return response

    def _prepare(self) -> tuple[urllib3.PoolManager, Credential]:
        try:
            return self.connection.prepare()
        except (OSError, ValueError) as error:
            raise ApiError(UNAUTHORIZED, f"there are no credentials: {told(error)}") from error

    def _without_answer(self, error: Exception) -> ApiError:
        if problem := tls.refusal(error):
            whose = "the proxy" if isinstance(error, urllib3.exceptions.ProxyError) else self.host
            return UntrustedError(f"the certificate of {whose} is refused: {problem}")
        return ApiError(NO_ANSWER, f"cannot reach the API server at {self.connection.way}: {_short(error)}")

    def _meant(self, error: ApiError) -> ApiError:
        """Return what a refusal means: one of a request without credentials says nothing about permissions."""
        if not isinstance(error, PermissionDeniedError) or self.connection.impersonates_anonymous:
            return error
        if f'User "{ANONYMOUS}"' not in str(error):
            return error
        return ApiError(UNAUTHORIZED, f"the API server got no credentials that it knows: {error.detail}")

    def _headers(self, request: _Request, credential: Credential) -> urllib3.HTTPHeaderDict:
        headers = urllib3.HTTPHeaderDict({"accept": JSON, "user-agent": f"gpu-operator-post/{__version__}"})
        if request.verb == "list":
            # Compressed, a list is a tenth as long: most of it is ``managedFields``. API servers compress no watch.
            headers["accept-encoding"] = "gzip"
        if request.body is not None:
            headers["content-type"] = request.content_type
        if credential.authorization:
            headers["authorization"] = credential.authorization
        for name, value in self.connection.headers:
            headers.add(name, value)
        return headers


class _Request(NamedTuple):
    """A request without server and credentials."""

    verb: str
    resource: Resource
    url: str
    body: Json | None = None
    content_type: str = ""

    @property
    def method(self) -> str:
        """Return the HTTP method."""
        return METHODS.get(self.verb, "GET")

    def timeout(self, seconds: float) -> urllib3.Timeout:
        """Return the timeouts. Those of a write include the connection: others may act after its deadline."""
        total = None if self.method == "GET" else seconds
        return urllib3.Timeout(total, connect=min(CONNECT_SECONDS, seconds), read=seconds)


def delete_options(uid: str, resource_version: str) -> dict[str, Any]:
    """Return the body that deletes an object only if it is the same, in the same version; else the answer is 409."""
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}


def _refusal(verb: str, resource: Resource, status: int, body: Mapping[str, Any], retry_after: float = 0.0) -> ApiError:
    """Return the error for a status code. The text of the response is only shown to users."""
    message = str(body.get("message") or f"HTTP {status}")
    if status == FORBIDDEN:
        by_authorizer = BY_AUTHORIZER.match(message)
        if verb in METHODS and not by_authorizer:
            return ApiError(FORBIDDEN, f"refused by admission: {message}")
        # To apply an object that does not exist is a patch that needs the verb create, too.
        missing = by_authorizer["verb"] if by_authorizer else verb
        return PermissionDeniedError(missing, resource.group_resource, resource.namespace, message)
    if status in PLAIN or status >= SERVER_ERRORS:
        message = f"the API server answered {status}: {message}"
    return ApiError(status, message, retry_after)


def _refused(request: _Request, response: urllib3.BaseHTTPResponse) -> ApiError:
    raw, body = b"", {}
    try:
        raw = response.read()
        body = decoding.decode(raw)
    except (urllib3.exceptions.HTTPError, ApiError):
        pass
    finally:
        response.release_conn()
    retry_after = _seconds(response.headers.get("retry-after", ""))
    unknown_path = response.status == NOT_FOUND and raw.startswith(UNKNOWN_PATH)
    plain = response.status in PLAIN or response.status >= SERVER_ERRORS or unknown_path
    if body.get("kind") != "Status" and not plain:
        # It may be a load balancer without a control plane. Its 404 must not count as "the object does not exist".
        return ApiError(NO_ANSWER, f"the response {response.status} is not from an API server", retry_after)
    return _refusal(request.verb, request.resource, response.status, body, retry_after)


def _seconds(retry_after: str) -> float:
    """Return the seconds of a Retry-After header, or 0 for a date, which API servers do not send."""
    return min(float(retry_after), LONGEST_RETRY_AFTER) if re.fullmatch("[0-9]+", retry_after) else 0.0


def _short(error: BaseException) -> str:
    """Return the last clause of the error that caused another one. urllib3 puts its own objects before it."""
    cause = next((each for each in error.args if isinstance(each, BaseException)), None)
    if cause is not None:
        return _short(cause)
    if isinstance(error, ssl.SSLError):
        return f"TLS: {tls.reason(error)}"
    return told(error).rsplit(": ", 1)[-1][:200]
