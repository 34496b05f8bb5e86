"""The errors of this program. Callers distinguish them by class and by HTTP status, never by text.

TerminatedError               stopped by SIGTERM or Ctrl-C (exit 143 or 130)
HookError
├── SettingsError             an invalid flag or kubeconfig: no request was sent (exit 2)
├── OutputError               standard output, or the file for it, cannot be written (exit 1)
├── LeaseLostError            another controller may be active: stop writing (exit 1)
└── ApiError                  the API server refused, or did not answer (exit 1; after a lasting 401 or 403: 3)
    ├── UntrustedError        the server's certificate is refused: no retry helps (exit 1)
    └── PermissionDeniedError a permission is missing: an administrator has to add it (exit 3)
"""

from __future__ import annotations

from typing import Final

NO_ANSWER: Final = 0
"""Status of an error without an answer of an API server: no connection, a broken one, or a proxy's answer."""
UNREADABLE: Final = 200
"""Status of an error whose answer was complete, and cannot be used."""
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
CONFLICT: Final = 409
GONE: Final = 410
THROTTLED: Final = 429
SERVER_ERRORS: Final = 500
"""This and all above."""


class HookError(Exception):
    """Everything that this program raises on purpose."""


class SettingsError(HookError):
    """A flag, environment variable or kubeconfig that cannot work."""


class OutputError(HookError):
    """A full disk, or an output that is closed."""

    def __init__(self, name: str, error: OSError) -> None:
        super().__init__(f"cannot write to {name}: {error.strerror}")


class LeaseLostError(HookError):
    """This controller may have lost its Lease, so it must not act."""


class TerminatedError(BaseException):
    """A signal stopped the process.

    Like KeyboardInterrupt it is no Exception, so that no library swallows it.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by signal {signal_number}")
        self.exit_code = 128 + signal_number


class ApiError(HookError):
    """A request to the API server failed."""

    def __init__(self, status: int, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status, or NO_ANSWER."""
        self.retry_after = retry_after
        """Seconds to wait, if the server sent Retry-After; else 0."""

    @property
    def unreachable(self) -> bool:
        """Return whether the result is unknown: no answer, an incomplete one, or a server error."""
        return self.status == NO_ANSWER or self.status >= SERVER_ERRORS

    @property
    def denied(self) -> bool:
        """Return whether the account is refused: its credentials, or a permission. Admission refuses an object."""
        return self.transient and self.status in {UNAUTHORIZED, FORBIDDEN}

    @property
    def transient(self) -> bool:
        """Return whether the same request may succeed soon."""
        return self.unreachable or self.status in {UNAUTHORIZED, THROTTLED}


class UntrustedError(ApiError):
    """The certificate of the API server, or of a proxy, is refused."""

    def __init__(self, message: str) -> None:
        super().__init__(NO_ANSWER, message)

    @property
    def unreachable(self) -> bool:
        """Return False: no request was sent, and none will be."""
        return False


class PermissionDeniedError(ApiError):
    """RBAC refused a request. The message names the permission."""

    def __init__(self, verb: str, resource: str, namespace: str, detail: str = "") -> None:
        where = f"in namespace {namespace}" if namespace else "in the whole cluster"
        missing = f"permission missing: {verb} {resource} {where}"
        super().__init__(FORBIDDEN, f"{missing} ({detail})" if detail else missing)
        self.detail = detail

    @property
    def transient(self) -> bool:
        """Return True: new RBAC objects take a moment to reach every API server."""
        return True
