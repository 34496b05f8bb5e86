"""The client: what an answer means, what a request looks like, and what is counted."""

from __future__ import annotations

from typing import Any, Final

import pytest

from hook.errors import ApiError, LeaseLostError, PermissionDeniedError
from hook.kube import client
from hook.kube.client import Api
from hook.kube.connection import Connection
from hook.kube.resources import CONFIG_MAPS, DAEMON_SETS, NODES, PODS, Resource
from tests.client.server import EMPTY, GRANTED, HTML, JSON, RBAC, SILENT, Said, bounded, events, refused, serving

PAGE: Final = b"<html>default backend - 404</html>"
PLAIN: Final = {"content-type": "text/plain; charset=utf-8"}
ONE: Final = ("get", NODES, "gpu-0")
DELETE: Final = ("delete", PODS.select("dra"), "p", client.delete_options("uid", "7"))
ANSWERS: Final[dict[str, tuple[Said, int]]] = {
    "404 of an API server": (refused(404), 404),
    "404 for an unknown path": (Said(404, b"404 page not found\n", PLAIN), 404),
    "404 of a load balancer": (Said(404, PAGE, HTML), 0),
    "403 of an API server": (refused(403), 403),
    "403 of a firewall": (Said(403, PAGE, HTML), 0),
    "400 of a proxy": (Said(400, PAGE, HTML), 0),
    "409": (refused(409), 409),
    "410 without a Status": (Said(410, b"{}"), 0),
    "401 in plain text": (Said(401, b"Unauthorized", PLAIN), 401),
    "429 in plain text": (Said(429, b"Too many requests", PLAIN), 429),
    "503": (Said(503, PAGE, HTML), 503),
    "redirect to a login": (Said(302, b"", {"location": "/login", **HTML}), 0),
    "page": (Said(200, PAGE, HTML), 0),
    "no kind": (Said(200, b"{}"), 0),
    "half an object": (Said(200, b'{"kind": "No'), 0),
    "too deep": (Said(200, b'{"kind": ' + b"[" * 100_000), 200),
    "nothing": (Said(), 0),
}
"""Each answer, and the status that it means. Without an answer of an API server it is 0."""


def failing(said: Said, *request: Any) -> ApiError:  # noqa: ANN401 - as the client has them
    """Return the error that an answer becomes."""
    with serving(said) as server:
        with pytest.raises(ApiError) as caught:
            server.api.send(*request or ONE)
        return caught.value


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_read_as_what_it_is(name: str) -> None:
    """Only an API server can report that something does not exist, or is not allowed."""
    said, status = ANSWERS[name]
    assert failing(said).status == status


def test_a_page_of_html_is_no_watch() -> None:
    """In the place of a watch it is an outage, from its first byte."""
    with serving(Said(200, PAGE, HTML)) as server, pytest.raises(ApiError) as caught, server.api.watch(NODES, "1", 60):
        pass
    assert caught.value.status == 0


NAMED: Final = 'pods "p" is forbidden: '
USER: Final = 'User "system:serviceaccount:a:b" cannot delete resource "pods" in API group "" in the namespace "dra"'


@pytest.mark.parametrize(
    "message",
    [
        f"{NAMED}{USER}",
        f"pods is forbidden: {USER}",
        f'{NAMED}{USER}: RBAC: clusterrole.rbac.authorization.k8s.io "x" not found',
        'leases.coordination.k8s.io "l" is forbidden: User "a" cannot update resource "leases"',
        'forbidden: User "a" cannot delete path "/x"',
    ],
)
def test_a_403_of_rbac_is_a_missing_permission(message: str) -> None:
    """RBAC names a user who cannot do something. The error names the permission."""
    error = failing(refused(403, message), *DELETE)
    assert isinstance(error, PermissionDeniedError)
    assert str(error) == f"permission missing: delete pods in namespace dra ({message})"


@pytest.mark.parametrize(
    "message",
    [
        'admission webhook "freeze.example.com" denied the request: no',
        f'admission webhook "freeze.example.com" denied the request: {NAMED}{USER}',
        f"{NAMED}ValidatingAdmissionPolicy 'freeze' with binding 'freeze' denied request: no",
        f"{NAMED}ValidatingAdmissionPolicy 'freeze' with binding 'freeze' denied request: {USER}",
        f"{NAMED}exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9",
        f"{NAMED}unable to create new content in namespace dra because it is being terminated",
        f'{NAMED}violates PodSecurity "restricted:latest": privileged',
        "HTTP 403",
    ],
)
def test_each_other_403_to_a_write_is_of_admission(message: str) -> None:
    """It is final for this object. Admission does not see reads."""
    error = failing(refused(403, message), *DELETE)
    assert (type(error), str(error)) == (ApiError, f"refused by admission: {message}")
    assert not error.transient
    assert isinstance(failing(refused(403, message)), PermissionDeniedError)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("the response 301 is not from an API server", Said(301, b"", {"location": "/", "content-length": "0"})),
        ("the response 302 is not from an API server", Said(302, b'{"kind": "Node"}', {**JSON, "location": "/"})),
        ("the API server answered 401: Unauthorized", refused(401, "Unauthorized")),
        ("the API server answered 429: HTTP 429", Said(429, b"Too many requests", PLAIN)),
        (": Remote end closed connection without response", Said()),
        (": incorrect header check", Said(200, b"text", {**JSON, "content-encoding": "gzip"})),
    ],
)
def test_messages_are_in_words(words: str, said: Said) -> None:
    """A message names no class of Python."""
    assert str(failing(said)).endswith(words)


def test_a_port_without_tls_is_named() -> None:
    """A wrong scheme is a common mistake in a kubeconfig."""
    with serving(GRANTED) as server, pytest.raises(ApiError, match=r": TLS: wrong version number$"):
        Api(Connection(f"https://127.0.0.1:{server.port}")).send(*ONE)


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [("7", 7), ("9" * 400, client.LONGEST_RETRY_AFTER), ("soon", 0), ("²", 0), ("-5", 0), ("", 0)],
)
def test_retry_after_is_a_number_of_seconds(asked: str, seconds: float) -> None:
    """It is bounded, so that no header stops a run. Anything else is ignored."""
    assert failing(Said(429, b"", {**PLAIN, "retry-after": asked})).retry_after == seconds


@pytest.mark.parametrize("said", [SILENT, Said(503)])
def test_a_silent_server_is_given_up(said: Said) -> None:
    """A request has its own time."""
    with serving(said) as server, bounded(), pytest.raises(ApiError) as caught:
        server.api.send(*ONE, seconds=0.2)
    assert caught.value.unreachable


def test_a_watch_that_is_silent_for_too_long_may_have_missed_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends each watch itself, so silence beyond that is a 410. A broken watch is not."""
    monkeypatch.setattr(client, "WATCH_SLACK_SECONDS", 0.2)
    for said, status in ((SILENT, 410), (Said(200, b'{"type": "ADD'), 0)):
        with serving(said) as server, server.api.watch(NODES, "1", 0) as found, pytest.raises(ApiError) as caught:
            list(found)
        assert caught.value.status == status


@pytest.mark.parametrize("code", [401, 403, 410, 500, "none"])
def test_an_error_within_a_watch_has_its_own_status(code: object) -> None:
    """An API server reports errors of an open watch as events."""
    error = {"kind": "Status", "code": code, "message": RBAC}
    with serving(events(("ERROR", error))) as server, server.api.watch(NODES, "1", 60) as found:
        with pytest.raises(ApiError) as caught:
            list(found)
        assert server.api.counters.errors == {(str(caught.value.status), "watch", "nodes"): 1}
    assert caught.value.status == (code if isinstance(code, int) else 500)


def test_requests_are_those_of_the_api() -> None:
    """Paths of groups and namespaces, selectors of lists and watches alike, pages of 50, bookmarks."""
    selected = DAEMON_SETS.select("dra", "app=a", "metadata.name=b")
    selectors = "labelSelector=app%3Da&fieldSelector=metadata.name%3Db"
    with serving(lambda line: EMPTY if "limit" in line else GRANTED) as server:
        server.api.list_page(selected, "more")
        with server.api.watch(selected, "7", 60):
            pass
        server.api.send("get", NODES, "a/b")
        server.api.send("create", PODS.select("dra"), body={})
        server.api.apply(CONFIG_MAPS.select("ns"), "it", {"data": {}}, "me", 2)
        of_dra = "/apis/apps/v1/namespaces/dra/daemonsets"
        watch = "watch=true&resourceVersion=7&timeoutSeconds=60&allowWatchBookmarks=true"
        assert server.asked == [
            f"GET {of_dra}?limit=50&continue=more&{selectors}",
            f"GET {of_dra}?{watch}&{selectors}",
            "GET /api/v1/nodes/a%2Fb",
            "POST /api/v1/namespaces/dra/pods",
            "PATCH /api/v1/namespaces/ns/configmaps/it?fieldManager=me&force=true",
        ]
        kinds = [each.headers["content-type"] for each in server.heard[-2:]]
        assert kinds == [client.JSON, client.APPLY_PATCH]
        assert [each.headers["accept-encoding"] for each in server.heard[:2]] == ["gzip", "identity"]


def test_no_write_passes_a_fence() -> None:
    """Deletions, Events and the status object alike: nothing is sent. Reads pass."""

    def fence(resource: Resource) -> None:
        raise LeaseLostError(resource.plural)

    with serving(GRANTED) as server:
        server.api.fence = fence
        server.api.send(*ONE)
        for write in (
            lambda: server.api.send(*DELETE),
            lambda: server.api.send("create", PODS, body={}),
            lambda: server.api.send("patch", PODS, "a", {}),
            lambda: server.api.apply(CONFIG_MAPS, "it", {}, "me", 2),
        ):
            with pytest.raises(LeaseLostError):
                write()
        assert server.writes == []


def test_errors_are_counted_by_status_verb_and_resource() -> None:
    """The controller's metrics show them."""
    with serving(refused(404)) as server:
        for request in (ONE, ONE, DELETE):
            with pytest.raises(ApiError):
                server.api.send(*request)
        with pytest.raises(ApiError):
            server.api.list_page(DAEMON_SETS)
        assert server.api.counters.errors == {
            ("404", "get", "nodes"): 2,
            ("404", "delete", "pods"): 1,
            ("404", "list", "daemonsets.apps"): 1,
        }
