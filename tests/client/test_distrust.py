"""A certificate that is refused later, when everything was read once: no retry helps then either."""

from __future__ import annotations

from pathlib import Path

import pytest

from hook.errors import UntrustedError
from hook.run.restarts import Restarter
from tests.client.access import trusting
from tests.client.certificates import Authority, server_side
from tests.client.fixtured import Shown
from tests.client.server import serving
from tests.client.test_job import DONE, reading
from tests.client.test_loop import A
from tests.fixtures.cluster import cluster


def test_no_write_and_no_second_read_is_tried_again(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """Also while open watches still deliver: each ends a run and a controller, so that the next process reads anew."""
    context, stranger = server_side(authority.sign()), Authority(tmp_path).sign()
    with serving(Shown(cluster()), tls=context) as server:
        server.api = trusting(tmp_path, authority, server.port)
        with reading(server) as run:
            context.load_cert_chain(stranger.certificate, stranger.key)
            for lasting in (False, True):
                with pytest.raises(UntrustedError):
                    list(Restarter(server.api, lasting=lasting).act([A], 60))
            with pytest.raises(UntrustedError):
                run._confirmed(DONE)
        assert "again" not in caplog.text
        assert server.writes == []
