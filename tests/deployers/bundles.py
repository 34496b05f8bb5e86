"""Bundles, as `gpu-operator-post-bundler bundle` writes them, and how each deployment tool deploys such a folder."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from devcluster import binaries, commands
from devcluster.deployers.argocd import APPLICATIONS
from devcluster.deployers.argocd import NAMESPACE as NAMESPACE_OF_ARGO_CD
from devcluster.deployers.release import Outcome
from devcluster.layout import CHECKOUT
from tests.bundler.program import run
from tests.deployers.bench import OPERATOR_RELEASE, PLUGIN_RELEASE, QUICK_JOB
from tests.e2e.lab import ALL_AT_ONCE, CHART, NAMESPACE, OPERATOR, PLUGIN, PLUGIN_NAMESPACE, RELEASE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from devcluster.cluster import Cluster
    from devcluster.deployers.argocd import ArgoCd
    from devcluster.deployers.flux import Flux
    from devcluster.deployers.release import Values

RELEASES: Final = (OPERATOR_RELEASE, RELEASE, PLUGIN_RELEASE)
CHARTS: Final = {OPERATOR_RELEASE: OPERATOR, RELEASE: CHART, PLUGIN_RELEASE: PLUGIN}
ANNOTATION: Final = "aicr.run/gpu-operator-chart-version"
INSECURE: Final = '[{"op": "add", "path": "/spec/insecure", "value": true}]'
PARENT: Final = "gpu-stack"
"""The Application that holds the others."""
ENOUGH_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Stack:
    """What a recipe asks for."""

    chart: str
    driver: str

    def recipe(self) -> dict[str, Any]:
        """Write it as AICR does, with the names that the simulated charts have."""
        driver = {"version": self.driver, "upgradePolicy": ALL_AT_ONCE["driver__upgradePolicy"]}
        return {
            "kind": "RecipeResult",
            "apiVersion": "aicr.run/v1",
            "componentRefs": [
                {
                    "name": OPERATOR_RELEASE,
                    "namespace": NAMESPACE,
                    "chart": "gpu-operator",
                    "type": "Helm",
                    "source": "https://helm.ngc.nvidia.com/nvidia",
                    "version": self.chart,
                    "overrides": {"chartVersion": self.chart, "driver": driver},
                },
                {
                    "name": PLUGIN_RELEASE,
                    "namespace": PLUGIN_NAMESPACE,
                    "chart": "dra-driver",
                    "type": "Helm",
                    "source": "oci://registry.k8s.io/dra-driver-nvidia/charts",
                    "version": "0.1.0",
                    "overrides": {"nameOverride": "dra-driver-nvidia-gpu"},
                    "dependencyRefs": [OPERATOR_RELEASE],
                },
            ],
            "deploymentOrder": [OPERATOR_RELEASE, PLUGIN_RELEASE],
        }


def write(
    stack: Stack,
    deployer: str,
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
    (work / "post.yaml").write_text(yaml.safe_dump(ours))
    places = {**{name: str(CHECKOUT / folder) for name, folder in CHARTS.items()}, **(charts or {})}
    written = run(
        "bundle", f"--recipe={work / 'recipe.yaml'}", f"--deployer={deployer}", f"--output={output}",
        f"--timeout={QUICK_JOB['timeout']}", f"--values={RELEASE}={work / 'post.yaml'}", "--force",
        *(f"--chart={name}={place}" for name, place in places.items()), *flags,
    )  # fmt: skip
    assert written.code == 0, written.err


def deploy_helm(cluster: Cluster, folder: Path, version: int, *arguments: str) -> Outcome:
    """Run the bundle's own script with one of the Helms."""
    name = f"helm{version}"
    environment = {**commands.environment(cluster.files), "HELM": str(binaries.ensure([name])[name])}
    result = subprocess.run(
        ["sh", str(folder / "install.sh"), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=ENOUGH_SECONDS,
        check=False,
    )
    return Outcome(succeeded=result.returncode == 0, said=result.stdout)


def deploy_flux(flux: Flux, folder: Path) -> Outcome:
    """Apply the bundle's kustomization, and wait for its releases.

    Our registry has no TLS, so a kustomization of one's own around it says so, as a platform team's would.
    """
    patches = [
        {"target": {"kind": "HelmRepository", "name": name}, "patch": INSECURE} for name in (RELEASE, PLUGIN_RELEASE)
    ]
    around = folder.parent / f"{folder.name}-around"
    around.mkdir(exist_ok=True)
    (around / "kustomization.yaml").write_text(
        yaml.safe_dump({"kind": "Kustomization", "resources": [f"../{folder.name}"], "patches": patches})
    )
    flux.cluster.kubectl("apply", "-k", str(around))
    return flux_settled(flux, RELEASES)


def flux_settled(flux: Flux, names: Sequence[str]) -> Outcome:
    """Wait for releases in their order, up to one that fails: what depends on it waits for ever."""
    said = list[str]()
    for name in names:
        outcome = flux.settled(name)
        said.append(outcome.said)
        if not outcome.succeeded:
            break
    return Outcome(outcome.succeeded, "\n".join(said))


def order_argocd(argocd: ArgoCd, folder: Path) -> None:
    """Tell Argo CD what the bundle's page asks to tell it."""
    argocd.cluster.kubectl(
        "patch", "configmap", "argocd-cm", "-n", NAMESPACE_OF_ARGO_CD, "--type=merge",
        f"--patch-file={folder / 'argocd-cm.patch.yaml'}",
    )  # fmt: skip


def deploy_argocd(argocd: ArgoCd, folder: Path, message: str, *, retries: int | None = None) -> Outcome:
    """Commit the bundle, apply its parent Application, and wait for its children."""
    _limit(argocd, retries)
    revision = argocd.repository.commit(message)
    order_argocd(argocd, folder)
    argocd.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(folder / "app-of-apps.yaml"))
    return _children(argocd, revision)


def deploy_argocd_helm(argocd: ArgoCd, folder: Path, message: str, *, retries: int | None = None) -> Outcome:
    """Commit the bundle, name it in an Application of one's own, and wait for its children."""
    _limit(argocd, retries)
    revision = argocd.repository.commit(message)
    order_argocd(argocd, folder)
    policy = {"automated": {"prune": True}, "syncOptions": ["ServerSideApply=true"]}
    parent = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": PARENT, "namespace": NAMESPACE_OF_ARGO_CD},
        "spec": {
            "project": "default",
            "source": {"repoURL": argocd.repository.url, "path": folder.name, "targetRevision": "main"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": NAMESPACE_OF_ARGO_CD},
            "syncPolicy": policy if retries is None else {**policy, "retry": {"limit": retries}},
        },
    }
    argocd.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=json.dumps(parent))
    return _children(argocd, revision)


def _limit(argocd: ArgoCd, retries: int | None) -> None:
    """Bound the parent's tries before the commit, which may be synced before the parent is applied again."""
    if retries is not None:
        argocd.cluster.patch(f"{APPLICATIONS}/{PARENT}", {"spec": {"syncPolicy": {"retry": {"limit": retries}}}})


def _children(argocd: ArgoCd, revision: str) -> Outcome:
    """Wait for the parent, which makes the children in waves, and then for them; if it failed, say how ours stands."""
    argocd.refresh(PARENT)
    parent = argocd.settled(PARENT, revision)
    if not parent.succeeded:
        return Outcome(succeeded=False, said=f"{parent.said}\n{argocd.settled(RELEASE, revision).said}")
    argocd.refresh(*RELEASES)
    outcomes = [parent, *(argocd.settled(name, revision) for name in RELEASES)]
    return Outcome(all(each.succeeded for each in outcomes), "\n".join(each.said for each in outcomes))
