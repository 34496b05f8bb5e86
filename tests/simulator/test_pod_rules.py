"""The pod runner's rules that need no cluster: images, references, phases, conditions, token times."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from devcluster.podrunner import environment, images, ports, probes, status

if TYPE_CHECKING:
    from devcluster.client import Object

START = datetime(2026, 1, 1, 12, 0, 0, 700000, UTC)


@pytest.mark.parametrize(
    ("image", "module"),
    [
        pytest.param("registry.example:5000/team/gpu-operator-post:1.2", "hook", id="ours"),
        pytest.param("example.invalid/gpu-operator-post@sha256:00", "hook", id="digest"),
        pytest.param("nvcr.example/nvidia/gpu-operator:v26.3.3", "devcluster.operator", id="operator"),
        pytest.param("nvcr.example/nvidia/network-operator:v26.1.1", "devcluster.networkoperator", id="network"),
    ],
)
def test_image_stands_for_a_program(image: str, module: str) -> None:
    """Only the last part of the repository counts: registries, tags and digests may change."""
    assert images.entry_point({"image": image}, images.IMAGES) == [sys.executable, "-m", module]


@pytest.mark.parametrize("image", ["busybox", "example.invalid/gpu-operator-post-tools:1", "gpu-operator/tools"])
def test_any_other_image_is_unknown(image: str) -> None:
    """A similar name is another image."""
    with pytest.raises(images.UnknownImageError):
        images.entry_point({"image": image}, images.IMAGES)


def test_command_may_only_name_the_entry_point_itself() -> None:
    """A container that wants a shell does not get the image's program instead."""
    image = {"image": "x/gpu-operator:1"}
    spelled = {**image, "command": ["/usr/bin/gpu-operator", "--leader-elect"]}
    assert images.entry_point(spelled, images.IMAGES)[1:] == ["-m", "devcluster.operator", "--leader-elect"]
    with pytest.raises(images.UnsupportedCommandError):
        images.entry_point({**image, "command": ["sh", "-c", "true"]}, images.IMAGES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--name=$(NAME)", "--name=post"),
        ("$$(NAME)", "$(NAME)"),
        ("$(MISSING) $NAME", "$(MISSING) $NAME"),
        ("$(NAME)$(NAME)", "postpost"),
    ],
)
def test_references_expand_as_in_kubernetes(text: str, expected: str) -> None:
    """Known names are replaced, escaped and unknown ones are not."""
    assert environment.expand(text, {"NAME": "post"}) == expected


def test_fields_of_the_pod() -> None:
    """The downward API's names; one that we cannot give is an error and not an empty string."""
    pod = {"metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "post"}}, "spec": {"nodeName": "n"}}
    names = ("metadata.name", "spec.nodeName", "metadata.labels['app.kubernetes.io/name']", "status.podIP")
    assert [environment.field(pod, name) for name in names] == ["a", "n", "post", "127.0.0.1"]
    with pytest.raises(environment.ConfigError):
        environment.field(pod, "status.qosClass")


def container(now: Object, *, over: bool = False, restarts: int = 0) -> status.ContainerState:
    """Describe a container."""
    return status.ContainerState("main", "image", now, restarts=restarts, ended_for_good=over)


WAITING = status.waiting("ContainerCreating")
RUNNING = status.running(START)
GOOD = status.terminated(0, START, START, "")
BAD = status.terminated(-9, START, START, "")


@pytest.mark.parametrize(
    ("init", "main", "expected"),
    [
        pytest.param([], [container(WAITING)], "Pending", id="creating"),
        pytest.param([container(RUNNING)], [container(WAITING)], "Pending", id="initializing"),
        pytest.param([container(GOOD, over=True)], [container(RUNNING)], "Running", id="running"),
        pytest.param([container(BAD, over=True)], [container(WAITING)], "Failed", id="init-failed"),
        pytest.param([], [container(GOOD, over=True)], "Succeeded", id="succeeded"),
        pytest.param([], [container(BAD, over=True)], "Failed", id="failed"),
        pytest.param([], [container(BAD)], "Running", id="failed-but-to-be-restarted"),
        pytest.param([], [container(WAITING, restarts=1)], "Running", id="backing-off"),
        pytest.param([], [container(GOOD, over=True), container(RUNNING)], "Running", id="one-of-two"),
    ],
)
def test_phase(init: list[status.ContainerState], main: list[status.ContainerState], expected: str) -> None:
    """The phase follows the containers by a kubelet's rules."""
    assert status.phase(init, main) == expected


def test_signals_are_reported_as_exit_codes() -> None:
    """128 + the signal's number, times in whole seconds, an empty message left out."""
    expected = {
        "exitCode": 137,
        "reason": "Error",
        "startedAt": "2026-01-01T12:00:00Z",
        "finishedAt": "2026-01-01T12:00:00Z",
    }
    assert expected == BAD["terminated"]


def test_condition_keeps_its_time_until_it_changes() -> None:
    """A transition time moves with the status, never with a mere rewrite."""
    conditions = status.Conditions()
    main = container(RUNNING)
    (before,) = (each for each in conditions.update([], [main]) if each["type"] == "Ready")
    old = dict(before, lastTransitionTime="2000-01-01T00:00:00Z")
    conditions._known["Ready"] = old
    assert old in [*conditions.update([], [main])]
    main.now = GOOD
    (after,) = (each for each in conditions.update([], [main]) if each["type"] == "Ready")
    assert after["lastTransitionTime"] > old["lastTransitionTime"]
    assert after["status"] == "False"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("--listen=:8080", "--listen=127.0.0.1:20001", id="flag"),
        pytest.param(":8080", "127.0.0.1:20001", id="alone"),
        pytest.param("--listen=0.0.0.0:8080", "--listen=127.0.0.1:20001", id="spelled-out"),
        pytest.param("--listen=[::]:8080", "--listen=127.0.0.1:20001", id="in-ipv6"),
        pytest.param("--listen=:9090", "--listen=:9090", id="not-declared"),
        pytest.param("--server=http://db:8080", "--server=http://db:8080", id="somebody-elses"),
        pytest.param("--image=registry:8080", "--image=registry:8080", id="a-host"),
    ],
)
def test_an_address_of_the_pod_becomes_one_of_the_machine(text: str, expected: str) -> None:
    """Only where it is all addresses, and a port that the container declares."""
    assert ports.addressed(text, {8080: 20001}) == expected


def test_ports_differ() -> None:
    """Containers that start together do not get the same one, though nobody listens yet."""
    given = ports.Ports()
    web_container = {"ports": [{"name": "web", "containerPort": 80}, {"containerPort": 81}]}
    found = [port for _ in range(10) for port in given.give(web_container).values()]
    assert len(found) == len(set(found)) == 20
    assert [ports.number(web_container, port) for port in ("web", 80, 81)] == [80, 80, 81]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([503, 503, 503], [False], id="the-third-in-a-row"),
        pytest.param([200, 200, 503, 503, 200, 503, 503, 503], [True, False], id="only-in-a-row"),
        pytest.param([399, 204, 400, 404, 500], [True, False], id="statuses"),
    ],
)
def test_a_probes_verdict_needs_answers_in_a_row(answers: list[int], expected: list[bool]) -> None:
    """As many as its thresholds say: here two that are good, or three that are not."""
    assert asyncio.run(verdicts(answers, len(expected))) == expected


async def verdicts(answers: list[int], wanted: int) -> list[bool]:
    """Probe a server that gives these answers one after the other."""
    left = iter(answers)

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=next(left))

    application = web.Application()
    application.router.add_get("/live", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    probe = {"httpGet": {"path": "/live", "port": "web"}, "periodSeconds": 0, "successThreshold": 2}
    container = {"name": "main", "ports": [{"name": "web", "containerPort": 8080}], "livenessProbe": probe}
    found = probes.Probes.of(container, {8080: runner.addresses[0][1]}).liveness
    assert found is not None
    heard = []
    async with aiohttp.ClientSession() as session:
        async for verdict in found.verdicts(session):
            heard.append(verdict)
            if len(heard) == wanted:
                break
    await runner.cleanup()
    assert next(left, None) is None
    return heard


@pytest.mark.parametrize(
    "probe", [{"exec": {"command": ["true"]}}, {"httpGet": {"port": "nobodys"}}], ids=["not-http", "unknown-port"]
)
def test_a_probe_that_cannot_be_made_is_refused(probe: Object) -> None:
    """Rather than taken for one that passes."""
    with pytest.raises(probes.UnsupportedProbeError):
        probes.Probes.of({"name": "main", "readinessProbe": probe}, {})


def test_readiness_and_the_start_are_shown() -> None:
    """A container that runs is ready only when its probes have said so; one without any is at once."""
    probed = container(WAITING)
    probed.run(START, started=False, ready=False)
    seen = []
    for started, ready in ((False, True), (True, False), (True, True)):
        probed.started, probed.ready = started, ready
        shown = probed.status(init=False)
        seen.append((shown["started"], shown["ready"]))
    assert seen == [(False, False), (True, False), (True, True)]
    probed.ready = False
    (condition,) = (each for each in status.Conditions().update([], [probed]) if each["type"] == "Ready")
    assert (condition["status"], condition["reason"]) == ("False", "ContainersNotReady")
