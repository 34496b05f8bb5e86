"""The programs of the control plane: each a command line, with the reasons next to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devcluster.boot.layout import State

NODE_STAGES, POD_STAGES = (Path(__file__).with_name(name) for name in ("node-stages.yaml", "pod-stages.yaml"))
"""What KWOK does to the fake nodes, and to those of their pods whose life is only a delay."""

NODE_GRACE_SECONDS = 20
"""How long a node may be silent before it is NotReady. Kubernetes' 50 s would make tests of an outage slow; much less
would take a stalled test machine for a node outage, and half of it renews leases twice as often."""

ETCD_BYTES = 8 * 2**30
"""The largest quota that etcd recommends. 15,000 nodes with two pods each exceed its default of 2 GiB."""

RENEWALS_PER_SECOND = 50
"""Lease renewals that a large fleet may cost; beyond, leases and the grace period grow."""

RENEWALS_PER_LEASE = 4
"""KWOK renews a lease four times in its duration (controllers/controller.go)."""

CLIENT_QPS = 500
"""For controllers that create pods for hundreds of nodes at once; the default of 20 takes minutes."""

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": (
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ),
}
"""Writes of ServiceAccounts that are not the control plane's own: what tests ask about."""

NO_AUDIT = {**AUDIT_POLICY, "rules": [{"level": "None"}]}

REAL_NODE_ACCESS = ("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction")
"""What a real kubelet may do is its own node's business. Simulated nodes are not held to that: the authorizer would
follow every pod of a large fleet for nothing."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Loopback ports of one cluster."""

    etcd: int
    etcd_peer: int
    api_server: int
    kwok: int

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.api_server}"


def lease_seconds(nodes: int) -> int:
    """Choose the node leases' duration so that renewing them costs a bounded number of requests."""
    return max(NODE_GRACE_SECONDS - 2, nodes * RENEWALS_PER_LEASE // RENEWALS_PER_SECOND)


def etcd(state: State, ports: Ports) -> list[str]:
    """Spell etcd's arguments."""
    client, peer = (f"http://127.0.0.1:{port}" for port in (ports.etcd, ports.etcd_peer))
    return [
        f"--data-dir={state.root / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # the data does not outlive the cluster
        f"--quota-backend-bytes={ETCD_BYTES}",
        "--backend-batch-interval=1s",  # writes its file ten times less often, for a tenth less processor time
        "--log-level=warn",
    ]


def api_server(state: State, ports: Ports, *, real_node: bool = False) -> list[str]:
    """Spell the API server's arguments: RBAC, and admission as it is by default."""
    return [
        *(REAL_NODE_ACCESS if real_node else ["--authorization-mode=RBAC"]),
        *([f"--egress-selector-config-file={state.egress_configuration}"] if real_node else []),
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={ports.api_server}",
        f"--cert-dir={state.private}",
        f"--token-auth-file={state.private / 'tokens.csv'}",
        "--allow-privileged=true",  # driver pods are privileged
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",  # refuses loopback addresses
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={state.certificate_key}",
        f"--service-account-key-file={state.certificate_key}",
        f"--audit-policy-file={state.private / 'audit-policy.json'}",
        f"--audit-log-path={state.audit}",
        "--kubelet-preferred-address-types=InternalIP",
        "--profiling=false",
    ]


IDLE_CONTROLLERS = (
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "endpointslice-mirroring-controller",
    "ephemeral-volume-controller",
    "horizontal-pod-autoscaler-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "node-ipam-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "podcertificaterequest-cleaner-controller",
    "podgroup-protection-controller",
    "replicationcontroller-controller",
    "resourcepoolstatusrequest-controller",
    "statefulset-controller",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
    "volumeattributesclass-protection-controller",
)
"""What no cluster here has a use for: certificates, volumes, autoscalers and StatefulSets. They take most of what an
idle controller manager costs."""

RESTING_CONTROLLERS = ("daemonset-controller", "garbage-collector-controller")
"""For a fleet that was put into storage whole: nothing replaces its pods or looks for their owners."""


def controller_manager(state: State, lease: int, *, at_rest: bool = False) -> list[str]:
    """Spell the controller manager's arguments."""
    idle = (*IDLE_CONTROLLERS, *(RESTING_CONTROLLERS if at_rest else ()))
    return [
        f"--kubeconfig={state.component_kubeconfig('kube-controller-manager')}",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={state.certificate_key}",
        f"--root-ca-file={state.certificate}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--controllers={','.join(['*', *(f'-{name}' for name in idle)])}",
        "--node-monitor-period=1s",
        f"--node-monitor-grace-period={'1h' if at_rest else f'{lease + 2}s'}",  # at rest there are no heartbeats
        f"--kube-api-qps={CLIENT_QPS}",
        f"--kube-api-burst={2 * CLIENT_QPS}",
    ]


def scheduler(state: State) -> list[str]:
    """Spell the scheduler's arguments."""
    return [
        f"--kubeconfig={state.component_kubeconfig('kube-scheduler')}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--kube-api-qps={CLIENT_QPS}",
        f"--kube-api-burst={2 * CLIENT_QPS}",
    ]


def kwok(state: State, port: int, lease: int, *stages: Path) -> list[str]:
    """Spell KWOK's arguments: it plays the kubelets of the fake nodes, by these stages."""
    return [
        f"--kubeconfig={state.component_kubeconfig('kwok')}",
        *(f"--config={file}" for file in stages),
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--manage-nodes-with-label-selector=devcluster/outage!=true",
        f"--node-lease-duration-seconds={lease}",
        "--node-ip=127.0.0.1",
        f"--server-address=127.0.0.1:{port}",
    ]
