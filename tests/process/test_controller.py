"""The controller as a process: what ends it, what does not, and what its port answers meanwhile."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.client.server import SILENT, Said, Server, refused, until
from tests.client.shown import LEASES, NAME, NAMESPACE, keeping
from tests.fixtures.statuses import exposition
from tests.process import program
from tests.process.program import Logged, http, reaching

PORT: Final = re.compile(r"metrics and health on http://127\.0\.0\.1:(\d+)")
STOPPED: Final = 128 + signal.SIGTERM
LATER: Final = "2099-01-01T00:00:00.000000Z"


class Process(Logged):
    """A controller that is looked at from outside."""

    def asked(self, path: str) -> tuple[int, str]:
        """Ask it over HTTP; 0 while there is no answer."""
        found = PORT.search(self.said)
        return http(int(found[1]), path) if found else (0, "")

    def await_answer(self, path: str, status: int, text: str = "") -> None:
        """Wait until it answers like this, while it lives."""
        until(lambda: self.asked(path) == (status, text) if text else self.asked(path)[0] == status, f"{path} {status}")
        assert not self.over, self.said

    def stopped(self) -> int:
        """Stop it and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.ended().code

    @property
    def reason(self) -> str:
        """Return the reason in its termination message."""
        return str(json.loads(self.log.with_suffix(".message").read_text())["reason"])


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Return what starts a controller; all of them end with the test."""
    started: list[Process] = []

    def begin(server: Server, identity: str = "a") -> Process:
        log = tmp_path / f"{identity}.log"
        log.with_suffix(".message").touch()
        logged = program.start(
            log, "controller", reaching(tmp_path, server.api.host),
            f"--lease-name={NAME}", f"--release-namespace={NAMESPACE}", f"--identity={identity}",
            "--listen=127.0.0.1:0", f"--termination-log={log.with_suffix('.message')}",
        )  # fmt: skip
        started.append(Process(logged.process, log))
        return started[-1]

    yield begin
    for each in started:
        each.process.kill()
        each.process.join()


def test_a_signal_ends_it_and_is_no_error(start: Callable[..., Process]) -> None:
    """Also while requests hang, which have a minute. A rollout stops it: its log has no error and no advice."""
    with keeping() as (kept, server):
        kept.instead = lambda line: None if LEASES in line else SILENT
        controller = start(server)
        until(lambda: kept.holder == "a" and server.count("clusterpolicies"), "it leads and reads")
        assert (controller.stopped(), controller.reason) == (STOPPED, "ControllerStopped")
        assert "(ControllerStopped): stopped by signal 15" in controller.said
        assert not re.search("ERROR|WARNING|Fail|next run|Look:", controller.said), controller.said
        message = json.loads(controller.log.with_suffix(".message").read_text())
        assert (message["phase"], message["next"], message["exitCode"]) == ("Wait", "", STOPPED)


def test_it_takes_over_from_a_leader_that_stops(start: Callable[..., Process]) -> None:
    """It only asks for the Lease, is ready all the time, and continues where the first one was stopped."""
    with keeping() as (kept, server):
        first = start(server, "first")
        first.await_answer("/readyz", 200, "leader\n")
        second = start(server, "second")
        second.await_answer("/readyz", 200, "standby\n")
        second.await_answer("/healthz", 200, "standby\n")
        shown = list(text_string_to_metric_families(second.asked("/metrics")[1]))
        # Every metric that alerts ask for, also those without a sample.
        assert {family.name for family in shown} == {each.name for each in text_string_to_metric_families(exposition())}
        assert [0] == [sample.value for each in shown for sample in each.samples if each.name.endswith("post_leader")]
        assert first.stopped() == STOPPED
        until(lambda: kept.holder == "second", "the second one leads")
        assert second.stopped() == STOPPED
        assert [line for line in server.writes if LEASES not in line] == []  # there is nothing to protect


def test_it_ends_where_only_a_new_process_helps(start: Callable[..., Process]) -> None:
    """It lost its Lease, and must not act at the same time as the new leader; or an answer cannot be understood."""
    with keeping() as (kept, server):
        controller = start(server)
        until(lambda: kept.holder == "a", "it leads")
        controller.await_answer("/readyz", 200, "leader\n")
        kept.change(holderIdentity="b", renewTime=LATER)
        assert (controller.ended().code, kept.holder, controller.reason) == (1, "b", "LeaseLost")
        assert "Traceback" not in controller.said
    with keeping() as (kept, server):
        kept.instead = lambda line: refused(400) if "clusterpolicies" in line else None
        controller = start(server)
        assert controller.ended().code == 1
        assert "clusterpolicies" in controller.log.with_suffix(".message").read_text()
        assert kept.holder == ""


def test_it_outlives_what_may_pass(start: Callable[..., Process]) -> None:
    """It lives, is not ready, counts the errors, tries again, and continues once that has passed."""
    with keeping() as (kept, server):
        kept.instead = lambda _line: Said()
        controller = start(server)
        until(lambda: server.count(LEASES) > 2, "it has tried for the Lease more than once")
        controller.await_answer("/healthz", 200, "standby\n")
        controller.await_answer("/readyz", 503)
        labels = 'code="0",resource="leases.coordination.k8s.io",verb="get"'
        counted = f"gpu_operator_post_api_errors_total{{{labels}}}"
        assert counted in controller.asked("/metrics")[1]
        for said in (Said(503), refused(403)):
            kept.instead = lambda line, said=said: None if LEASES in line else said  # type: ignore[misc]
            until(lambda: kept.holder == "a", "it leads")
            before = server.count("clusterpolicies")
            until(lambda: server.count("clusterpolicies") >= before + 2, "it is refused again and again")  # noqa: B023
            controller.await_answer("/healthz", 200, "leader\n")
            controller.await_answer("/readyz", 503)
        kept.instead = lambda _line: None
        controller.await_answer("/readyz", 200, "leader\n")
        assert controller.stopped() == STOPPED
