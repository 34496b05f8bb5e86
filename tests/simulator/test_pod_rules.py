"""The pod runner's rules that need no cluster: images, addresses, phases, probes."""

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


def test_an_image_stands_for_a_program() -> None:
    """Only the last part of the repository counts; a container that wants a shell does not get the program instead."""
    for image, module in (
        ("registry.example:5000/team/gpu-operator-post:1.2", "hook"),
        ("example.invalid/gpu-operator-post@sha256:00", "hook"),
        ("nvcr.example/nvidia/gpu-operator:v26.3.3", "devcluster.operator"),
        ("nvcr.example/nvidia/network-operator:v26.1.1", "devcluster.networkoperator"),
    ):
        assert images.entry_point({"image": image}, images.IMAGES) == [sys.executable, "-m", module], image
    for image in ("busybox", "example.invalid/gpu-operator-post-tools:1", "gpu-operator/tools"):
        with pytest.raises(images.UnknownImageError):
            images.entry_point({"image": image}, images.IMAGES)
    operator = {"image": "x/gpu-operator:1"}
    spelled = {**operator, "command": ["/usr/bin/gpu-operator", "--leader-elect"]}
    assert images.entry_point(spelled, images.IMAGES)[1:] == ["-m", "devcluster.operator", "--leader-elect"]
    with pytest.raises(images.UnsupportedCommandError):
        images.entry_point({**operator, "command": ["sh", "-c", "true"]}, images.IMAGES)


def test_an_unknown_field_of_the_pod_is_an_error() -> None:
    """And not an empty string."""
    assert environment.field({"metadata": {"labels": {"a/b": "c"}}}, "metadata.labels['a/b']") == "c"
    assert environment.field({}, "status.podIP") == "127.0.0.1"
    with pytest.raises(environment.ConfigError):
        environment.field({}, "status.qosClass")


def container(now: Object, *, over: bool = False, restarts: int = 0) -> status.ContainerState:
    """Describe a container."""
    return status.ContainerState("main", "image", now, restarts=restarts, ended_for_good=over)


def test_the_phase_follows_the_containers() -> None:
    """By a kubelet's rules."""
    waiting, running = status.waiting("ContainerCreating"), status.running(START)
    good, bad = (status.terminated(code, START, START, "") for code in (0, -9))
    for name, init, main, expected in (
        ("creating", [], [container(waiting)], "Pending"),
        ("initializing", [container(running)], [container(waiting)], "Pending"),
        ("running", [container(good, over=True)], [container(running)], "Running"),
        ("init failed", [container(bad, over=True)], [container(waiting)], "Failed"),
        ("succeeded", [], [container(good, over=True)], "Succeeded"),
        ("failed", [], [container(bad, over=True)], "Failed"),
        ("failed, to be restarted", [], [container(bad)], "Running"),
        ("backing off", [], [container(waiting, restarts=1)], "Running"),
        ("one of two", [], [container(good, over=True), container(running)], "Running"),
    ):
        assert status.phase(init, main) == expected, name


def test_an_address_of_the_pod_becomes_one_of_the_machine() -> None:
    """Only where it means all addresses, and a port that the container declares; no two containers get the same."""
    for text, expected in (
        ("--listen=:8080", "--listen=127.0.0.1:20001"),
        (":8080", "127.0.0.1:20001"),
        ("--listen=0.0.0.0:8080", "--listen=127.0.0.1:20001"),
        ("--listen=[::]:8080", "--listen=127.0.0.1:20001"),
        ("--listen=:9090", "--listen=:9090"),
        ("--server=http://db:8080", "--server=http://db:8080"),
        ("--image=registry:8080", "--image=registry:8080"),
    ):
        assert ports.addressed(text, {8080: 20001}) == expected, text
    given = ports.Ports()
    web_container = {"ports": [{"name": "web", "containerPort": 80}, {"containerPort": 81}]}
    found = [port for _ in range(10) for port in given.give(web_container).values()]
    assert len(found) == len(set(found)) == 20
    assert [ports.number(web_container, port) for port in ("web", 80, 81)] == [80, 80, 81]


def test_a_probe_changes_its_result_after_answers_in_a_row() -> None:
    """As many as its thresholds say: here two that are good, or three that are not; others are refused."""
    for answers, expected in (
        ([503, 503, 503], [False]),
        ([200, 200, 503, 503, 200, 503, 503, 503], [True, False]),
        ([399, 204, 400, 404, 500], [True, False]),
    ):
        assert asyncio.run(results(answers, len(expected))) == (expected, 0), answers
    for probe in ({"exec": {"command": ["true"]}}, {"httpGet": {"port": "unknown"}}):
        with pytest.raises(probes.UnsupportedProbeError):
            probes.Probes.of({"name": "main", "readinessProbe": probe}, {})


async def results(answers: list[int], wanted: int) -> tuple[list[bool], int]:
    """Probe a server that gives these answers one after the other; return also how many were not asked for."""
    left = list(answers)

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=left.pop(0))

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
    return heard, len(left)
