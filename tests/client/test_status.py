"""The controller's status in the annotation of its Lease: what is written, and when."""

from __future__ import annotations

import pytest

from hook.objects import names
from hook.run import status
from hook.run.status import ControllerStatus, StatusWriter
from tests.client.leases import Leases, held, keeping
from tests.client.server import Said
from tests.fixtures.cluster import LATER


def written(kept: Leases) -> ControllerStatus:
    """Return what the Lease shows."""
    return ControllerStatus.decode(kept.annotation(names.STATUS_ANNOTATION))


def test_the_status_is_written_when_a_job_may_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new spec at once; other changes now and then; that it looked again rarely."""
    for name, seconds in (("RETRY_SECONDS", 0.0), ("WRITE_SECONDS", 3600.0), ("UNCHANGED_SECONDS", 7200.0)):
        monkeypatch.setattr(status, name, seconds)
    first = ControllerStatus(spec_hashes={"gpu": "0123456789abcdef"}, observed_at=LATER)
    other = ControllerStatus(spec_hashes={"gpu": "fedcba9876543210"}, remaining=3)
    looked = ControllerStatus(spec_hashes=other.spec_hashes, remaining=3, observed_at=LATER, eta_seconds=7)
    with keeping() as (kept, server):
        writer = StatusWriter(held(server))
        assert writer.write(first)
        assert written(kept) == first
        assert not writer.write(ControllerStatus(spec_hashes=first.spec_hashes, remaining=3, observed_at=LATER))
        assert written(kept) == first
        assert writer.write(other)
        assert written(kept) == other
        assert writer.write(looked)
        assert written(kept) == other
        monkeypatch.setattr(status, "UNCHANGED_SECONDS", 0.0)
        assert writer.write(looked)
        assert written(kept) == looked

        # One that cannot be written is written later.
        writer = StatusWriter(writer._lease)
        kept.instead = lambda line: Said(500) if "PATCH" in line else None
        assert not writer.write(ControllerStatus())
        kept.instead = lambda _line: None
        assert writer.write(ControllerStatus())
