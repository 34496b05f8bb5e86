"""Bundles are accepted by the real deployers: a platform that changes its deployer with every upgrade.

All bundles make releases and objects of the same names, so that each deployer takes over from the one before.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from devcluster.deployers.argocd import ArgoCd
from devcluster.deployers.flux import Flux
from devcluster.deployers.helmfile import Helmfile
from devcluster.layout import CHECKOUT
from tests.deployers import bundles
from tests.deployers.bench import NODES, Bench, Chapter
from tests.deployers.bundles import ANNOTATION, Stack
from tests.e2e.lab import CHART, OPERATOR, PLUGIN, PLUGIN_NAME, PLUGIN_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from devcluster.cluster import Cluster
    from devcluster.deployers.release import Outcome

FIRST: Final = Stack("v26.3.3", "580.105.08")
SECOND: Final = Stack("v26.3.4", "580.126.20")
THIRD: Final = Stack("v26.3.5", "580.142.10")
FOURTH: Final = Stack("v26.7.0", "590.44.01")
FIFTH: Final = Stack("v26.7.1", "590.48.01")


class Platform:
    """One cluster that is upgraded by one bundle after the other."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.bench = Bench(cluster)

    def upgrade(self, stack: Stack, deploy: Callable[[], Outcome], *, ordered: bool = True) -> Chapter:
        """Deploy a bundle, and assert what must be true when the deployer is through with all its releases.

        A deployer that keeps no order may re-roll the plugins by their annotation before the drivers reload; the
        run restarts them again then.
        """
        chapter = self.bench.chapter(deploy)
        assert chapter.outcome.succeeded, chapter.outcome.said
        assert not ordered or chapter.early == []
        assert chapter.runs >= 1
        assert chapter.story["exitCode"] == 0
        self.bench.until(lambda: self.bench.serving() == len(NODES), "every plugin runs on a ready driver", 120)
        assert self.bench.truth.stale_now() == ()
        assert {stack.driver} == set(self.bench.truth.loaded_now().values())
        assert stack.chart == self.annotation()
        return chapter

    def annotation(self) -> str:
        """Read what re-rolls the plugins when the operator's chart version changes."""
        daemonset = self.cluster.get(f"/apis/apps/v1/namespaces/{PLUGIN_NAMESPACE}/daemonsets/{PLUGIN_NAME}")
        return str(daemonset["spec"]["template"]["metadata"]["annotations"][ANNOTATION])


@pytest.fixture(scope="module")
def platform(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """Begin with an empty cluster."""
    return Platform(cluster, tmp_path_factory.mktemp("bundles"))


@pytest.fixture(scope="module")
def argocd(cluster: Cluster) -> Iterator[ArgoCd]:
    """Start Argo CD on the cluster."""
    argocd = ArgoCd(cluster)
    argocd.start()
    yield argocd
    argocd.stop()


def test_helm(platform: Platform) -> None:
    """The script installs everything on an empty cluster: the run finds no DRA driver, which comes after it."""
    folder = platform.folder / "helm"
    bundles.write(FIRST, "helm", folder)
    chapter = platform.upgrade(FIRST, partial(bundles.deploy_helm, platform.cluster, folder))
    assert chapter.story["reason"] == "NoConsumer"


def test_helmfile(platform: Platform) -> None:
    """`helmfile apply` sees each release change, and upgrades them in order."""
    folder = platform.folder / "helmfile"
    bundles.write(SECOND, "helmfile", folder)
    helmfile = Helmfile(platform.cluster)
    chapter = platform.upgrade(SECOND, partial(bundles.deploy_helmfile, helmfile, folder))
    assert chapter.story["reason"] == "Refreshed"
    again = platform.bench.chapter(partial(bundles.deploy_helmfile, helmfile, folder))
    again.assert_served([])
    assert again.runs == 0


def test_flux(platform: Platform) -> None:
    """Flux takes the releases over, in their order."""
    flux = Flux(platform.cluster)
    flux.start()
    for chart, version in ((OPERATOR, THIRD.chart), (CHART, ""), (PLUGIN, "0.1.0")):
        flux.sources.publish(CHECKOUT / chart, version)
    folder = platform.folder / "flux"
    bundles.write(THIRD, "flux", folder, charts=flux.sources.repository)
    chapter = platform.upgrade(THIRD, partial(bundles.deploy_flux, flux, folder))
    assert chapter.story["reason"] == "Refreshed"
    flux.stop()


def test_argocd(platform: Platform, argocd: ArgoCd) -> None:
    """Argo CD takes the objects over; the Applications of one parent are synced in no order."""
    folder = argocd.repository.folder / "argocd"
    bundles.write(FOURTH, "argocd", folder, f"--git-url={argocd.repository.url}", "--git-path=argocd")
    platform.upgrade(FOURTH, partial(bundles.deploy_argocd, argocd, folder, "argocd"), ordered=False)


def test_argocd_helm(platform: Platform, argocd: ArgoCd) -> None:
    """A parent chart gives the same Applications."""
    folder = argocd.repository.folder / "argocd-helm"
    bundles.write(FIFTH, "argocd-helm", folder, f"--git-url={argocd.repository.url}", "--git-path=argocd-helm")
    platform.upgrade(FIFTH, partial(bundles.deploy_argocd_helm, argocd, folder, "argocd-helm"), ordered=False)
