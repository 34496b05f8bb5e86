"""Send requests to the API server and turn its refusals into our own errors.

Objects are plain JSON. The client library's typed models are not used: they cost hundreds of MiB on a large fleet, and
reject objects that they do not know.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections import deque
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

import urllib3

from hook import __version__
from hook.cluster import bounded, connection
from hook.cluster.counters import Counters
from hook.cluster.requests import may_i, versions_of
from hook.errors import (
    ClusterError,
    ConflictError,
    GoneError,
    NotFoundError,
    PermissionDeniedError,
    RejectedError,
    ThrottledError,
    UnauthorizedError,
    UnreachableError,
)
from hook.objects import decoding, wire
from hook.objects.decoding import MalformedObjectError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from hook.cluster.connection import Connection
    from hook.cluster.requests import Request, Resource, Selection
    from hook.objects.decoding import Json, Raw

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 60.0
"""For a whole answer. A page of 50 objects takes well under a second; a server that takes a minute for it is gone."""
WATCH_SLACK_SECONDS: Final = 15.0
"""The server ends a watch by itself; one that stays silent for longer than agreed is a black hole."""
CLOCK_TOLERANCE: Final = timedelta(seconds=2)
"""``Date`` has whole seconds, and answers take a while: less is no difference between clocks."""
OFFSETS_KEPT: Final = 9
BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)
"""A clock that nobody sets, and that counts while a machine sleeps, too: Linux has it (clock_gettime(2))."""
JSON: Final = "application/json"
SERVICE_ACCOUNT_DIR: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where every kubelet mounts a pod's token (K8S ``plugin/pkg/admission/serviceaccount``)."""

LONGEST_RETRY_AFTER: Final = 60.0
"""An API server asks for a second or a few; who asks for an hour is a proxy that must not stop a run."""
UNKNOWN_PATH: Final = b"404 page not found"
"""What an API server says, in plain text, to a path that it does not know (Go's ``http.NotFound``)."""
PLAIN: Final = frozenset({401, 429})
"""What filters before the API itself may answer in plain text; anything else it refuses with a Status."""

_BY_STATUS: Final[Mapping[int, type[ClusterError]]] = {
    401: UnauthorizedError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    429: ThrottledError,
}


def connect(kubeconfig: str, context: str, service_account_dir: str) -> Api:
    """Connect as the pod's ServiceAccount where there is one and no kubeconfig is named, else by kubeconfig."""
    return Api(connection.connect(kubeconfig, context, service_account_dir))


class Api:
    """A connection to one API server. Safe to use from several threads."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.host = connection.host
        self.counters = Counters()
        self.before_write: Callable[[Request], None] = lambda _request: None
        """Raises what forbids a write. Asked before each one, however often it is tried."""
        self._began = datetime.now(UTC)
        self._origin = self._began - _steady()
        self._offsets: deque[timedelta] = deque(maxlen=OFFSETS_KEPT)
        self._clock_offset = timedelta()

    def now(self) -> datetime:
        """Give the time by the API server's clock, to a second: what its timestamps compare with.

        It goes on evenly when this machine's own clock is set: graces, deadlines and the breaker go by it.
        """
        return self._local() + self._clock_offset

    @property
    def began(self) -> datetime:
        """When this connection was made, by the same clock as `now`: as early as a process can tell."""
        return self._began + self._clock_offset

    def _local(self) -> datetime:
        """Give the time as this machine told it at first, and what has passed since."""
        return self._origin + _steady()

    def send(self, request: Request, read_seconds: float = READ_SECONDS) -> dict[str, Any]:
        """Send a request and return the decoded answer, which is complete within `read_seconds` or is none."""
        if request.method != "GET":
            self.before_write(request)
        with self._counting(request):
            answer = decoding.decode(self._body(request, read_seconds))
            if not answer.get("kind"):
                raise UnreachableError("the answer is no object of an API server: it has no kind")
            return answer

    def list_page(self, request: Request, read_seconds: float = READ_SECONDS) -> tuple[Json, Sequence[Raw]]:
        """Send a list request. Return the page's metadata and the text of its objects.

        The page is complete within `read_seconds` or is none.
        """
        with self._counting(request):
            page = decoding.answer(decoding.Page, self._body(request, read_seconds))
            if not page.metadata.get("resourceVersion"):
                raise UnreachableError("the API server's list has no version to go on from")
            return page.metadata, page.items

    def open_watch(
        self, request: Request, seconds: int, slack: float | None = None, end: float = math.inf
    ) -> urllib3.BaseHTTPResponse:
        """Send a watch request. Its events are read by ``events``, with some slack for a silent server.

        The server ends the watch after `seconds`. One that still sends a minute later does not keep to that. Nothing
        is read after `end`, by the monotonic clock.
        """
        silence = seconds + (WATCH_SLACK_SECONDS if slack is None else slack)
        with self._counting(request):
            return self._open(request, silence, min(seconds + READ_SECONDS, end - time.monotonic()))

    def events(self, response: urllib3.BaseHTTPResponse, resource: Resource) -> Iterator[tuple[str, Raw]]:
        """Yield the events of an open watch, kind and object, until the server, or the connection, ends it."""
        with self.counters.counting("watch", resource.grant):
            try:
                for line in response:
                    if line.strip():
                        event = decoding.answer(decoding.Event, line)
                        yield event.type, event.object
            except urllib3.exceptions.TimeoutError as error:
                # It outlived the time that the server agreed to: what happened meanwhile is not known.
                raise GoneError("the watch fell silent") from error
            except urllib3.exceptions.HTTPError as error:
                raise UnreachableError(f"the watch broke off: {_short(error)}") from error
            finally:
                response.close()

    def served_versions(self, resource: Resource, read_seconds: float = READ_SECONDS) -> frozenset[str]:
        """Give the versions of a resource's group that the server serves."""
        try:
            group = decoding.read(wire.ApiGroup, self.send(versions_of(resource), read_seconds))
            return frozenset(each.version for each in group.versions or ())
        except NotFoundError:
            return frozenset()
        except MalformedObjectError as error:
            raise UnreachableError(f"the API server's list of versions cannot be read: {error}") from error

    def allows(self, request: Request, read_seconds: float = READ_SECONDS) -> bool:
        """Return whether RBAC allows a request; if so, admission has refused it. Raises ClusterError, too."""
        try:
            return self.send(may_i(request), read_seconds)["status"]["allowed"] is True
        except (PermissionDeniedError, KeyError, TypeError):
            return False

    def watch_error(self, selection: Selection, body: Raw) -> ClusterError:
        """Translate the error event that ends a watch."""
        status = decoding.decode(body)
        code = status.get("code")
        error = refusal(selection.watch("", 0), code if isinstance(code, int) else 500, status)
        self.counters.failed(error, "watch", selection.resource.grant)
        return error

    def _counting(self, request: Request) -> AbstractContextManager[None]:
        return self.counters.counting(request.verb, request.resource.grant)

    def _body(self, request: Request, read_seconds: float) -> bytes:
        response = self._open(request, read_seconds, read_seconds)
        try:
            return response.read()
        except urllib3.exceptions.HTTPError as error:
            raise UnreachableError(f"the answer of {self.host} broke off: {_short(error)}") from error
        finally:
            response.release_conn()

    def _open(self, request: Request, silence: float, whole: float) -> urllib3.BaseHTTPResponse:
        """Send a request. Both are seconds: for the longest pause within the answer, and for all of it."""
        if whole <= 0:
            raise UnreachableError(f"no time is left to ask the API server at {self.host}")
        try:
            with bounded.by(time.monotonic() + whole):
                response: urllib3.BaseHTTPResponse = self.connection.pool.request(
                    request.method,
                    self.host + request.target,
                    body=json.dumps(request.body).encode() if request.body is not None else None,
                    headers=self._headers(request),
                    timeout=_timeout(request, min(silence, whole)),
                    retries=False,
                    preload_content=False,
                )
        except urllib3.exceptions.HTTPError as error:
            raise UnreachableError(f"cannot reach the API server at {self.host}: {_short(error)}") from error
        except (OSError, ValueError) as error:
            raise UnauthorizedError(f"cannot read the ServiceAccount token: {error}") from error
        if response.status >= 400:  # noqa: PLR2004 - HTTP: where errors begin
            raise _refusal(request, response)
        kind = response.headers.get("content-type", JSON)
        if not kind.startswith(JSON):
            response.close()
            raise UnreachableError(f"what answered at {self.host} with {kind[:40]} is no API server")
        # Only now: error pages come from whatever stands between us, with a clock of its own.
        self._set_clock(response)
        return response

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {"accept": "application/json", "user-agent": f"gpu-operator-post/{__version__}"}
        if request.body is not None:
            headers["content-type"] = request.content_type
        if authorization := self.connection.authorization():
            headers["authorization"] = authorization
        return headers

    def _set_clock(self, response: urllib3.BaseHTTPResponse) -> None:
        """Follow the server's ``Date``: the median of the last few, so that one late answer moves nothing."""
        try:
            theirs = parsedate_to_datetime(response.headers.get("date", ""))
        except (ValueError, OverflowError):
            return
        if theirs.tzinfo is None:  # "-0000": UTC, of an unknown place (RFC 5322, 3.3)
            theirs = theirs.replace(tzinfo=UTC)
        self._offsets.append(theirs - self._local())
        # One look at what is known: another thread may add to it at any moment.
        known = sorted(self._offsets)
        offset = known[len(known) // 2]
        self._clock_offset = offset if abs(offset) > CLOCK_TOLERANCE else timedelta()


def _steady() -> timedelta:
    """Give what a clock shows that nobody sets."""
    return timedelta(seconds=time.monotonic() if BOOTTIME is None else time.clock_gettime(BOOTTIME))


def _timeout(request: Request, seconds: float) -> urllib3.Timeout:
    """Bound the silence of a server. A write has no more to connect and be sent: others may act after it."""
    total = None if request.method == "GET" else seconds
    return urllib3.Timeout(total, connect=min(CONNECT_SECONDS, seconds), read=seconds)


def refusal(request: Request, status: int, body: Mapping[str, Any], retry_after: float | None = None) -> ClusterError:
    """Translate a refusal by its status code; its text is for people only."""
    message = str(body.get("message") or f"HTTP {status}")
    if status == 403:  # noqa: PLR2004 - HTTP: forbidden
        what = request.path or request.resource.grant
        return PermissionDeniedError(request.verb, what, request.namespace, message)
    if status >= 500:  # noqa: PLR2004 - HTTP: the server's fault
        return UnreachableError(f"the API server answered {status}: {message}", retry_after)
    return _BY_STATUS.get(status, RejectedError)(message, retry_after)


def _refusal(request: Request, response: urllib3.BaseHTTPResponse) -> ClusterError:
    raw, body = b"", {}
    try:
        raw = response.read()
        body = decoding.decode(raw)
    except (urllib3.exceptions.HTTPError, UnreachableError, RejectedError):
        pass
    finally:
        response.release_conn()
    seconds = _seconds(response.headers.get("retry-after", ""))
    unknown_path = response.status == 404 and raw.startswith(UNKNOWN_PATH)  # noqa: PLR2004 - HTTP: not found
    plain = response.status in PLAIN or response.status >= 500 or unknown_path  # noqa: PLR2004 - HTTP: server errors
    if body.get("kind") != "Status" and not plain:
        # A load balancer without a control plane behind it: its 404 must never read as "there is no such thing".
        return UnreachableError(f"what answered {response.status} is no API server", seconds)
    return refusal(request, response.status, body, seconds)


def _seconds(retry_after: str) -> float | None:
    """Read how long the server asks to wait. It may also be a date, which no API server sends."""
    return min(float(retry_after), LONGEST_RETRY_AFTER) if re.fullmatch("[0-9]+", retry_after) else None


def _short(error: Exception) -> str:
    """Give the last clause of an error: the client library puts its own objects before it."""
    return str(error).rsplit(": ", 1)[-1][:200]
