"""The error tree. Whoever catches one knows what to do by its class, never by its text.

TerminatedError               told to stop by SIGTERM or Ctrl-C (exit 143 or 130)
HookError
├── SettingsError             a flag, a kubeconfig: nothing was asked of the cluster (exit 2)
├── LeaseLostError            another follower may act now: nothing more is written (exit 1)
└── ClusterError              the API server's answer, or the lack of one
    ├── UnreachableError      no connection, a broken one, or a 5xx: worth another try (exit 1)
    ├── ThrottledError        429, with the time to wait
    ├── UnauthorizedError     401: a token rotates
    ├── PermissionDeniedError 403, with verb, resource and namespace (exit 3)
    ├── NotFoundError         404
    ├── ConflictError         409: what was read is not what is there
    ├── GoneError             410: the resource version is too old, list again
    └── RejectedError         any other refusal
"""

from __future__ import annotations


class HookError(Exception):
    """Everything that this program raises on purpose."""


class SettingsError(HookError):
    """A flag, environment variable or kubeconfig that cannot work."""


class LeaseLostError(HookError):
    """This follower does not hold the Lease for sure, so it must not act."""


class TerminatedError(BaseException):
    """Somebody asked the process to stop.

    No Exception, as KeyboardInterrupt is none: whatever library the signal arrives in must not swallow it.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by signal {signal_number}")
        self.exit_code = 128 + signal_number


class ClusterError(HookError):
    """The API server did not do what was asked."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds that the server asks to wait, where it says so."""


class UnreachableError(ClusterError):
    """No answer, half an answer, or a server error."""


class ThrottledError(ClusterError):
    """Too many requests."""


class UnauthorizedError(ClusterError):
    """The token is not valid (any more)."""


class PermissionDeniedError(ClusterError):
    """This identity may not do it. Says what to grant."""

    def __init__(self, verb: str, resource: str, namespace: str, detail: str = "") -> None:
        where = f"in namespace {namespace}" if namespace else "in the whole cluster"
        super().__init__(f"permission missing: {verb} {resource} {where}{f' ({detail})' if detail else ''}")
        self.verb, self.resource, self.namespace = verb, resource, namespace


class NotFoundError(ClusterError):
    """The object, or its kind, is not there."""


class ConflictError(ClusterError):
    """A precondition failed: look again."""


class GoneError(ClusterError):
    """The resource version is too old for a watch or a next page."""


class RejectedError(ClusterError):
    """The request itself was refused."""
