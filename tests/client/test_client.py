"""The client: what an answer means, and what it sends. What a real API server makes of it is in test_real_server.py."""

from __future__ import annotations

from typing import Any, Final

import pytest

from hook.errors import ApiError, LeaseLostError, PermissionDeniedError
from hook.kube import client
from hook.kube.client import Api
from hook.kube.connection import Connection
from hook.kube.resources import CONFIG_MAPS, DAEMON_SETS, NODES, PODS, Resource
from tests.client.server import (
    EMPTY,
    GRANTED,
    HTML,
    JSON,
    ONE,
    PATIENCE,
    RBAC,
    SILENT,
    Said,
    bounded,
    events,
    refused,
    serving,
)

PAGE: Final = b"<html>default backend - 404</html>"
PLAIN: Final = {"content-type": "text/plain; charset=utf-8"}
DELETE: Final = ("delete", PODS.select("dra"), "p", client.delete_options("uid", "7"))
ANONYMOUS: Final = {"code": 403, "message": 'nodes is forbidden: User "system:anonymous" cannot watch resource'}
NO_SERVER: Final = "is not from an API server"


def failing(said: Said, *request: Any) -> ApiError:  # noqa: ANN401 - as the client has them
    """Return the error that an answer becomes."""
    with serving(said) as server:
        with pytest.raises(ApiError) as caught:
            server.api.send(*request or ONE)
        return caught.value


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        pytest.param(refused(404), 404, "no", id="404 of an API server"),
        pytest.param(Said(404, b"404 page not found\n", PLAIN), 404, "HTTP 404", id="404 for an unknown path"),
        pytest.param(Said(404, PAGE, HTML), 0, f"the response 404 {NO_SERVER}", id="404 of a load balancer"),
        pytest.param(refused(403), 403, f"({RBAC})", id="403 of an API server"),
        pytest.param(Said(403, PAGE, HTML), 0, NO_SERVER, id="403 of a firewall"),
        pytest.param(refused(409), 409, "no", id="409"),
        pytest.param(Said(410, b"{}"), 0, NO_SERVER, id="410 without a Status"),
        pytest.param(Said(401, b"Unauthorized", PLAIN), 401, "the API server answered 401: HTTP 401", id="plain 401"),
        pytest.param(Said(429, b"busy", PLAIN), 429, "the API server answered 429: HTTP 429", id="plain 429"),
        pytest.param(Said(503, PAGE, HTML), 503, "the API server answered 503: HTTP 503", id="503"),
        pytest.param(Said(302, b"", {"location": "/login", **HTML}), 0, f"302 {NO_SERVER}", id="redirect to a login"),
        pytest.param(Said(302, b'{"kind": "Node"}', {**JSON, "location": "/"}), 0, NO_SERVER, id="redirect with JSON"),
        pytest.param(Said(200, PAGE, HTML), 0, "which is not from an API server", id="page"),
        pytest.param(Said(200, b"{}"), 0, "it has no kind", id="no kind"),
        pytest.param(Said(200, b'{"kind": "No'), 0, "Input data was truncated", id="half an object"),
        pytest.param(Said(200, b'{"kind": ' + b"[" * 100_000), 200, "too deeply to be read", id="too deep"),
        pytest.param(
            Said(200, b"text", {**JSON, "content-encoding": "gzip"}), 0, ": incorrect header check", id="no gzip"
        ),
        pytest.param(Said(), 0, ": Remote end closed connection without response", id="nothing"),
    ],
)
def test_an_answer_is_read_as_what_it_is(said: Said, status: int, words: str) -> None:
    """Only an API server can report that something does not exist, or is not allowed. 0 is no answer of one."""
    error = failing(said)
    assert (error.status, words in str(error)) == (status, True), error


def test_a_port_without_tls_is_named() -> None:
    """A wrong scheme is a common mistake in a kubeconfig."""
    with serving(GRANTED) as server, pytest.raises(ApiError, match=r": TLS: wrong version number$"):
        Api(Connection(f"https://127.0.0.1:{server.port}")).send(*ONE)


NAMED: Final = 'pods "p" is forbidden: '
USER: Final = 'User "system:serviceaccount:a:b" cannot delete resource "pods" in API group "" in the namespace "dra"'


@pytest.mark.parametrize(
    "message",
    [
        f"{NAMED}{USER}",
        f'{NAMED}{USER}: RBAC: clusterrole.rbac.authorization.k8s.io "x" not found',
        'leases.coordination.k8s.io "l" is forbidden: User "a" cannot delete resource "leases"',
        'forbidden: User "a" cannot delete path "/x"',
    ],
)
def test_a_403_of_rbac_is_a_missing_permission(message: str) -> None:
    """RBAC names a user who cannot do something. The error names the permission."""
    error = failing(refused(403, message), *DELETE)
    assert isinstance(error, PermissionDeniedError)
    assert str(error) == f"permission missing: delete pods in namespace dra ({message})"


def test_the_missing_verb_is_the_one_that_the_api_server_names() -> None:
    """Applying an object that does not exist is a patch, and needs the verb create, too."""
    message = f'{NAMED}User "a" cannot create resource "pods" in API group "" in the namespace "dra"'
    assert str(failing(refused(403, message), "patch", *DELETE[1:])).startswith("permission missing: create pods in ")


@pytest.mark.parametrize(
    "message",
    [
        f'admission webhook "freeze.example.com" denied the request: {NAMED}{USER}',
        f"{NAMED}ValidatingAdmissionPolicy 'freeze' with binding 'freeze' denied request: {USER}",
        f"{NAMED}exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9",
        "HTTP 403",
    ],
)
def test_each_other_403_to_a_write_is_of_admission(message: str) -> None:
    """It is final for this object. Admission does not see reads."""
    error = failing(refused(403, message), *DELETE)
    assert (type(error), str(error), error.transient) == (ApiError, f"refused by admission: {message}", False)
    assert isinstance(failing(refused(403, message)), PermissionDeniedError)


@pytest.mark.parametrize(
    ("asked", "seconds"), [("7", 7), ("9" * 400, client.LONGEST_RETRY_AFTER), ("soon", 0), ("²", 0), ("-5", 0)]
)
def test_retry_after_is_a_number_of_seconds(asked: str, seconds: float) -> None:
    """It is bounded, so that no header stops a run. Anything else is ignored."""
    for status in (429, 404):  # Of an API server, and of a load balancer.
        assert failing(Said(status, b"", {**PLAIN, "retry-after": asked})).retry_after == seconds, status


def test_a_silent_server_is_given_up() -> None:
    """A request has its own time."""
    with serving(SILENT) as server, bounded(), pytest.raises(ApiError) as caught:
        server.api.send(*ONE, seconds=0.2)
    assert caught.value.unreachable


@pytest.mark.parametrize(
    ("said", "status"),
    [
        pytest.param(Said(200, PAGE, HTML), 0, id="page"),
        pytest.param(SILENT, 410, id="silence: it may have missed events"),
        pytest.param(Said(200, b'{"type": "ADD'), 0, id="broken"),
        *(
            pytest.param(events(("ERROR", {"kind": "Status", "code": code, "message": RBAC})), status, id=f"{code}")
            for code, status in ((401, 401), (403, 403), (410, 410), ("none", 500))
        ),
        pytest.param(events(("ERROR", ANONYMOUS)), 401, id="credentials lost"),
    ],
)
def test_how_a_watch_ends(said: Said, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends each watch itself, and reports errors of an open one as events. Each error is counted."""
    monkeypatch.setattr(client, "WATCH_SLACK_SECONDS", 0.2 if said is SILENT else PATIENCE)
    with serving(said) as server:
        with pytest.raises(ApiError) as caught:
            _read_watch(server.api)
        assert server.api.counters.errors == {(str(status), "watch", "nodes"): 1}
    assert caught.value.status == status


def _read_watch(api: Api) -> None:
    with api.watch(NODES, "1", 0) as found:
        list(found)


def test_a_request_is_asked_for_as_selected() -> None:
    """Lists and watches have the same selectors. Lists are compressed, and watches bring bookmarks."""
    selected = DAEMON_SETS.select("dra", "app=a", "metadata.name=b")
    selectors = "labelSelector=app%3Da&fieldSelector=metadata.name%3Db"
    with serving(lambda line: EMPTY if "limit" in line else GRANTED) as server:
        server.api.list_page(selected, "more")
        with server.api.watch(selected, "7", 60):
            pass
        server.api.send("get", NODES, "a/b")
        of_dra = "/apis/apps/v1/namespaces/dra/daemonsets"
        watch = "watch=true&resourceVersion=7&timeoutSeconds=60&allowWatchBookmarks=true"
        assert server.asked == [
            f"GET {of_dra}?limit=50&continue=more&{selectors}",
            f"GET {of_dra}?{watch}&{selectors}",
            "GET /api/v1/nodes/a%2Fb",
        ]
        assert [each.headers["accept-encoding"] for each in server.heard[:2]] == ["gzip", "identity"]


@pytest.mark.parametrize("verb", ["delete", "create", "patch", "apply"])
def test_no_write_passes_a_fence(verb: str) -> None:
    """Deletions, Events and the status object alike: nothing is sent. Reads pass."""

    def fence(resource: Resource) -> None:
        raise LeaseLostError(resource.plural)

    with serving(GRANTED) as server:
        api = server.api
        api.fence = fence
        api.send(*ONE)
        with pytest.raises(LeaseLostError):
            api.apply(CONFIG_MAPS, "it", {}, "me", 2) if verb == "apply" else api.send(verb, PODS, "a", {})
        assert server.writes == []


def test_errors_are_counted_by_status_verb_and_resource() -> None:
    """The controller's metrics show them."""
    with serving(refused(404)) as server:
        for request in (ONE, ONE, DELETE):
            with pytest.raises(ApiError):
                server.api.send(*request)
        with pytest.raises(ApiError):
            server.api.list_page(DAEMON_SETS)
        counted = {("404", "get", "nodes"): 2, ("404", "delete", "pods"): 1, ("404", "list", "daemonsets.apps"): 1}
        assert server.api.counters.errors == counted
