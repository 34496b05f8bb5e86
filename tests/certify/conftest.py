"""The cluster to certify: the one of ``--kubeconfig``, else an embedded one with a fleet of stale plugins.

Options and fixtures are those of pytest-helm-charts; ``KUBECONFIG`` from the environment is ignored on
purpose, so that a plain test run never touches the user's cluster. docs/certify.md says how to use it.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.certify.site import CHART, Site, image_flags, program
from tests.e2e.lab import Lab

if TYPE_CHECKING:
    from pytest_helm_charts.k8s.namespace import NamespaceFactoryFunc

    from tests.pool import Pool

RESTRICTED: Final = {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
EMBEDDED_VALUES: Final = """
image: {repository: registry.example/gpu-operator-post}
timeout: 4m
advanced: {operatorQuiet: 3s, unknownOperatorQuiet: 5s, policyGrace: 15s}
"""
"""The simulated operator acts within seconds."""


@pytest.fixture(scope="module")
def embedded(pytestconfig: pytest.Config, pool: Pool) -> Lab | None:
    """Return an embedded cluster with a stale plugin, unless the user brings one."""
    if pytestconfig.getoption("kubeconfig"):
        return None
    lab = Lab(pool.take(1))
    lab.stale_fleet(nodes=1)
    return lab


@pytest.fixture(scope="module")
def kube_config(embedded: Lab | None, pytestconfig: pytest.Config) -> str:
    """Name the cluster; pytest-helm-charts connects to it."""
    chosen = Path(pytestconfig.getoption("kubeconfig")) if embedded is None else embedded.cluster.kubeconfig
    assert chosen.is_file(), f"--kubeconfig {chosen}: there is no such file"
    return str(chosen.resolve())


@pytest.fixture(scope="module")
def may_restart(embedded: Lab | None, test_extra_info: dict[str, str]) -> bool:
    """Whether stale plugins may be restarted for real."""
    return embedded is not None or test_extra_info.get("restart") == "yes"


@pytest.fixture(scope="module")
def site(  # noqa: PLR0913, PLR0917 - one parameter for each option of pytest-helm-charts
    kube_config: str,
    embedded: Lab | None,
    chart_path: str,
    values_file_path: str,
    test_extra_info: dict[str, str],
    namespace_factory: NamespaceFactoryFunc,
    tmp_path_factory: pytest.TempPathFactory,
) -> Site:
    """Make a namespace of our own, which enforces restricted Pod Security and is deleted at the end."""
    homes = tmp_path_factory.mktemp("homes")
    flags = [f"--values={values_file_path}"] if values_file_path else []
    if embedded is not None:
        file = homes / "values.yaml"
        file.write_text(EMBEDDED_VALUES)
        flags = [f"--values={file}"]
    if image := test_extra_info.get("image"):
        flags += image_flags(image)
    namespace = namespace_factory(f"gpu-operator-post-certify-{secrets.token_hex(3)}", RESTRICTED)
    own = embedded is None
    return Site(
        kubeconfig=Path(kube_config),
        namespace=str(namespace.name),
        chart=Path(chart_path) if chart_path else CHART,
        settings=tuple(flags),
        homes=homes,
        helm=program("helm", "helm4", use_installed=own),
        kubectl_binary=program("kubectl", "kubectl", use_installed=own),
    )
