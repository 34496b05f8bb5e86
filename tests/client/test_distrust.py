"""A certificate that is refused later, when everything was read once: no retry helps then either."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from hook.decide.reasons import Reason
from hook.errors import UntrustedError
from hook.kube.client import Api
from hook.run.loop import Restarter
from tests.client.access import connected, kubeconfig
from tests.client.certificates import Authority, server_side
from tests.client.fixtured import Shown
from tests.client.server import PATIENCE, Server, serving, until
from tests.client.test_job import DONE, runner
from tests.client.test_loop import A
from tests.fixtures.cluster import Cluster, cluster
from tests.unit.decide import patches


class Fleet(NamedTuple):
    """An API server with a fleet, and what gives it a certificate of a stranger."""

    server: Server
    api: Api
    replace_certificate: Callable[[], None]


@pytest.fixture
def waiting() -> Cluster:
    """Return a fleet whose drivers are outdated."""
    return cluster().change("driver-pod", patches.OUTDATED)


@pytest.fixture
def fleet(tmp_path: Path, waiting: Cluster) -> Iterator[Fleet]:
    """Show the fleet by TLS, each request on a connection of its own."""
    authority = Authority(tmp_path)
    context: ssl.SSLContext = server_side(authority.sign())
    stranger = Authority(tmp_path).sign()
    with serving(Shown(waiting), tls=context) as server:
        field = f"certificate-authority: {authority.certificate}"
        server.api = connected(kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", field))
        yield Fleet(server, server.api, lambda: context.load_cert_chain(stranger.certificate, stranger.key))


def test_a_run_that_waits_ends_at_once(fleet: Fleet) -> None:
    """An outage that begins then is outlasted until the deadline."""
    run = runner(fleet.server)
    with ThreadPoolExecutor() as pool:
        ended = pool.submit(run.run)
        until(lambda: run.last.reason is Reason.NODES_PENDING and run.last.statuses, "it has read the fleet, and waits")
        fleet.replace_certificate()
        with pytest.raises(UntrustedError, match=r"certificate of https://127\.0\.0\.1"):
            ended.result(PATIENCE)
    run._cache.stop()


def test_no_write_and_no_second_read_is_tried_again(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    """Also while open watches still deliver: each ends a run and a controller, so that the next process reads anew."""
    run = runner(fleet.server)
    run._cache.start()
    until(run._loop.observe, "all is read")
    fleet.replace_certificate()
    for lasting in (False, True):
        with pytest.raises(UntrustedError):
            list(Restarter(fleet.api, lasting=lasting).act([A], 60))
    with pytest.raises(UntrustedError):
        run._confirmed(DONE)
    run._cache.stop()
    assert "again" not in caplog.text
    assert fleet.server.writes == []
