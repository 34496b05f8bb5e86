"""Bundles, as `gpu-operator-post-bundler bundle` writes them, and how each deployment tool deploys such a folder."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from devcluster import commands
from devcluster.boot.cluster import Cluster
from devcluster.boot.layout import CHECKOUT
from devcluster.build import binaries
from devcluster.deployers.argocd import APPLICATIONS, ArgoCd
from devcluster.deployers.argocd import NAMESPACE as NAMESPACE_OF_ARGO_CD
from devcluster.deployers.flux import Flux
from devcluster.deployers.helmfile import Helmfile
from devcluster.deployers.release import Outcome, Values
from devcluster.deployers.sources import ChartSources
from tests.bundler.kit import KIT, asserted, component_ref
from tests.bundler.program import run
from tests.deployers.bench import OPERATOR_RELEASE, PLUGIN_RELEASE, QUICK_JOB, Wanted
from tests.e2e.lab import ALL_AT_ONCE, CHART, NAMESPACE, OPERATOR, PLUGIN, PLUGIN_NAMESPACE, RELEASE

RELEASES: Final = (OPERATOR_RELEASE, RELEASE, PLUGIN_RELEASE)
CHARTS: Final = {OPERATOR_RELEASE: OPERATOR, RELEASE: CHART, PLUGIN_RELEASE: PLUGIN}
ANNOTATION: Final = "aicr.run/gpu-operator-chart-version"
INSECURE: Final = '[{"op": "add", "path": "/spec/insecure", "value": true}]'
PARENT: Final = "gpu-stack"
"""The Application that holds the others."""
ENOUGH_SECONDS: Final = 300.0
HELM_3: Final = 3
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


def write(
    stack: Stack,
    tool: str,
    output: Path,
    *flags: str,
    charts: Mapping[str, str] | None = None,
    post: Values | None = None,
) -> None:
    """Write a bundle, with values of ours; the charts come from where `charts` says, or are copied into it."""
    work = output.parent / f"{output.name}-input"
    work.mkdir(parents=True, exist_ok=True)
    (work / "recipe.yaml").write_text(yaml.safe_dump(stack.recipe()))
    ours = {**{key: QUICK_JOB[key] for key in ("image", "advanced")}, **(post or {})}
    timeout = ours.pop("timeout", QUICK_JOB["timeout"])
    (work / "post.yaml").write_text(yaml.safe_dump(ours))
    places = {**{name: str(CHECKOUT / folder) for name, folder in CHARTS.items()}, **(charts or {})}
    written = run(
        "bundle", f"--recipe={work / 'recipe.yaml'}", f"--deployer={tool}", f"--output={output}",
        f"--timeout={timeout}", f"--values={RELEASE}={work / 'post.yaml'}", "--force", f"--data={KIT}",
        *(f"--chart={name}={place}" for name, place in places.items()), *flags,
    )  # fmt: skip
    assert written.code == 0, written.err


def wrap(wanted: Wanted, version: str, folder: Path) -> Path:
    """Write what is wanted as plain manifests, in a chart of some version around them; return the chart's folder.

    Laid out as AICR's local format lays out what is installed after a component: the manifests, already rendered, are
    the templates, and the values are those of the component that they belong to.
    """
    manifests, chart = folder / version / "manifests", folder / version / RELEASE
    helm = binaries.ensure(["helm4"])["helm4"]
    write(Stack(wanted.chart, wanted.driver), "manifests", manifests, f"--helm={helm}", post=wanted.post)
    templates = chart / "templates"
    templates.mkdir(parents=True)
    (templates / "post.yaml").write_bytes((manifests / f"{RELEASE}.yaml").read_bytes())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": RELEASE, "version": version}))
    (chart / "values.yaml").write_text(yaml.safe_dump(wanted.operator))
    return chart


class Charts:
    """A repository and a registry with the charts that a bundle names."""

    def __init__(self, cluster: Cluster, stacks: Sequence[Stack]) -> None:
        self.sources = ChartSources(cluster)
        self.sources.start()
        self._published: set[str] = set()
        for chart in (CHART, PLUGIN):
            self.sources.publish(CHECKOUT / chart)
        for stack in stacks:  # All of them now: Flux looks at a repository every ten minutes.
            self.publish(stack)
        self.over_http: dict[str, str] = dict.fromkeys(RELEASES, self.sources.repository)
        # As in reality: the operator's chart from a repository, the two others from a registry.
        self.usual = {**self.over_http, **dict.fromkeys((RELEASE, PLUGIN_RELEASE), self.sources.registry)}

    def publish(self, stack: Stack) -> None:
        """Have the operator's chart of that version."""
        if stack.chart not in self._published:
            self._published.add(stack.chart)
            self.sources.publish(CHECKOUT / OPERATOR, stack.chart)


class ByScript:
    """The bundle's own script, with Helm 3."""

    def __init__(self, cluster: Cluster, charts: Charts) -> None:
        self.cluster, self.charts = cluster, charts
        self.folder = cluster.state / "bundles" / "helm"

    def write(self, stack: Stack, *flags: str, post: Values | None = None) -> None:
        """Name a registry, which has no TLS here."""
        self.charts.publish(stack)
        write(stack, "helm", self.folder, *flags, charts=self.charts.usual, post=post)

    def deploy(self) -> Outcome:
        """Run the script."""
        helm = binaries.ensure(["helm3"])["helm3"]
        environment = {**commands.environment(self.cluster.files), "HELM": str(helm)}
        result = subprocess.run(
            ["sh", str(self.folder / "install.sh"), "--plain-http"], env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=ENOUGH_SECONDS, check=False,
        )  # fmt: skip
        return Outcome(succeeded=result.returncode == 0, said=result.stdout)


class ByHelmfile:
    """helmfile with Helm 3."""

    def __init__(self, cluster: Cluster, charts: Charts) -> None:
        self.cluster, self.charts = cluster, charts
        self.folder = cluster.state / "bundles" / "helmfile"

    def write(self, stack: Stack, *flags: str, post: Values | None = None) -> None:
        """Name a repository."""
        self.charts.publish(stack)
        write(stack, "helmfile", self.folder, *flags, charts=self.charts.over_http, post=post)

    def deploy(self) -> Outcome:
        """Apply what differs."""
        helmfile = Helmfile(self.cluster, HELM_3)
        # With nothing that the bundle's page does not ask for.
        return helmfile.run("apply", file=self.folder / "helmfile.yaml", upgrade_dry_run=False)


class ByFlux:
    """Flux, with charts from a repository and from a registry."""

    def __init__(self, cluster: Cluster, charts: Charts) -> None:
        self.cluster, self.charts = cluster, charts
        self.flux = Flux(cluster, charts.sources)
        self.flux.start()
        self.folder = cluster.state / "bundles" / "flux"
        self._releases = RELEASES

    def write(self, stack: Stack, *flags: str, post: Values | None = None) -> None:
        """Name repository and registry."""
        self.charts.publish(stack)
        self._releases = stack.releases
        write(stack, "flux", self.folder, *flags, charts=self.charts.usual, post=post)

    def deploy(self) -> Outcome:
        """Apply the bundle's kustomization, and wait for its releases in their order, up to one that fails.

        Our registry has no TLS, so a kustomization around it, as a platform team would write one, allows that.
        """
        patches = [
            {"target": {"kind": "HelmRepository", "name": name}, "patch": INSECURE} for name in self._releases[1:]
        ]
        around = self.folder.parent / "flux-around"
        around.mkdir(exist_ok=True)
        kustomization = {"kind": "Kustomization", "resources": [f"../{self.folder.name}"], "patches": patches}
        (around / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        self.cluster.kubectl("apply", "-k", str(around))
        said = list[str]()
        for name in self._releases:
            outcome = self.flux.settled(name)
            said.append(outcome.said)
            if not outcome.succeeded:
                break
        return Outcome(outcome.succeeded, "\n".join(said))


class ByArgoCd:
    """Argo CD: an Application that holds the others, or a chart of them."""

    def __init__(self, cluster: Cluster, charts: Charts | None) -> None:
        self.argocd, self.charts = ArgoCd(cluster), charts
        self.argocd.start()
        self._name = "argocd" if charts else "argocd-helm"
        self.folder = self.argocd.repository.folder / self._name
        self._retries: int | None = None
        self._releases = RELEASES

    def write(self, stack: Stack, *flags: str, post: Values | None = None) -> None:
        """Name a repository; the parent chart's bundle has copies of the charts."""
        if self.charts:
            self.charts.publish(stack)
        git = (f"--git-url={self.argocd.repository.url}", f"--git-path={self._name}")
        charts = self.charts.over_http if self.charts else None
        self._releases = stack.releases
        write(stack, self._name, self.folder, *git, *flags, charts=charts, post=post)
        self._retries = 0 if post else None
        if post:
            for file in (*self.folder.rglob("app*.yaml"), *self.folder.glob(f"templates/{RELEASE}.yaml")):
                file.write_text(RETRY_LIMIT.sub(r"\1 0", file.read_text()))

    def deploy(self) -> Outcome:
        """Commit, and wait for the parent and its children, or for the parent's failure."""
        if self._retries is not None:  # Before the commit, which may be synced before the parent is applied again.
            self.argocd.cluster.patch(f"{APPLICATIONS}/{PARENT}", {"spec": {"syncPolicy": {"retry": {"limit": 0}}}})
        revision = self.argocd.repository.commit("deploy")
        kubectl, apply = self.argocd.cluster.kubectl, ("apply", "--server-side", "--force-conflicts", "-f")
        # What the bundle's page asks for.
        words = ("patch", "configmap", "argocd-cm", "-n", NAMESPACE_OF_ARGO_CD, "--type=merge")
        kubectl(*words, f"--patch-file={self.folder / 'argocd-cm.patch.yaml'}")
        if self.charts:
            kubectl(*apply, str(self.folder / "app-of-apps.yaml"))
        else:
            kubectl(*apply, "-", text=json.dumps(self._parent()))
        self.argocd.refresh(PARENT)
        parent = self.argocd.settled(PARENT, revision)
        if not parent.succeeded:
            ours = self.argocd.settled(self._releases[1], revision)
            return Outcome(succeeded=False, said=f"{parent.said}\n{ours.said}")
        self.argocd.refresh(*self._releases)
        outcomes = [parent, *(self.argocd.settled(name, revision) for name in self._releases)]
        return Outcome(all(each.succeeded for each in outcomes), "\n".join(each.said for each in outcomes))

    def _parent(self) -> dict[str, Any]:
        """Describe an Application of one's own that names the bundle's chart."""
        policy: dict[str, Any] = {"automated": {"prune": True}, "syncOptions": ["ServerSideApply=true"]}
        if self._retries is not None:
            policy["retry"] = {"limit": self._retries}
        source = {"repoURL": self.argocd.repository.url, "path": self.folder.name, "targetRevision": "main"}
        where = {"server": "https://kubernetes.default.svc", "namespace": NAMESPACE_OF_ARGO_CD}
        return {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": PARENT, "namespace": NAMESPACE_OF_ARGO_CD},
            "spec": {"project": "default", "source": source, "destination": where, "syncPolicy": policy},
        }


Carrier = ByScript | ByHelmfile | ByFlux | ByArgoCd


def carrier_of(name: str, cluster: Cluster, stacks: Sequence[Stack]) -> Carrier:
    """Start what a tool needs on an empty cluster; its name is that of `bundle --deployer`."""
    if name == "argocd-helm":
        return ByArgoCd(cluster, None)
    kinds: dict[str, type[ByScript | ByHelmfile | ByFlux]] = {"helm": ByScript, "helmfile": ByHelmfile, "flux": ByFlux}
    charts = Charts(cluster, stacks)
    return kinds[name](cluster, charts) if name in kinds else ByArgoCd(cluster, charts)


def healthy(cluster: Cluster, seconds: int = 30) -> bool:
    """Return whether the health check of examples/aicr passes within some time: its assertions, by the real Chainsaw.

    The program of devcluster/tools/gates has no runner of whole tests.
    """
    file = cluster.state / "health-check.yaml"
    file.write_text(yaml.safe_dump_all(asserted()))
    chainsaw = binaries.ensure(["chainsaw"])["chainsaw"]
    command = [str(chainsaw), "assert", f"--file={file}", f"--timeout={seconds}s"]
    environment = commands.environment(cluster.files)
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0
