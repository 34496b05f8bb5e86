"""The errors of this program. Callers distinguish them by class, never by text.

TerminatedError               stopped by SIGTERM or Ctrl-C (exit 143 or 130)
HookError
├── SettingsError             an invalid flag or kubeconfig: no request was sent (exit 2)
├── LeaseLostError            another controller may be active: stop writing (exit 1)
└── ClusterError              the API server refused, or did not answer
    ├── UnreachableError      no connection, a broken one, or a 5xx: try again (exit 1)
    ├── UntrustedError        the server's certificate is refused: no retry helps (exit 1)
    ├── ThrottledError        429, with the time to wait
    ├── UnauthorizedError     401, or no credentials: they may have been rotated (exit 1)
    ├── PermissionDeniedError 403 of RBAC, with verb, resource and namespace (exit 3)
    ├── NotFoundError         404
    ├── ConflictError         409: the object changed since it was read
    ├── GoneError             410: the resource version is too old, list again
    └── RejectedError         any other refusal, such as by admission
"""

from __future__ import annotations


class HookError(Exception):
    """Everything that this program raises on purpose."""


class SettingsError(HookError):
    """A flag, environment variable or kubeconfig that cannot work."""


class LeaseLostError(HookError):
    """This controller may have lost its Lease, so it must not act."""


class TerminatedError(BaseException):
    """A signal stopped the process.

    Like KeyboardInterrupt it is no Exception, so that no library swallows it.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by signal {signal_number}")
        self.exit_code = 128 + signal_number


class ClusterError(HookError):
    """A request to the API server failed."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds to wait, if the server sent Retry-After."""


class UnreachableError(ClusterError):
    """No answer, an incomplete answer, or a server error."""


class UntrustedError(ClusterError):
    """The certificate of the API server, or of a proxy, is refused."""


class ThrottledError(ClusterError):
    """Too many requests."""


class UnauthorizedError(ClusterError):
    """The credentials are not valid, or not any more, or there are none."""


class PermissionDeniedError(ClusterError):
    """A permission is missing. The message names it."""

    def __init__(self, verb: str, resource: str, namespace: str, detail: str = "") -> None:
        where = f"in namespace {namespace}" if namespace else "in the whole cluster"
        super().__init__(f"permission missing: {verb} {resource} {where}{f' ({detail})' if detail else ''}")
        self.verb, self.resource, self.namespace, self.detail = verb, resource, namespace, detail


class NotFoundError(ClusterError):
    """The object, or its kind, does not exist."""


class ConflictError(ClusterError):
    """A precondition failed: read the object again."""


class GoneError(ClusterError):
    """The resource version is too old for a watch or a next page."""


class RejectedError(ClusterError):
    """The request itself was refused."""
