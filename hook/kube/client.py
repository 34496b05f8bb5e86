"""Client for the API server: send requests, list, watch, and turn errors into the program's own.

Objects are plain JSON. Typed models, as those of Kubernetes' own client, would cost hundreds of MiB on a large fleet,
and reject unknown objects.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
from collections import Counter, deque
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
    TerminatedError,
    UntrustedError,
)
from hook.kube import connection as connections
from hook.kube import tls, transport
from hook.kube.credentials import told
from hook.kube.requests import versions_of
from hook.objects import decoding, wire
from hook.objects.decoding import MalformedObjectError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from hook.kube.connection import Connection
    from hook.kube.credentials import Credential
    from hook.kube.requests import GroupVersionResource, ListOptions, Request
    from hook.objects.decoding import Json, Raw

Item = TypeVar("Item")
Result = TypeVar("Result")

CONNECT_SECONDS: Final = 5.0
"""Timeout of a connection attempt."""
READ_SECONDS: Final = 60.0
"""Timeout of a whole response. A page of 50 objects takes well below a second."""
WATCH_SLACK_SECONDS: Final = 15.0
"""Time by which a watch may outlast its timeout. The server ends a watch itself, so a longer silence is an error."""
JOIN_SECONDS: Final = 0.2
"""Time for pending calls after a signal: twice the response time of a busy API server. With the limits of what is
written then, the program exits within the pod's grace period."""
CLOCK_TOLERANCE: Final = timedelta(seconds=2)
"""Smallest difference between clocks that counts. ``Date`` has whole seconds, and responses take some time."""
OFFSETS_KEPT: Final = 9
"""Clock offsets of which the median counts."""
BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)
"""Monotonic clock that also runs while the machine is suspended, on Linux (clock_gettime(2))."""
JSON: Final = "application/json"
SERVICE_ACCOUNT_DIR: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Directory of a pod's token (K8S ``plugin/pkg/admission/serviceaccount``)."""

LONGEST_RETRY_AFTER: Final = 60.0
"""Longest Retry-After that is obeyed, in seconds. API servers send a few seconds. A proxy may send an hour."""
UNKNOWN_PATH: Final = b"404 page not found"
"""Plain text response of an API server to an unknown path (Go's ``http.NotFound``)."""
BY_AUTHORIZER: Final = re.compile(r'([^":]+ ("[^"]*" )?is )?forbidden: User ".*" cannot ')
"""Beginning of a 403 of RBAC and other authorizers (K8S ``endpoints/handlers/responsewriters/errors.go``).

Each other 403 to a write is of admission: a policy, a webhook, a quota, or a namespace that is being deleted.
"""
PLAIN: Final = frozenset({UNAUTHORIZED, THROTTLED})
"""Status codes that an API server may send as plain text. All other refusals have a Status object."""

Failure = tuple[str, str, str]
"""HTTP status (0 without an answer), verb, resource."""


class Counters:
    """Counters of one client since its start. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errors: Counter[Failure] = Counter()

    @contextmanager
    def counting(self, verb: str, resource: str) -> Iterator[None]:
        """Count an ApiError that is raised inside the context."""
        try:
            yield
        except ApiError as error:
            self.failed(error, verb, resource)
            raise

    def failed(self, error: ApiError, verb: str, resource: str) -> None:
        """Count an error."""
        with self._lock:
            self._errors[str(error.status), verb, resource] += 1

    @property
    def errors(self) -> Mapping[Failure, int]:
        """Return the number of errors by status, verb and resource."""
        with self._lock:
            return dict(self._errors)


def connect(kubeconfig: str, context: str, service_account_dir: str) -> Api:
    """Connect by kubeconfig if one is set or there is no ServiceAccount token, else as the ServiceAccount."""
    return Api(connections.connect(kubeconfig, context, service_account_dir))


class Api:
    """Client of one API server. Safe to use from several threads."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.host = connection.host
        self.counters = Counters()
        self.before_write: Callable[[Request], None] = lambda _request: None
        """Called before each attempt of a write. It raises an error to forbid the write."""
        self._began = datetime.now(UTC)
        self._origin = self._began - _steady()
        self._offsets: deque[timedelta] = deque(maxlen=OFFSETS_KEPT)
        self._clock_offset = timedelta()

    def now(self) -> datetime:
        """Return the time by the API server's clock, to a second, for comparison with its timestamps.

        It does not jump if this machine's clock is set. Grace periods and deadlines use it.
        """
        return self._local() + self._clock_offset

    @property
    def began(self) -> datetime:
        """Return when this client was created, by the same clock as `now`."""
        return self._began + self._clock_offset

    def _local(self) -> datetime:
        """Return this machine's time at the start plus the time since, by the monotonic clock."""
        return self._origin + _steady()

    def send(self, request: Request, read_seconds: float = READ_SECONDS) -> dict[str, Any]:
        """Send a request and return the decoded response, which must be complete within `read_seconds`."""
        if request.method != "GET":
            self.before_write(request)
        with self._counting(request):
            answer = decoding.decode(self._body(request, read_seconds))
            if not answer.get("kind"):
                raise ApiError(NO_ANSWER, "the response is not an object of an API server: it has no kind")
            return answer

    def list_page(self, request: Request, read_seconds: float = READ_SECONDS) -> tuple[Json, Sequence[Raw]]:
        """Send a list request. Return the page's metadata and the text of its objects.

        The page must be complete within `read_seconds`.
        """
        with self._counting(request):
            page = decoding.answer(decoding.Page, self._body(request, read_seconds))
            if not page.metadata.get("resourceVersion"):
                raise ApiError(NO_ANSWER, "the API server's list has no resourceVersion")
            return page.metadata, page.items

    def open_watch(self, request: Request, seconds: int) -> urllib3.BaseHTTPResponse:
        """Send a watch request. ``events`` reads the response.

        The server ends the watch after `seconds`. A watch that continues for another minute is an error.
        """
        with self._counting(request):
            return self._open(request, seconds + WATCH_SLACK_SECONDS, seconds + READ_SECONDS)

    def events(self, response: urllib3.BaseHTTPResponse, resource: GroupVersionResource) -> Iterator[tuple[str, Raw]]:
        """Yield type and object of each event of a watch, until the server or an error ends it."""
        with self.counters.counting("watch", resource.group_resource):
            try:
                for line in response:
                    if line.strip():
                        event = decoding.answer(decoding.Event, line)
                        yield event.type, event.object
            except urllib3.exceptions.TimeoutError as error:
                # The server exceeded its own timeout, so events may be missing.
                raise ApiError(GONE, "the watch sent nothing in its time") from error
            except urllib3.exceptions.HTTPError as error:
                raise ApiError(NO_ANSWER, f"the watch was interrupted: {_short(error)}") from error
            finally:
                response.close()

    def served_versions(self, resource: GroupVersionResource, read_seconds: float = READ_SECONDS) -> frozenset[str]:
        """Return the versions of a resource's group that the server supports."""
        try:
            group = decoding.read(wire.ApiGroup, self.send(versions_of(resource), read_seconds))
            return frozenset(each.version for each in group.versions or ())
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return frozenset()
        except MalformedObjectError as error:
            raise ApiError(NO_ANSWER, f"the API server's list of versions is malformed: {error}") from error

    def watch_error(self, selection: ListOptions, body: Raw) -> ApiError:
        """Translate the error event that ends a watch."""
        status = decoding.decode(body)
        code = status.get("code")
        error = self._meant(refusal(selection.watch("", 0), code if isinstance(code, int) else 500, status))
        self.counters.failed(error, "watch", selection.resource.group_resource)
        return error

    def _counting(self, request: Request) -> AbstractContextManager[None]:
        return self.counters.counting(request.verb, request.resource.group_resource)

    def _body(self, request: Request, read_seconds: float) -> bytes:
        response = self._open(request, read_seconds, read_seconds)
        try:
            return response.read()
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(NO_ANSWER, f"the response of {self.host} was interrupted: {_short(error)}") from error
        finally:
            response.release_conn()

    def _open(self, request: Request, silence: float, whole: float) -> urllib3.BaseHTTPResponse:
        """Send a request. Limit, in seconds, the longest `silence` within the response and the `whole` response."""
        end = time.monotonic() + whole
        pool, credential = self._prepare()
        left = end - time.monotonic()
        if left <= 0:
            raise ApiError(NO_ANSWER, f"no time is left for a request to the API server at {self.host}")
        try:
            with transport.by(end):
                response: urllib3.BaseHTTPResponse = pool.request(
                    request.method,
                    self.host + request.target,
                    body=json.dumps(request.body).encode() if request.body is not None else None,
                    headers=self._headers(request, credential),
                    timeout=_timeout(request, min(silence, left)),
                    retries=False,
                    preload_content=False,
                )
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            if problem := tls.refusal(error):
                whose = "the proxy" if isinstance(error, urllib3.exceptions.ProxyError) else self.host
                raise UntrustedError(f"the certificate of {whose} is refused: {problem}") from error
            raise ApiError(
                NO_ANSWER, f"cannot reach the API server at {self.connection.way}: {_short(error)}"
            ) from error
        if response.status >= 300:  # noqa: PLR2004 - HTTP: errors, and redirects, which no API server sends
            refused = self._meant(_refusal(request, response))
            if refused.status == UNAUTHORIZED:
                self.connection.refused(credential)
            raise refused
        kind = response.headers.get("content-type", JSON)
        if not kind.startswith(JSON):
            response.close()
            raise ApiError(NO_ANSWER, f"the response of {self.host} is {kind[:40]}, which is not from an API server")
        # Error responses may come from a proxy, with another clock, so only successful ones set the offset.
        self._set_clock(response)
        return response

    def _prepare(self) -> tuple[urllib3.PoolManager, Credential]:
        try:
            return self.connection.prepare()
        except (OSError, ValueError) as error:
            raise ApiError(UNAUTHORIZED, f"there are no credentials: {told(error)}") from error

    def _meant(self, error: ApiError) -> ApiError:
        """Return what a refusal means: one of a request without credentials says nothing about permissions."""
        if not isinstance(error, PermissionDeniedError) or self.connection.impersonates_anonymous:
            return error
        if f'User "{connections.ANONYMOUS}"' not in str(error):
            return error
        return ApiError(UNAUTHORIZED, f"the API server got no credentials that it knows: {error.detail}")

    def _headers(self, request: Request, credential: Credential) -> urllib3.HTTPHeaderDict:
        headers = urllib3.HTTPHeaderDict({**request.headers, "user-agent": f"gpu-operator-post/{__version__}"})
        if request.body is not None:
            headers["content-type"] = request.content_type
        if credential.authorization:
            headers["authorization"] = credential.authorization
        for name, value in self.connection.headers:
            headers.add(name, value)
        return headers

    def _set_clock(self, response: urllib3.BaseHTTPResponse) -> None:
        """Set the clock offset to the median of the last ``Date`` headers, so that one late response has no effect."""
        try:
            theirs = parsedate_to_datetime(response.headers.get("date", ""))
        except (ValueError, OverflowError):
            return
        if theirs.tzinfo is None:  # "-0000": UTC without a known zone (RFC 5322, 3.3)
            theirs = theirs.replace(tzinfo=UTC)
        self._offsets.append(theirs - self._local())
        # Copy first: another thread may append at any time.
        known = sorted(self._offsets)
        offset = known[len(known) // 2]
        self._clock_offset = offset if abs(offset) > CLOCK_TOLERANCE else timedelta()


def at_once(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result | Exception]:
    """Call a function for several items at the same time, each in a thread. Return the results or exceptions in order.

    The threads are daemons, unlike those of `concurrent.futures`, so a process that gets a signal does not wait for a
    response that never comes.
    """
    found: dict[int, Result | Exception] = {}
    complete = threading.Event()

    def do(number: int) -> None:
        try:
            found[number] = work(items[number])
        except Exception as error:  # noqa: BLE001 - returned to the caller, which raises it
            found[number] = error
        if len(found) == len(items):
            complete.set()

    threads = [threading.Thread(target=do, args=(number,), daemon=True) for number in range(len(items))]
    try:
        for thread in threads:
            thread.start()
        complete.wait()
    except TerminatedError:
        complete.wait(JOIN_SECONDS)
        raise
    return [found[number] for number in range(len(items))]


def _steady() -> timedelta:
    """Return the time of a monotonic clock."""
    return timedelta(seconds=time.monotonic() if BOOTTIME is None else time.clock_gettime(BOOTTIME))


def _timeout(request: Request, seconds: float) -> urllib3.Timeout:
    """Return the timeouts of a request. Those of a write include the connection: others may act after its deadline."""
    total = None if request.method == "GET" else seconds
    return urllib3.Timeout(total, connect=min(CONNECT_SECONDS, seconds), read=seconds)


def refusal(request: Request, status: int, body: Mapping[str, Any], retry_after: float = 0.0) -> ApiError:
    """Return the error for a status code. The text of the response is only shown to users."""
    message = str(body.get("message") or f"HTTP {status}")
    if status == FORBIDDEN:
        if request.method != "GET" and not BY_AUTHORIZER.match(message):
            return ApiError(FORBIDDEN, f"refused by admission: {message}")
        what = request.path or request.resource.group_resource
        return PermissionDeniedError(request.verb, what, request.namespace, message)
    if status in PLAIN or status >= SERVER_ERRORS:
        message = f"the API server answered {status}: {message}"
    return ApiError(status, message, retry_after)


def _refusal(request: Request, response: urllib3.BaseHTTPResponse) -> ApiError:
    raw, body = b"", {}
    try:
        raw = response.read()
        body = decoding.decode(raw)
    except (urllib3.exceptions.HTTPError, ApiError):
        pass
    finally:
        response.release_conn()
    seconds = _seconds(response.headers.get("retry-after", ""))
    unknown_path = response.status == NOT_FOUND and raw.startswith(UNKNOWN_PATH)
    plain = response.status in PLAIN or response.status >= SERVER_ERRORS or unknown_path
    if body.get("kind") != "Status" and not plain:
        # It may be a load balancer without a control plane. Its 404 must not count as "the object does not exist".
        return ApiError(NO_ANSWER, f"the response {response.status} is not from an API server", seconds)
    return refusal(request, response.status, body, seconds)


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
