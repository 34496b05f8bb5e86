"""A small fleet, controllers as processes, and what happens while no deployment tool runs."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from devcluster.access import ApiError
from devcluster.boot.ports import free_ports
from tests.e2e.acts import PATIENCE
from tests.e2e.lab import NAMESPACE, NEW, RELEASE
from tests.e2e.resting import RestingLab
from tests.process.program import Logged, http

PREFIX: Final = "gpu_operator_post_"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
LEADS: Final = (200, "leader\n")
"""What a leader that has read the fleet answers to the kubelet's probe."""
LEASE: Final = "gpu-operator-post"
"""The default name of the controller's Lease."""
POLICY: Final = "cluster-policy"
STOPPED: Final = 143
LOST: Final = 1
"""The exit code of a controller that lost its Lease."""


@dataclass(frozen=True, slots=True)
class Controller(Logged):
    """The controller as a process."""

    identity: str
    port: int

    def assert_ends(self, code: int) -> None:
        """Stop it, and assert its exit code."""
        self.signal(signal.SIGTERM)
        assert self.ended().code == code, self.said

    def metric(self, name: str, **labels: str) -> float:
        """Scrape it, as Prometheus does. Return the sum of a metric's samples with these labels; none is nothing."""
        families = text_string_to_metric_families(self.asked("/metrics")[1])
        samples = (each for family in families for each in family.samples if each.name == PREFIX + name)
        return sum(each.value for each in samples if labels.items() <= each.labels.items())

    def asked(self, path: str) -> tuple[int, str]:
        """Ask it over HTTP; 0 is no answer."""
        return http(self.port, path)


class ControllerLab(RestingLab):
    """A fleet without deployment tools, and its controllers."""

    def __init__(self, *args: Any) -> None:  # noqa: ANN401 - as RestingLab has them
        super().__init__(*args)
        # Helm 4 applies on the server, which refuses to change what kubectl patched.
        self.helm = 3

    def rest(self, driver: str = NEW) -> None:
        """Come to rest by kubectl: Helm does not revert what was patched without it."""
        self.patch_driver(driver)
        self.until(lambda: self.rendered(driver), "the DaemonSet asks for the driver", PATIENCE)
        super().rest(driver)

    def start_controller(self, identity: str, *args: str, kubeconfig: Path | None = None) -> Controller:
        """Start a controller from a shell."""
        (port,) = free_ports(1)
        started = self.start(
            "controller", f"--identity={identity}", f"--release-namespace={NAMESPACE}",
            f"--listen=127.0.0.1:{port}", "controller.maxUnavailable=100%", *args, kubeconfig=kubeconfig,
        )  # fmt: skip
        return Controller(started.process, started.log, identity, port)

    def leading(self, *args: str) -> Controller:
        """Start a controller and wait until it leads."""
        controller = self.start_controller("one", *args)
        self.await_leader(controller)
        return controller

    def await_leader(self, controller: Controller, lease: str = LEASE) -> None:
        """Wait until a controller holds the Lease and is ready."""

        def leads() -> bool:
            assert not controller.over, controller.said
            # A standby is ready, too, and a replica may hold the Lease for a moment before it leads.
            return self.leader(lease).startswith(controller.identity) and controller.asked("/readyz") == LEADS

        self.until(leads, f"controller {controller.identity} leads", PATIENCE)

    def leader(self, lease: str = LEASE) -> str:
        """Return the holder of a Lease; empty if there is none."""
        with suppress(ApiError):
            return str(self.cluster.get(f"{LEASES}/{lease}")["spec"].get("holderIdentity") or "")
        return ""

    def end_leftovers(self) -> None:
        """End the controllers, too, uninstall the chart, and delete Leases."""
        super().end_leftovers()
        self.cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--ignore-not-found")
        component = "app.kubernetes.io/component=controller"
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        self.until(lambda: self.cluster.list(pods, labelSelector=component) == [], "no controller is left", PATIENCE)
        for lease in self.cluster.list(LEASES, labelSelector="app.kubernetes.io/name=gpu-operator-post"):
            self.cluster.delete(f"{LEASES}/{lease['metadata']['name']}")

    def status(self) -> dict[str, Any]:
        """Ask `status` from a shell."""
        done = self.run("status", "-o", "json")
        assert done.code == 0, done.said
        shown: dict[str, Any] = json.loads(done.out)
        return shown

    # What happens to the fleet.

    def patch_driver(self, version: str) -> None:
        """Ask for a driver as the operator's documentation says, without Helm."""
        spec = {"spec": {"driver": {"version": version}}}
        self.cluster.kubectl("patch", "clusterpolicy", POLICY, "--type=merge", "-p", json.dumps(spec))

    def crash(self) -> None:
        """Let all drivers restart in place, and return at once."""
        moment = f"{time.time():.3f}"
        for node in self.nodes:
            self.annotate(node, "restart-driver-container", moment)

    # What is true.

    def await_refreshed(self, version: str) -> None:
        """Wait until all nodes run a driver of this version with a plugin that started on it."""

        def refreshed() -> bool:
            return self.serving_on() == set(self.nodes) and set(self.truth.loaded_now().values()) == {version}

        self.until(refreshed, f"all are refreshed on {version}", PATIENCE)

    def most_down(self) -> int:
        """Return the most plugins that were down at one moment since the scenario began, whatever took them down.

        A plugin is down from when its kubelet saw its deletion until its successor passed its probes. The API knows of
        the first sooner and of the second later, so that a bound that is kept by the API's word is kept here, however
        busy the machine is.
        """
        spells = (spell for node in self.nodes for spell in self.truth.lane(node).restarts)
        ends = [(start, end) for start, end in spells if start >= self.began and end is not None]
        moments = sorted([(start, 1) for start, _ in ends] + [(end, -1) for _, end in ends])
        return max(_sums(change for _, change in moments), default=0)


def _sums(changes: Iterator[int]) -> Iterator[int]:
    total = 0
    for change in changes:
        total += change
        yield total
