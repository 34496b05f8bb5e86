"""Bundles, as `gpu-operator-post-bundler bundle` writes them, and how each deployment tool deploys such a folder."""

from __future__ import annotations

import json
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from devcluster import commands
from devcluster.boot.cluster import Cluster
from devcluster.boot.layout import CHECKOUT
from devcluster.deployers import helmfile
from devcluster.deployers.argocd import NAMESPACE as NAMESPACE_OF_ARGO_CD
from devcluster.deployers.argocd import ArgoCd
from devcluster.deployers.flux import Flux
from devcluster.deployers.outcome import Outcome
from devcluster.deployers.sources import ChartSources
from tests.bundler.kit import KIT, asserted, component_ref
from tests.bundler.program import run
from tests.deployers.bench import QUICK_JOB
from tests.e2e.lab import ALL_AT_ONCE, CHART, NAMESPACE, OPERATOR, PLUGIN, PLUGIN_NAMESPACE, RELEASE

OPERATOR_RELEASE: Final = "gpu-operator"
PLUGIN_RELEASE: Final = "nvidia-dra-driver-gpu"
CHARTS: Final = {OPERATOR_RELEASE: OPERATOR, RELEASE: CHART, PLUGIN_RELEASE: PLUGIN}
INSECURE: Final = '[{"op": "add", "path": "/spec/insecure", "value": true}]'
PARENT: Final = "gpu-stack"
"""The Application that holds the others."""
ENOUGH_SECONDS: Final = 300.0
RETRY_LIMIT: Final = re.compile(r"(\bretry:\s+limit:) \d+")


@dataclass(frozen=True, slots=True)
class Stack:
    """What a recipe asks for."""

    chart: str
    driver: str
    ours: str = RELEASE
    """Our release. A recipe that names it otherwise has the component of examples/aicr."""

    @property
    def releases(self) -> tuple[str, str, str]:
        """The releases, in their order."""
        return OPERATOR_RELEASE, self.ours, PLUGIN_RELEASE

    def recipe(self) -> dict[str, Any]:
        """Write it as AICR does, with the names that the simulated charts have."""
        driver = {"version": self.driver, "upgradePolicy": ALL_AT_ONCE["driver__upgradePolicy"]}
        operator = {
            "name": OPERATOR_RELEASE, "namespace": NAMESPACE, "chart": "gpu-operator", "type": "Helm",
            "source": "https://helm.ngc.nvidia.com/nvidia", "version": self.chart,
            "overrides": {"chartVersion": self.chart, "driver": driver},
        }  # fmt: skip
        plugin = {
            "name": PLUGIN_RELEASE, "namespace": PLUGIN_NAMESPACE, "chart": "dra-driver", "type": "Helm",
            "source": "oci://registry.k8s.io/dra-driver-nvidia/charts", "version": "0.1.0",
            "overrides": {"nameOverride": "dra-driver-nvidia-gpu"}, "dependencyRefs": [OPERATOR_RELEASE],
        }  # fmt: skip
        ours = [] if self.ours == RELEASE else [component_ref()]
        return {"kind": "RecipeResult", "apiVersion": "aicr.run/v1", "componentRefs": [operator, *ours, plugin]}


class Places:
    """A repository and a registry with the charts that bundles name."""

    def __init__(self, cluster: Cluster, operators: list[str]) -> None:
        sources = ChartSources(cluster)
        for chart in (CHART, PLUGIN):
            sources.publish(CHECKOUT / chart)
        for version in operators:  # All of them now: Flux looks at a repository every ten minutes.
            sources.publish(CHECKOUT / OPERATOR, version)
        self.repository: dict[str, str] = dict.fromkeys(CHARTS, sources.repository)
        # As in reality: the operator's chart from a repository, the two others from a registry.
        self.usual = {**self.repository, **dict.fromkeys((RELEASE, PLUGIN_RELEASE), sources.registry)}


class Deployer(ABC):
    """A deployment tool, and the folder of the bundle that it deploys."""

    def __init__(self, cluster: Cluster, tool: str, folder: Path, charts: Mapping[str, str], *flags: str) -> None:
        self.cluster, self.folder = cluster, folder
        self.releases: tuple[str, ...] = ()
        """The releases of the bundle, in their order."""
        self._flags = (
            f"--deployer={tool}", *(f"--chart={name}={place}" for name, place in charts.items()), *flags,
        )  # fmt: skip

    def write(self, stack: Stack, *flags: str, **post: object) -> None:
        """Write the bundle of a stack, with these values of ours."""
        work = self.cluster.state / "bundle-input"
        work.mkdir(exist_ok=True)
        (work / "recipe.yaml").write_text(yaml.safe_dump(stack.recipe()))
        values = {**QUICK_JOB, **post}
        (work / "post.yaml").write_text(yaml.safe_dump(values))
        written = run(
            "bundle", f"--recipe={work / 'recipe.yaml'}", f"--output={self.folder}", f"--timeout={values['timeout']}",
            f"--values={RELEASE}={work / 'post.yaml'}", "--force", f"--data={KIT}", *self._flags, *flags,
        )  # fmt: skip
        assert written.code == 0, written.err
        self.releases = stack.releases

    @abstractmethod
    def deploy(self) -> Outcome:
        """Deploy the bundle in the tool's usual way."""

    @abstractmethod
    def again(self) -> Outcome:
        """Deploy the same bundle again, in the way that the tool's documentation recommends after a failure."""


class ByScript(Deployer):
    """The bundle's own script, with one of the two Helms and a registry that has no TLS here."""

    def __init__(self, cluster: Cluster, charts: Places, helm: str) -> None:
        super().__init__(cluster, "helm", cluster.state / "bundle", charts.usual)
        self._helm = cluster.binary(helm)

    def deploy(self) -> Outcome:
        """Run the script."""
        environment = {**commands.environment(self.cluster.files), "HELM": str(self._helm)}
        result = subprocess.run(
            ["sh", str(self.folder / "install.sh"), "--plain-http"], env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=ENOUGH_SECONDS, check=False,
        )  # fmt: skip
        return Outcome(succeeded=result.returncode == 0, said=result.stdout)

    again = deploy


class ByHelmfile(Deployer):
    """`helmfile apply`, and `helmfile sync` after a failed hook."""

    def __init__(self, cluster: Cluster, charts: Places) -> None:
        super().__init__(cluster, "helmfile", cluster.state / "bundle", charts.repository)

    def deploy(self) -> Outcome:
        """Upgrade what differs."""
        return helmfile.run(self.cluster, self.folder / "helmfile.yaml", "apply")

    def again(self) -> Outcome:
        """Upgrade everything."""
        return helmfile.run(self.cluster, self.folder / "helmfile.yaml", "sync")


class ByFlux(Deployer):
    """HelmReleases, in a kustomization of a platform team."""

    def __init__(self, cluster: Cluster, charts: Places) -> None:
        super().__init__(cluster, "flux", cluster.state / "bundle", charts.usual)
        self._flux = Flux(cluster)

    def deploy(self) -> Outcome:
        """Apply the bundle's kustomization, and wait for its releases in their order, up to one that fails.

        Our registry has no TLS, so a kustomization around it, as a platform team would write one, allows that.
        """
        patches = [
            {"target": {"kind": "HelmRepository", "name": name}, "patch": INSECURE} for name in self.releases[1:]
        ]
        around = self.cluster.state / "bundle-around"
        around.mkdir(exist_ok=True)
        kustomization = {"kind": "Kustomization", "resources": [f"../{self.folder.name}"], "patches": patches}
        (around / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        self.cluster.kubectl("apply", "-k", str(around))
        return self._through()

    def again(self) -> Outcome:
        """Do what `flux reconcile helmrelease --force` does."""
        self._flux.request(self.releases[1], "forceAt")
        return self._through()

    def _through(self) -> Outcome:
        said = list[str]()
        for name in self.releases:
            outcome = self._flux.settled(name)
            said.append(outcome.said)
            if not outcome.succeeded:
                break
        return Outcome(outcome.succeeded, "\n".join(said))


class ByArgoCd(Deployer):
    """An Application that holds the others, or a chart of them. A failed sync is not tried once more."""

    def __init__(self, cluster: Cluster, tool: str, charts: Mapping[str, str]) -> None:
        self._argocd = ArgoCd(cluster)
        git = self._argocd.repository
        super().__init__(cluster, tool, git.folder / tool, charts, f"--git-url={git.url}", f"--git-path={tool}")

    def write(self, stack: Stack, *flags: str, **post: object) -> None:
        """Write the bundle without retries, which would take minutes."""
        super().write(stack, *flags, **post)
        for file in (*self.folder.rglob("app*.yaml"), *self.folder.glob("templates/*.yaml")):
            file.write_text(RETRY_LIMIT.sub(r"\1 0", file.read_text()))

    def deploy(self) -> Outcome:
        """Commit, and wait for the parent and its children, or for the parent's failure."""
        revision = self._argocd.repository.commit("deploy")
        kubectl, apply = self.cluster.kubectl, ("apply", "--server-side", "--force-conflicts", "-f")
        # What the bundle's page asks for.
        words = ("patch", "configmap", "argocd-cm", "-n", NAMESPACE_OF_ARGO_CD, "--type=merge")
        kubectl(*words, f"--patch-file={self.folder / 'argocd-cm.patch.yaml'}")
        parent = self.folder / "app-of-apps.yaml"
        kubectl(*apply, "-", text=parent.read_text() if parent.exists() else json.dumps(self._parent()))
        self._argocd.refresh(PARENT)
        outcome = self._argocd.settled(PARENT, revision)
        shown = self.releases if outcome.succeeded else self.releases[1:2]
        self._argocd.refresh(*shown)
        outcomes = [outcome, *(self._argocd.settled(name, revision) for name in shown)]
        return Outcome(all(each.succeeded for each in outcomes), "\n".join(each.said for each in outcomes))

    def again(self) -> Outcome:
        """Do what the Sync button does: for our Application, and then for the parent."""
        outcome = self._synced(self.releases[1])
        return self._synced(PARENT) if outcome.succeeded else outcome

    def _synced(self, name: str) -> Outcome:
        before = self._argocd.began(name)
        self._argocd.sync(name)
        return self._argocd.synced_again(name, since=before)

    def _parent(self) -> dict[str, Any]:
        """Describe an Application of one's own that names the bundle's chart."""
        policy = {"automated": {"prune": True}, "syncOptions": ["ServerSideApply=true"], "retry": {"limit": 0}}
        source = {"repoURL": self._argocd.repository.url, "path": self.folder.name, "targetRevision": "main"}
        where = {"server": "https://kubernetes.default.svc", "namespace": NAMESPACE_OF_ARGO_CD}
        return {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": PARENT, "namespace": NAMESPACE_OF_ARGO_CD},
            "spec": {"project": "default", "source": source, "destination": where, "syncPolicy": policy},
        }


def deployer(tool: str, cluster: Cluster, operators: list[str]) -> Deployer:
    """Start what a tool needs on an empty cluster, with these versions of the operator's chart."""
    if tool == "argocd-helm":  # The parent chart has copies of the others.
        return ByArgoCd(cluster, tool, {name: str(CHECKOUT / chart) for name, chart in CHARTS.items()})
    charts = Places(cluster, operators)
    kinds: dict[str, Callable[[], Deployer]] = {
        "helm-3": lambda: ByScript(cluster, charts, "helm3"),
        "helm-4": lambda: ByScript(cluster, charts, "helm4"),
        "helmfile": lambda: ByHelmfile(cluster, charts),
        "flux": lambda: ByFlux(cluster, charts),
        "argocd": lambda: ByArgoCd(cluster, tool, charts.repository),
    }
    return kinds[tool]()


def healthy(cluster: Cluster, seconds: int = 30) -> bool:
    """Return whether the health check of examples/aicr passes within some time: its assertions, by the real Chainsaw.

    The program of devcluster/tools/gates has no runner of whole tests.
    """
    file = cluster.state / "health-check.yaml"
    file.write_text(yaml.safe_dump_all(asserted()))
    command = [str(cluster.binary("chainsaw")), "assert", f"--file={file}", f"--timeout={seconds}s"]
    environment = commands.environment(cluster.files)
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0
