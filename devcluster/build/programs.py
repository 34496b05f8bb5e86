"""The programs that are run in addition to our own: which ones, which versions, and what to build each from."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """One program: how to build it, and which found versions are as good."""

    name: str
    """What the project calls it; also the name of the executable, unless `executable` says otherwise."""
    module: str
    """Folder in `TOOLS` that pins its sources."""
    package: str
    """The Go package of its main function."""
    version: str
    """The version that is built."""
    fits: str = ""
    """Pattern for the output of `probe`: which versions found on the machine are as good. Empty: none is."""
    probe: tuple[str, ...] = ("--version",)
    variables: tuple[str, ...] = ()
    """Go variables, as ``package.name=value``, that a release build sets and a plain ``go build`` does not."""
    executable: str = ""
    release: str = ""
    """The module that `files` come from."""
    files: tuple[str, ...] = ()
    """What of the release's module is needed next to the program, such as CRDs: patterns of files and folders."""
    tags: tuple[str, ...] = ()
    """Build constraints: parts to compile in or to leave out."""
    uses_c: bool = False
    """Whether a part of it is C, which takes a compiler, and the headers of what it links."""

    @property
    def file_name(self) -> str:
        """Name of the executable file."""
        return self.executable or self.name

    @property
    def is_ours(self) -> bool:
        """Whether only our own build will do."""
        return not self.fits

    @property
    def linker_flags(self) -> str:
        """Strip symbols (a third of the size) and set the variables."""
        return " ".join(["-s -w", *(f"-X {variable}" for variable in self.variables)])


KUBERNETES = "v1.37.2"
"""The version of the embedded cluster: control plane, kubelet and kubectl."""


def _kubernetes(name: str, *probe: str) -> Program:
    """Describe a program of the Kubernetes repository; any patch release of the minor is as good."""
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    return Program(
        name,
        module="kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        version=KUBERNETES,
        fits=rf"\bv{major}\.{minor}\.\d+",
        probe=probe or ("--version",),
        variables=(
            f"k8s.io/component-base/version.gitVersion={KUBERNETES}",
            f"k8s.io/component-base/version.gitMajor={major}",
            f"k8s.io/component-base/version.gitMinor={minor}",
        ),
    )


def _helm(major: int, version: str, *variables: str) -> Program:
    """Describe one of the two Helms; both are called ``helm`` on a user's machine.

    They share a Go module, and with it nearly all that is compiled. Only the minor version that is built fits: what
    the tests see of Helm, down to its messages, is that version's, as README.md says.
    """
    minor = version.rpartition(".")[0]
    return Program(
        f"helm{major}",
        module="helm",
        package=f"helm.sh/helm/v{major}/cmd/helm",
        version=version,
        fits=rf"^{re.escape(minor)}\.\d+\b",
        probe=("version", "--short"),
        variables=(f"helm.sh/helm/v{major}/internal/version.version={version}", *variables),
        executable="helm",
    )


_CONTAINERD = "github.com/containerd/containerd/v2"
_UNUSED_SNAPSHOTTERS = ("no_btrfs", "no_devmapper", "no_zfs")


def _containerd(name: str) -> Program:
    """Describe a program of containerd. Only our own build will do: distributions ship versions without CDI."""
    return Program(
        name,
        module="runtime",
        package=f"{_CONTAINERD}/cmd/{name}",
        version="v2.2.0",
        variables=(f"{_CONTAINERD}/version.Version=v2.2.0",),
        tags=_UNUSED_SNAPSHOTTERS,
    )


CONTAINER_RUNTIME = (
    _containerd("containerd"),
    _containerd("containerd-shim-runc-v2"),
    _containerd("ctr"),
    Program(
        "runc",
        module="runtime",
        package="github.com/opencontainers/runc",
        version="v1.3.4",
        tags=("seccomp",),
        uses_c=True,
    ),
)
"""What runs containers on a real node. The version of runc is the one that this containerd is tested with, plus one
patch release."""

PROGRAMS = (
    Program(
        "etcd",
        module="kubernetes",
        package="go.etcd.io/etcd/server/v3",
        version="v3.7.3",
        fits=r"etcd Version: 3\.([6-9]|\d\d)\.",
    ),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl", "version", "--client"),
    _kubernetes("kubelet"),
    Program("pause", module="pause", package=".", version="v1"),
    # In the Go module of Kubernetes, whose libraries it is built from: nearly nothing is left to compile.
    Program(
        "kwok",
        module="kubernetes",
        package="sigs.k8s.io/kwok/cmd/kwok",
        version="v0.8.0",
        fits=r"\bv?0\.8\.\d+",
        variables=("sigs.k8s.io/kwok/pkg/consts.Version=v0.8.0",),
    ),
    # NVIDIA's upgrade library as in GPU operator 26.7.0, for the simulated operators; with the libraries of Kubernetes.
    Program("upgrade", module="upgrade", package=".", version="v0.0.0-20260629200812-d720f2557494"),
    _helm(4, "v4.3.1"),
    # What `helm template` takes for the cluster: its client-go, as in a release. Helm 4 finds out by itself.
    _helm(
        3,
        "v3.22.0",
        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1",
        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=37",
        "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1",
        "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=37",
    ),
    *CONTAINER_RUNTIME,
)
"""What a cluster needs, in the order in which it is built."""


ON_DEMAND = frozenset({"kubelet", "pause", *(program.name for program in CONTAINER_RUNTIME)})
"""Only a cluster with a real node needs these; no other one should wait for their build."""

_DRA_DRIVER = "sigs.k8s.io/dra-driver-nvidia-gpu"


def _dra_driver(name: str, *files: str) -> Program:
    """Describe a program of NVIDIA's DRA driver. It loads NVML, a C library."""
    return Program(
        name,
        module="dra",
        package=f"{_DRA_DRIVER}/cmd/{name}",
        version="v0.4.1",
        variables=(f"{_DRA_DRIVER}/internal/info.version=v0.4.1",),
        uses_c=True,
        release=_DRA_DRIVER if files else "",
        files=files,
    )


DRA_DRIVER = (
    _dra_driver("gpu-kubelet-plugin", "deployments/helm/dra-driver-nvidia-gpu", "hack/kubelet-plugin-prestart.sh"),
    _dra_driver("compute-domain-kubelet-plugin"),
    # The version that the plugins themselves are built with: their CDI specifications name its hooks.
    Program(
        "nvidia-cdi-hook",
        module="dra",
        package="github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-cdi-hook",
        version="v1.19.1",
        uses_c=True,
    ),
)
"""NVIDIA's DRA driver with its own chart, for a real node."""

CHECKERS = (
    Program(
        "actionlint",
        module="actionlint",
        package="github.com/rhysd/actionlint/cmd/actionlint",
        version="v1.7.12",
        fits=r"^v?1\.7\.(1[2-9]|[2-9]\d)\b",
    ),
    Program(
        "helm-docs",
        module="helm-docs",
        package="github.com/norwoodj/helm-docs/cmd/helm-docs",
        version="v1.14.2",
        fits=r"^helm-docs version 1\.14\.",
        variables=("main.version=1.14.2",),
    ),
    # Prometheus 3.11, without its service discovery.
    Program(
        "promtool",
        module="promtool",
        package="github.com/prometheus/prometheus/cmd/promtool",
        version="v0.311.0",
        fits=r"^promtool, version 3\.(1[1-9]|[2-9]\d)\.",
        variables=("github.com/prometheus/common/version.Version=3.11.0",),
        tags=("remove_all_sd",),
    ),
)
"""What checks our sources; no cluster needs them, so they are built only where they are asked for by name."""

_SOURCE_CONTROLLER = "github.com/fluxcd/source-controller"
_HELM_CONTROLLER = "github.com/fluxcd/helm-controller"
_ARGO_CD = "github.com/argoproj/argo-cd/v3"
_HELM_DIFF = "github.com/databus23/helm-diff/v3"
_NO_CLOUDS = ("custom_providers", "disable_grpc_modules")
"""Constraints of two libraries that leave generated code of clouds out: vals reads no secret stores (a third of what
helmfile is compiled from), and Google's storage library does not balance requests by xDS."""

DEPLOYERS = (
    Program(
        "helm-controller",
        module="helm",
        package=_HELM_CONTROLLER,
        version="v1.6.4",
        release=_HELM_CONTROLLER,
        files=("config/crd/bases/*.yaml",),
        tags=_NO_CLOUDS,
    ),
    Program(
        "source-controller",
        module="helm",
        package=_SOURCE_CONTROLLER,
        version="v1.9.3",
        release=_SOURCE_CONTROLLER,
        files=("config/crd/bases/*.yaml",),
        tags=_NO_CLOUDS,
    ),
    Program(
        "argocd",
        module="argocd",
        package=".",
        version="v3.6.1",
        variables=(f"{_ARGO_CD}/common.version=3.6.1",),
        release=_ARGO_CD,
        files=("manifests/crds/*-crd.yaml", "hack/git-verify-wrapper.sh"),
    ),
    Program(
        "helm-diff",
        module="helm",
        package=_HELM_DIFF,
        version="v3.9.11",
        variables=(f"{_HELM_DIFF}/cmd.Version=3.9.11",),
        release=_HELM_DIFF,
        files=("plugin.yaml",),
    ),
    Program(
        "helmfile",
        module="helm",
        package="github.com/helmfile/helmfile",
        version="v1.8.0",
        fits=r"\b1\.8\.\d+",
        variables=("go.szostok.io/version.version=1.8.0",),
        tags=_NO_CLOUDS,
    ),
    Program(
        "ct",
        module="chart-testing",
        package="github.com/helm/chart-testing/v3/ct",
        version="v3.14.0",
        fits=r"\bv?3\.14\.\d+",
        probe=("version",),
        variables=("github.com/helm/chart-testing/v3/ct/cmd.Version=v3.14.0",),
    ),
    Program(
        "crane",
        module="crane",
        package="github.com/google/go-containerregistry/cmd/crane",
        version="v0.21.6",
        fits=r"\bv?0\.21\.\d+",
        probe=("version",),
        variables=("github.com/google/go-containerregistry/cmd/crane/cmd.Version=v0.21.6",),
    ),
)
"""What deploys, and what serves charts to it; built only where it is asked for.

All modules of tools have the same versions of the libraries that they share, the newest that any of them asks for, so
that most is compiled once (NVIDIA's DRA driver and containerd keep their own version of Kubernetes' libraries)."""

_KUSTOMIZE_CONTROLLER = "github.com/fluxcd/kustomize-controller"

GATES = (
    Program(
        "kustomize-controller",
        module="gates",
        package=_KUSTOMIZE_CONTROLLER,
        version="v1.7.3",
        release=_KUSTOMIZE_CONTROLLER,
        files=("config/crd/bases/*.yaml",),
        tags=_NO_CLOUDS,
    ),
    Program("chainsaw", module="gates", package=".", version="v0.2.14"),
)
"""What waits for the status object, besides kubectl and deployment tools."""
