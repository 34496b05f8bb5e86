"""Gates on the status object, with the files of examples/gates and the real tools.

A gate opens when the fleet is done with a driver version: not before, and not on a failure. Nothing waits for
itself: Helm waits for all objects, Flux for the hook, and Argo CD has the health script, each in our own release.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from devcluster import commands
from devcluster.boot.layout import CHECKOUT
from devcluster.build import binaries
from devcluster.deployers import argocd as argo
from devcluster.deployers import flux as fluxcd
from devcluster.deployers.argocd import APPLICATIONS, ArgoCd
from devcluster.deployers.flux import HELM_RELEASES, KUSTOMIZATIONS, Flux
from devcluster.deployers.outcome import Object, apply
from devcluster.deployers.sources import ChartSources
from tests.deployers.bench import BROKEN, NODES, QUICK_JOB, SOON, Bench, booted
from tests.e2e.lab import ALL_AT_ONCE, CHART, NAMESPACE, NEW, OLD, RELEASE
from tests.promises import promised

EXAMPLES: Final = CHECKOUT / "examples"
GATES: Final = EXAMPLES / "gates"
WRITTEN: Final = "580.126.20"
"""The driver version in the examples."""
STATUS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{RELEASE}-status"
NEXT: Final = "580.142.10"
ONLY_CONTROLLER: Final[Object] = {"controller": {"enabled": True}, "job": {"enabled": False}}
RETRIES: Final = 1
"""Argo CD retries a failed automated sync five times by default, each with a whole run of the hook."""
HURRY: Final = ("advanced.operatorQuiet=3s", "advanced.unknownOperatorQuiet=5s", "timeout=60s")
GATE, WORKLOADS, PARENT = "gpu-operator-post-gate", "workloads", "gpu-stack"


class Platform(Bench):
    """A fleet on the old driver, and what a platform team sees of it."""

    def data(self) -> dict[str, str]:
        """Return what the status object says."""
        found: dict[str, str] = self.cluster.get(STATUS)["data"]
        return found

    def upgrade(self, driver: str, *, broken: bool = False) -> None:
        """Upgrade the operator alone; one driver gets ready only if it is not broken."""
        self.annotate(BROKEN, "driver-fault", "unready" if broken else None)
        self.operator(driver=driver, **ALL_AT_ONCE)

    def repair(self) -> None:
        """Let the broken driver get ready."""
        self.annotate(BROKEN, "driver-fault", None)

    def await_run(self, driver: str) -> None:
        """Wait until the status object shows that the fleet is on its way to a driver."""
        wanted = {"driverVersion": driver, "phase": "Progressing"}.items()
        self.until(lambda: wanted <= self.data().items(), f"the upgrade to {driver} is under way", 120)

    def assert_done(self, driver: str) -> None:
        """Assert that no plugin is stale and that all have a driver, at the moment when a gate has opened."""
        with promised():
            assert self.truth.stale_now() == ()
            assert set(self.truth.loaded_now().values()) == {driver}

    # Gates of a pipeline.

    def gates(self, driver: str, seconds: int = 2) -> list[bool]:
        """Return whether the gates of kubectl and of Chainsaw open within some time."""
        file = self.cluster.state / "chainsaw-assert.yaml"
        file.write_text((GATES / file.name).read_text().replace(WRITTEN, driver))
        kubectl, chainsaw = binaries.ensure(["kubectl", "chainsaw"]).values()
        environment = commands.environment(self.cluster.files)
        environment["PATH"] = f"{kubectl.parent}{os.pathsep}{environment.get('PATH', os.defpath)}"
        asserted = [str(chainsaw), "assert", f"--file={file}", f"--timeout={seconds}s"]
        return [
            subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0
            for command in ([str(GATES / "kubectl.sh"), driver, f"{seconds}s"], asserted)
        ]


@contextmanager
def platform(folders: pytest.TempPathFactory, name: str) -> Iterator[Platform]:
    """Run a cluster whose fleet has the old driver."""
    with booted(folders, f"test_gates-{name}") as cluster:
        lab = Platform(cluster)
        lab.fleet(nodes=len(NODES), **ALL_AT_ONCE)
        yield lab


def test_gates_of_a_pipeline(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Open the gates of kubectl and Chainsaw, next to a Helm that waits for all objects of the release."""
    with platform(tmp_path_factory, "pipeline") as lab:
        waits = ("--wait", "--wait-for-jobs")
        assert lab.post(helm=waits).code == 0
        assert lab.gates(OLD, 30) == [True, True]

        # An upgrade of the operator alone, without `expect` and `trigger`: the last success is of the old driver.
        lab.upgrade(NEW, broken=True)
        assert lab.gates(NEW) == [False, False]
        hook = lab.start_post(helm=waits)
        lab.await_run(NEW)
        assert lab.gates(NEW) == [False, False]
        lab.repair()
        assert lab.gates(NEW, 120) == [True, True]
        lab.assert_done(NEW)
        assert lab.deployed(hook).code == 0

        # A failure, and the same release again.
        lab.upgrade(OLD, broken=True)
        assert lab.post(args=HURRY, helm=waits, trigger=OLD).code != 0
        assert lab.data()["phase"] == "TimedOut"
        assert lab.gates(OLD) == [False, False]
        lab.repair()
        assert lab.post(args=HURRY, helm=waits, trigger=OLD).code == 0
        assert lab.gates(OLD, 30) == [True, True]

        # A plain Job.
        assert lab.post(helm=waits, hook__enabled=False).code == 0
        assert lab.gates(OLD, 30) == [True, True]

        # A controller without the Job.
        only: dict[str, Any] = {"controller__enabled": True, "job__enabled": False}
        assert lab.post(helm=("--wait",), **only).code == 0
        lab.upgrade(NEW, broken=True)
        assert lab.gates(NEW) == [False, False]
        lab.repair()
        assert lab.gates(NEW, 120) == [True, True]
        assert lab.gates(OLD) == [False, False]
        lab.assert_done(NEW)


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])


def _chart(folder: Path) -> Path:
    """Write a chart of one ConfigMap."""
    (folder / "templates").mkdir(parents=True)
    chart = {"apiVersion": "v2", "name": folder.name, "version": "0.1.0"}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(chart))
    (folder / "values.yaml").write_text("{}\n")
    (folder / "templates" / "configmap.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: workloads}\ndata: {driver: {{ .Values.driver }}}\n"
    )
    return folder


class ByFlux:
    """Our HelmRelease, a later one, and a later Kustomization behind a gate, as in the examples."""

    def __init__(self, lab: Platform) -> None:
        self.lab, self.flux = lab, Flux(lab.cluster)
        self._sources = ChartSources(lab.cluster)
        for chart in (CHECKOUT / CHART, _chart(lab.cluster.state / WORKLOADS)):
            self._sources.publish(chart)
        charts = {"interval": "10m", "url": self._sources.repository}
        self._charts = _object("source.toolkit.fluxcd.io/v1", "HelmRepository", "charts", charts)
        clusters = {"interval": "10m", "insecure": True, "url": self._pushed(), "ref": {"tag": "v1"}}
        self._clusters = _object("source.toolkit.fluxcd.io/v1", "OCIRepository", "clusters", clusters)

    def _pushed(self) -> str:
        """Push an artifact with the folders of both Kustomizations; return its address."""
        folder = self.lab.cluster.state / "clusters"
        layer = self.lab.cluster.state / "clusters.tar.gz"
        for name in ("gate", WORKLOADS):
            (folder / name).mkdir(parents=True)
            manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
            (folder / name / "configmap.yaml").write_text(yaml.safe_dump(manifest))
        with tarfile.open(layer, "w:gz") as archive:
            archive.add(folder, ".")
        address = self._sources.registry.removeprefix("oci://").replace("/charts", "/clusters")
        crane = binaries.ensure(["crane"])["crane"]
        words = [str(crane), "append", "--insecure", f"--new_layer={layer}", f"--new_tag={address}:v1"]
        subprocess.run(words, check=True, capture_output=True)
        return f"oci://{address}"

    def commit(self, driver: str, post: dict[str, Any]) -> None:
        """Commit all for a driver version."""
        values = {**QUICK_JOB, "expect": {"driverVersion": driver}, **post}
        ours = _helm_release(RELEASE, NAMESPACE, values)
        later = _helm_release(WORKLOADS, "default", {"driver": driver})
        dependent = yaml.safe_load((GATES / "flux-helmrelease.yaml").read_text().replace(WRITTEN, driver))
        later["spec"] |= dependent["spec"]
        apply(self.flux.cluster, [self._charts, self._clusters, self.gate(driver), _kustomization(), ours, later])

    def gate(self, driver: str) -> Object:
        """Return the Kustomization that waits."""
        gate: Object = yaml.safe_load((GATES / "flux-kustomization.yaml").read_text().replace(WRITTEN, driver))
        gate["spec"] |= {"retryInterval": "2s", "timeout": "5s"}
        return gate

    def open(self) -> dict[str, bool]:
        """Return what is Ready, as it was committed last."""
        paths = {RELEASE: HELM_RELEASES, WORKLOADS: HELM_RELEASES, GATE: KUSTOMIZATIONS}
        return {name: _ready(self.lab.cluster.get(f"{path}/{name}")) for name, path in paths.items()}

    def await_open(self) -> None:
        """Wait until all is Ready."""
        self.lab.until(lambda: all(self.open().values()), "all is Ready", 180)


def _object(version: str, kind: str, name: str, spec: Object) -> Object:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": fluxcd.NAMESPACE},
        "spec": spec,
    }


def _helm_release(name: str, namespace: str, values: Object) -> Object:
    """Return a HelmRelease of a chart of its name. Flux waits for its objects."""
    chart = {"chart": name, "interval": "10m", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}
    spec = {
        "interval": "10m",
        "releaseName": name,
        "targetNamespace": namespace,
        "timeout": "5m",
        "values": values,
        "chart": {"spec": chart},
    }
    return _object("helm.toolkit.fluxcd.io/v2", "HelmRelease", name, spec)


def _kustomization() -> Object:
    """Return the Kustomization behind the gate."""
    spec = {
        "interval": "10m",
        "path": f"./{WORKLOADS}",
        "prune": True,
        "dependsOn": [{"name": GATE}],
        "sourceRef": {"kind": "OCIRepository", "name": "clusters"},
    }
    return _object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", WORKLOADS, spec)


def _ready(found: Object) -> bool:
    status, generation = found.get("status", {}), found["metadata"]["generation"]
    ready = [each for each in status.get("conditions", []) if each["type"] == "Ready"]
    return status.get("observedGeneration") == generation and [each["status"] for each in ready] == ["True"]


@pytest.mark.nightly
def test_gates_of_flux(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A HelmRelease with `readyExpr` waits for the hook, a Kustomization with `healthCheckExprs` for all of it."""
    with platform(tmp_path_factory, "flux") as lab:
        flux, closed = ByFlux(lab), {RELEASE: False, WORKLOADS: False, GATE: False}
        flux.commit(OLD, {})
        flux.await_open()

        # An upgrade: all wait for the hook.
        lab.upgrade(NEW, broken=True)
        flux.commit(NEW, {})
        lab.await_run(NEW)
        assert flux.open() == closed
        lab.repair()
        flux.await_open()
        lab.assert_done(NEW)

        _follow_the_controller(lab, flux, closed)

        # A failure, and the same release again.
        lab.upgrade(NEXT, broken=True)
        flux.commit(NEXT, SOON)
        assert not flux.flux.settled(RELEASE).succeeded
        assert flux.open() == closed
        lab.repair()
        flux.flux.request(RELEASE, "forceAt")
        flux.await_open()
        lab.assert_done(NEXT)


def _follow_the_controller(lab: Platform, flux: ByFlux, closed: dict[str, bool]) -> None:
    """Upgrade without a hook, with a change of our release and without one."""
    # Without a hook, the HelmReleases are Ready at once. Only the Kustomization waits for the controller.
    lab.upgrade(OLD, broken=True)
    flux.commit(OLD, ONLY_CONTROLLER)
    lab.until(lambda: flux.open() == {**closed, RELEASE: True, WORKLOADS: True}, "the HelmReleases are Ready", 180)
    lab.repair()
    flux.await_open()
    lab.assert_done(OLD)

    # The next one changes nothing in our release. Only the gate of the Kustomization knows the version.
    lab.upgrade(NEW, broken=True)
    apply(flux.flux.cluster, [flux.gate(NEW)])
    lab.until(lambda: lab.data()["driverVersion"] == NEW, "the controller has seen the upgrade")
    assert not flux.open()[GATE]
    lab.repair()
    lab.until(lambda: flux.open()[GATE], "the gate is open", 120)
    lab.assert_done(NEW)


class ByArgoCd:
    """A parent whose first wave is ours, and whose second wave is a later Application; both health scripts."""

    def __init__(self, lab: Platform) -> None:
        self.lab, self.argocd = lab, ArgoCd(lab.cluster)
        for folder in (EXAMPLES / "argocd", GATES):
            patch = ("patch", "configmap", "argocd-cm", "-n", argo.NAMESPACE, "--type=merge")
            lab.cluster.kubectl(*patch, f"--patch-file={folder / 'argocd-cm.patch.yaml'}")
        self._git = self.argocd.repository
        subprocess.run(["cp", "-r", str(CHECKOUT / CHART), str(self._git.folder / "ours")], check=True)
        for name in (WORKLOADS, "apps"):
            (self._git.folder / name).mkdir()
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": WORKLOADS}}
        (self._git.folder / WORKLOADS / "configmap.json").write_text(json.dumps(manifest))

    def commit(self, driver: str, post: dict[str, Any]) -> None:
        """Commit all for a driver version, and have the parent synced."""
        values = {**QUICK_JOB, "expect": {"driverVersion": driver}, **post}
        sources: dict[str, Object] = {
            RELEASE: {"path": "ours", "helm": {"valuesObject": values}},
            WORKLOADS: {"path": WORKLOADS},
        }
        for wave, (name, source) in enumerate(sources.items()):
            made = self._application(name, source)
            made["metadata"]["annotations"] = {
                "argocd.argoproj.io/sync-wave": str(wave),
                "gpu-operator-post/through-by": "operation-and-health",
                "driver": driver,
            }
            (self._git.folder / "apps" / f"{name}.json").write_text(json.dumps(made))
        self._git.commit(driver)
        parent = self._application(PARENT, {"path": "apps"})
        parent["spec"]["destination"]["namespace"] = argo.NAMESPACE
        apply(self.argocd.cluster, [parent])
        self.argocd.refresh(PARENT)

    def _application(self, name: str, source: Object) -> Object:
        return {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": name, "namespace": argo.NAMESPACE},
            "spec": {
                "project": "default",
                "source": {"repoURL": self._git.url, "targetRevision": "main", **source},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": NAMESPACE},
                "syncPolicy": {
                    "automated": {"prune": True, "selfHeal": True},
                    "syncOptions": ["CreateNamespace=true"],
                    "retry": {"limit": RETRIES, "backoff": {"duration": "2s"}},
                },
            },
        }

    def reached(self) -> str:
        """Return the driver version with which the second wave was applied last."""
        found = self.lab.cluster.list(APPLICATIONS)
        return next((each["metadata"]["annotations"]["driver"] for each in found if _name(each) == WORKLOADS), "")

    def await_reached(self, driver: str) -> None:
        """Wait until the second wave is applied."""
        self.lab.until(lambda: self.reached() == driver, f"the second wave is applied for {driver}", 240)

    def state(self, name: str) -> tuple[str, str]:
        """Return the phase of an Application's last operation, and its health."""
        status = self.argocd.application(name).get("status", {})
        return status.get("operationState", {}).get("phase", ""), status.get("health", {}).get("status", "")


@pytest.mark.nightly
def test_gates_of_argo_cd(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Sync waves of a parent, with the health of the status object in our own Application."""
    with platform(tmp_path_factory, "argocd") as lab:
        argocd = ByArgoCd(lab)
        argocd.commit(OLD, {})
        argocd.await_reached(OLD)
        lab.until(lambda: argocd.state(WORKLOADS) == ("Succeeded", "Healthy"), "ConfigMaps of others are healthy")

        lab.upgrade(NEW, broken=True)
        argocd.commit(NEW, {})
        lab.await_run(NEW)
        assert argocd.reached() == OLD
        lab.repair()
        argocd.await_reached(NEW)
        lab.assert_done(NEW)

        # A failure. The automatic retry is not held up by what the first try left.
        lab.upgrade(OLD, broken=True)
        runs = len(lab.runs())
        argocd.commit(OLD, SOON)
        lab.until(lambda: argocd.state(PARENT)[0] == "Failed", "the parent has failed", 240)
        assert len(lab.runs()) - runs == 1 + RETRIES
        assert lab.data()["phase"] == "TimedOut"
        assert argocd.reached() == NEW

        # Nor is the next sync, by what a run leaves that was killed.
        lab.cluster.patch(STATUS, {"data": {"phase": "Progressing"}})
        lab.repair()
        before = argocd.argocd.began(RELEASE)
        argocd.argocd.sync(RELEASE)
        assert argocd.argocd.synced_again(RELEASE, since=before).succeeded
        argocd.argocd.sync(PARENT)
        argocd.await_reached(OLD)
        lab.assert_done(OLD)

        _follow_the_controller_alone(lab, argocd)


def _follow_the_controller_alone(lab: Platform, argocd: ByArgoCd) -> None:
    """Let our Application follow the fleet. It does not wait for itself."""
    written = lab.data()["updatedAt"]
    argocd.commit(OLD, ONLY_CONTROLLER)
    lab.until(lambda: lab.data()["updatedAt"] > written, "the controller writes", 120)
    lab.until(lambda: argocd.state(RELEASE) == ("Succeeded", "Healthy"), "the fleet is well", 120)
    lab.upgrade(NEW, broken=True)
    lab.await_run(NEW)
    argocd.commit(NEW, ONLY_CONTROLLER)
    lab.until(lambda: argocd.state(RELEASE) == ("Succeeded", "Progressing"), "only the health is missing", 120)
    assert argocd.reached() == OLD
    lab.repair()
    argocd.await_reached(NEW)
    lab.assert_done(NEW)
    lab.until(lambda: argocd.state(RELEASE)[1] == "Healthy", "our Application is healthy")
    lab.cluster.patch(STATUS, {"data": {"phase": "Failed"}})
    lab.until(lambda: argocd.state(RELEASE)[1] == "Degraded", "a failure of the controller shows")
    lab.until(lambda: argocd.state(RELEASE)[1] == "Healthy", "what the controller writes next shows")
