"""The simulated fleet on a cluster of yours, such as kind: GPU nodes and their operator.

Pods of anything but the simulated operator run where that cluster runs pods.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

from devcluster.boot import certificates, components, machines
from devcluster.boot.cluster import Cluster, ClusterError
from devcluster.boot.layout import SYSTEM_NODE
from devcluster.boot.ports import free_ports
from devcluster.build import binaries
from devcluster.fleet.settings import NAMESPACE

if TYPE_CHECKING:
    from pathlib import Path

ACCOUNT: Final = "simulator"
BINDING: Final = "devcluster-simulator"
LIFE: Final = "24h"
"""Of the account's token."""

SYSTEM: Final = "devcluster/system"
"""Label and taint of the system node: nothing that is to run for real may land there."""

ADDRESS: Final = """\
      - address: {{ NodeIP | Quote }}
        type: InternalIP
"""

TOLERATIONS: Final = [{"key": SYSTEM, "operator": "Exists"}]
PLACEMENT: Final[dict[str, Any]] = {
    "operator__nodeSelector": {SYSTEM: "true"},
    "operator__tolerations": TOLERATIONS,
}
"""Values of the simulated operator's chart that bring it to the system node."""
ON_OURS: Final[dict[str, Any]] = {"nodeSelector": {SYSTEM: "true"}, "tolerations": TOLERATIONS}
"""Values of our chart that bring the hook there."""


class Visit(Cluster):
    """A fleet in a cluster of yours; the state directory holds its processes and journals."""

    _nodes = 0
    _theirs: Path | None = None
    """Whose cluster it is: with their rights it is left, because ours go with what is left behind."""

    def attach(self, kubeconfig: Path, nodes: int) -> None:
        """Bring the nodes, and return when all are Ready; on failure leave nothing behind.

        Raises ClusterError, before anything is touched, if no other process could reach their API server.
        """
        programs = binaries.ensure(("kwok", "kubectl", "upgrade", "helm4"))
        self._claim()
        try:
            server, authority = self._whose(kubeconfig)
            self._nodes, self._theirs = nodes, kubeconfig
            self._start_watchdog()
            self._create_account(kubeconfig, server, authority)
            self.run(machines.prepare)
            (port,) = free_ports(1)
            stages = (self._node_stages(), components.POD_STAGES)
            options = components.kwok(self.files, port, components.lease_seconds(nodes), *stages)
            self.launch("kwok", [str(programs["kwok"]), *options])
            self._simulate(nodes, 0, fleet=True)
            self.kubectl("taint", "node", SYSTEM_NODE, f"{SYSTEM}=true:NoSchedule", "--overwrite")
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Take the fleet's objects out of the cluster, then end its processes."""
        if self._theirs is not None:
            for kind, *names in (
                ("clusterrolebinding", BINDING),
                ("nodes", SYSTEM_NODE, *machines.gpu_node_names(self._nodes)),
                ("namespace", NAMESPACE),
            ):
                self._delete(kind, *names, "--ignore-not-found")
            for node in (SYSTEM_NODE, *machines.gpu_node_names(self._nodes)):
                self._delete("pods", "--all-namespaces", f"--field-selector=spec.nodeName={node}", "--force")
        super().down()

    def _delete(self, *words: str) -> None:
        self.kubectl(f"--kubeconfig={self._theirs}", "delete", *words, "--wait=false", check=False)

    def _node_stages(self) -> Path:
        """Write what KWOK does to nodes, without addresses: a pod network would look for ways to them, and break."""
        text = components.NODE_STAGES.read_text()
        assert ADDRESS in text  # noqa: S101 - that file is ours
        file = self.files.private / components.NODE_STAGES.name
        certificates.write_private(file, text.replace(ADDRESS, ""))
        return file

    def _whose(self, kubeconfig: Path) -> tuple[str, bytes]:
        """Read where their API server is, and the authority that signed its certificate."""
        options = ("--raw", "--minify", "--flatten", "--output=json")
        view = self.kubectl(f"--kubeconfig={kubeconfig}", "config", "view", *options).stdout
        cluster = json.loads(view)["clusters"][0]["cluster"]
        if not (authority := cluster.get("certificate-authority-data")):
            # Pods of the simulated operator trust what their ServiceAccount's ca.crt says, and nothing else.
            raise ClusterError(f"{kubeconfig} names no certificate authority: add it as certificate-authority-data")
        return cluster["server"], base64.b64decode(authority)

    def _create_account(self, kubeconfig: Path, server: str, authority: bytes) -> None:
        """Make an account for the fleet with every right, and kubeconfigs with its token."""
        theirs = f"--kubeconfig={kubeconfig}"
        self.kubectl(theirs, "apply", "--filename=-", text=json.dumps(_account()))
        token = self.kubectl(theirs, "create", "token", ACCOUNT, "-n", NAMESPACE, f"--duration={LIFE}").stdout
        certificates.write_private(self.files.certificate, authority.decode())
        text = certificates.kubeconfig(server, authority, certificates.User(ACCOUNT), token.strip())
        for file in (*map(self.files.component_kubeconfig, ("kwok", "pods")), self.files.kubeconfig):
            certificates.write_private(file, text)


def _account() -> dict[str, Any]:
    """Describe the account: it stands for kubelets, which make tokens of any ServiceAccount."""
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": ACCOUNT, "namespace": NAMESPACE},
            },
            {
                "apiVersion": f"{group}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": BINDING},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [subject],
            },
        ],
    }
