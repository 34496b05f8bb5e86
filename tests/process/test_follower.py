"""A follower as a process: what ends it, what does not, and how."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from devcluster.soak.following import lost_its_lease
from hook.errors import LeaseLostError, UnreachableError
from hook.kube import events
from hook.kube.election import LeaderElectionConfig
from hook.kube.events import ObjectReference
from hook.objects import names
from hook.run import controller
from hook.run.controller import Controller, Identity
from hook.run.metrics import Telemetry
from hook.run.status import ControllerStatus
from tests.client.leases import NAME, NAMESPACE, PATH, PATIENCE, Leases, keeping, until
from tests.client.server import JSON, Said
from tests.fixtures.limits import FOLLOWING
from tests.process.program import ended, start_logged

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from tests.client.server import Server

ELECTION: Final = LeaderElectionConfig(NAMESPACE, NAME, "a")
PORT: Final = re.compile(r"http://127\.0\.0\.1:(\d+)")


class Process:
    """A follower that is looked at from outside."""

    def __init__(self, folder: Path, server: Server, identity: str, *more: str) -> None:
        """Start it."""
        self.log, self.message = folder / f"{identity}.log", folder / f"{identity}.message"
        self.message.touch()
        kubeconfig = _kubeconfig(folder, server)
        self.process: subprocess.Popen[str] = start_logged(
            self.log, "controller", f"--kubeconfig={kubeconfig}", f"--lease-name={NAME}",
            f"--lease-namespace={NAMESPACE}", f"--identity={identity}", "--listen=127.0.0.1:0",
            f"--termination-log={self.message}", *more,
        )  # fmt: skip

    @property
    def said(self) -> str:
        """What it logged so far."""
        return self.log.read_text()

    def asked(self, path: str) -> int:
        """Ask it over HTTP; gives the status, 0 while nobody answers."""
        found = PORT.search(self.said)
        if found is None:
            return 0
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}{path}", timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def end(self) -> int:
        """Stop it and give its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return ended(self.process).code

    def kill(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    """Collect what is started, and end it."""
    started: list[Process] = []
    yield started
    for one in started:
        one.kill()


def _silent(line: str) -> Said | None:
    """Promise an answer to everything but the Lease, and give none."""
    return None if PATH in line else Said(200, b"", {**JSON, "content-length": "9"})


def test_a_signal_ends_it_while_requests_hang(tmp_path: Path, processes: list[Process]) -> None:
    """Within two seconds, give or take a busy machine; a request has a minute."""
    over = threading.Event()
    with keeping(over) as (kept, server):
        kept.instead = _silent
        processes.append(one := Process(tmp_path, server, "a"))
        until(lambda: kept.holder == "a" and server.count("clusterpolicies"), "it leads and reads")
        began = time.monotonic()
        assert one.end() == 128 + signal.SIGTERM
        assert time.monotonic() - began < 40
        assert json.loads(one.message.read_text())["reason"] == "Terminated"
        over.set()


def test_it_follows_while_there_is_nothing_to_protect(tmp_path: Path, processes: list[Process]) -> None:
    """It is ready, looks again, says what it found in its record, and never ends by itself."""
    with keeping() as (kept, server):
        processes.append(one := Process(tmp_path, server, "a"))
        until(lambda: kept.said(names.STATUS_ANNOTATION), "it has a record")
        record = ControllerStatus.decode(kept.said(names.STATUS_ANNOTATION))
        assert (record.spec_hashes, record.remaining, record.restarted, record.last_restart_at) == ({}, 0, 0, None)
        assert record.writer == kept.holder
        until(lambda: one.asked("/readyz") == 200, "it is ready")
        until(lambda: one.asked("/healthz") == 200, "it is alive")
        assert one.end() == 128 + signal.SIGTERM
        assert [line for line in server.asked if not line.startswith("GET") and PATH not in line] == []


def test_who_stands_by_takes_over(tmp_path: Path, processes: list[Process]) -> None:
    """It only asks for the Lease, is ready all the time, and goes on where the first one was told to stop."""
    with keeping() as (kept, server):
        processes.append(first := Process(tmp_path, server, "first"))
        until(lambda: kept.holder == "first", "the first one leads")
        processes.append(second := Process(tmp_path, server, "second"))
        until(lambda: second.asked("/readyz") == 200, "the second one is ready")
        assert kept.holder == "first"
        assert first.end() == 128 + signal.SIGTERM
        until(lambda: kept.holder == "second", "the second one leads")
        assert second.end() == 128 + signal.SIGTERM


def test_what_loses_its_lease_ends(tmp_path: Path, processes: list[Process]) -> None:
    """So that the kubelet starts it again, which stands by: it must not act beside who has the Lease now."""
    with keeping() as (kept, server):
        processes.append(one := Process(tmp_path, server, "a"))
        until(lambda: kept.said(names.STATUS_ANNOTATION), "it has a record")
        kept.change({"spec": {"holderIdentity": "b", "renewTime": "2099-01-01T00:00:00.000000Z"}})
        assert ended(one.process).code == 1
        assert kept.holder == "b"
        assert json.loads(one.message.read_text())["reason"] == "LeaseLost"
        assert lost_its_lease(one.said), one.said


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(Said(), id="no-answer"),
        pytest.param(Said(500), id="errors"),
        pytest.param(Said(401, b"", JSON), id="credentials-gone"),
        pytest.param(Said(403, b'{"kind": "Status", "code": 403}'), id="permission-gone"),
    ],
)
def test_standing_by_outlives_what_may_pass(said: Said, tmp_path: Path, processes: list[Process]) -> None:
    """Whatever keeps it from the Lease: it lives, tries again, and leads once that has passed."""
    with keeping() as (kept, server):
        kept.instead = lambda _line: said
        processes.append(one := Process(tmp_path, server, "a"))
        until(lambda: server.count(PATH) > 2, "it has tried more than once")
        until(lambda: one.asked("/healthz") == 200, "it is alive")
        assert (one.process.poll(), one.asked("/readyz")) == (None, 503)
        kept.instead = lambda _line: None
        until(lambda: kept.holder == "a", "it leads")
        assert one.end() == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("said", "tries"),
    [
        pytest.param(Said(403, b'{"kind": "Status", "code": 403}'), 8, id="permission"),
        pytest.param(Said(503, b"", JSON), 3, id="server"),
    ],
)
def test_a_leader_outlives_what_it_cannot_read(
    said: Said, tries: int, tmp_path: Path, processes: list[Process]
) -> None:
    """It keeps its Lease, is not ready, and goes on once it may read again.

    A Job would have given up: at once, by this patience, and after 15 s, or six tries, without a permission.
    """
    with keeping() as (kept, server):
        kept.instead = lambda line: None if PATH in line else said
        processes.append(one := Process(tmp_path, server, "a"))
        until(lambda: server.count("clusterpolicies") >= tries, "it was refused again and again")
        until(lambda: one.asked("/healthz") == 200, "it is alive")
        assert (one.process.poll(), one.asked("/readyz")) == (None, 503)
        kept.instead = lambda _line: None
        until(lambda: one.asked("/readyz") == 200, "it is ready")
        assert one.end() == 128 + signal.SIGTERM


def test_an_answer_that_nobody_understands_ends_it(tmp_path: Path, processes: list[Process]) -> None:
    """Trying again would give the same: it says so, gives the Lease back, and is started anew."""
    with keeping() as (kept, server):
        kept.instead = lambda line: Said(400, b'{"kind": "Status", "code": 400}') if "clusterpolicies" in line else None
        processes.append(one := Process(tmp_path, server, "a"))
        assert ended(one.process).code == 1
        assert "clusterpolicies" in json.loads(one.message.read_text())["message"]


def test_a_taken_port_and_a_wrong_address(tmp_path: Path) -> None:
    """The one may be free for the next try, the other is a mistake."""
    with keeping() as (_kept, server):
        for listen, code in (("127.0.0.1", 2), (server.api.host.removeprefix("http://"), 1)):
            log = tmp_path / "log"
            kubeconfig = f"--kubeconfig={_kubeconfig(tmp_path, server)}"
            assert ended(start_logged(log, "controller", kubeconfig, f"--listen={listen}")).code == code
            assert listen in log.read_text()
        assert server.asked == []


def _kubeconfig(folder: Path, server: Server) -> Path:
    file = folder / "kubeconfig"
    cluster = {"name": "one", "cluster": {"server": server.api.host}}
    context = {"name": "one", "context": {"cluster": "one", "user": "me"}}
    user = {"name": "me", "user": {"token": "secret"}}
    config = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "one"}
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **config}))
    return file


def test_who_hears_nothing_about_the_lease_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster's certificate may have been replaced; a new process reads it."""
    monkeypatch.setattr(controller, "SILENT_SECONDS", 1.0)
    with keeping() as (kept, server):
        kept.instead = lambda _line: Said()
        one = Controller(server.api, FOLLOWING, Identity(ELECTION), _telemetry(server))
        with pytest.raises(UnreachableError):
            one.run()
        one.stop()


def test_what_was_told_is_written_before_the_lease_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has it next does not tell what this one did; without it nothing is written."""
    monkeypatch.setattr(events, "STOP_SECONDS", PATIENCE)
    with keeping() as (kept, server):

        def slow(line: str) -> Said | None:
            time.sleep(0.5 if "events" in line else 0)
            return None

        kept.instead = slow
        one = Controller(server.api, FOLLOWING, Identity(ELECTION), _telemetry(server))
        threading.Thread(target=_led, args=(one,), daemon=True).start()
        until(lambda: kept.said(names.STATUS_ANNOTATION), "it has a record")
        assert one._leading is not None
        for number in range(4):
            subject = ObjectReference("apps/v1", "DaemonSet", "dra", "plugin", "uid")
            one._leading._reporter._progress.recorder.event(subject, "Restarted", "note", about=str(number))
        one.stop()
        assert server.count("POST /api/v1/namespaces/dra/events") == 4
        until(lambda: kept.holder == "", "the Lease is given back")


def _led(one: Controller) -> None:
    """Follow until the Lease is given back."""
    with contextlib.suppress(LeaseLostError):
        one.run()


def _telemetry(server: Server) -> Telemetry:
    return Telemetry(server.api.counters)


def test_leases_are_kept_as_an_api_server_keeps_them() -> None:
    """What these tests stand on: a patch that names an old version changes nothing."""
    kept = Leases()
    assert kept.wrote(f"POST {PATH}", b'{"kind": "Lease", "metadata": {"name": "post"}, "spec": {}}').status == 200
    stale = b'{"metadata": {"resourceVersion": "0"}, "spec": {"holderIdentity": "b"}}'
    assert (kept.wrote(f"PATCH {PATH}/{NAME}", stale).status, kept.holder) == (409, "")
    assert kept.wrote(f"PATCH {PATH}/{NAME}", stale.replace(b'"0"', b'"1"')).status == 200
    assert (kept.holder, kept.version) == ("b", 2)
