"""A laboratory for the network driver: nodes with a network card, the network operator, and its driver clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from devcluster.journal import Entry
from devcluster.settings import client
from devcluster.truth import NETWORK, Truth
from tests.e2e.identity import Right, kubeconfig
from tests.e2e.lab import NAMESPACE as HOOKS
from tests.e2e.lab import QUICK, RELEASE, Lab
from tests.process.program import Ended, Logged
from tests.promises import promised

CHART: Final = "devcluster/charts/network-operator"
NAMESPACE: Final = "nvidia-network-operator"
OLD: Final = "doca3.2.0-25.10-1.2.8.0-2"
NEW: Final = "doca3.4.0-26.04-0.8.6.0-0"
RDMA: Final = "rdma-shared-dp-ds"
SRIOV: Final = "network-operator-sriov-device-plugin"
OWN: Final = "kube-sriov-device-plugin-amd64"
"""A device plugin that people deployed by themselves; no operator takes it off a node whose driver reloads."""
FURTHER: Final = client("kube-system", OWN)
"""As `--driver-client` has it."""
FURTHER_VALUE: Final = {"namespace": "kube-system", "name": OWN}
"""The same as an entry of the value `driverClients`."""
IMAGE: Final = "ghcr.io/k8snetworkplumbingwg/sriov-network-device-plugin"
NIC: Final = "feature.node.kubernetes.io/pci-15b3.present"
STATE: Final = "nvidia.com/ofed-driver-upgrade-state"
PARALLEL: Final[dict[str, Any]] = {"ofedDriver__upgradePolicy__maxParallelUpgrades": 0}
MISSED: Final[dict[str, Any]] = {"simulate__waitLabelSeconds": 600}
"""The operator does not notice a reload, as one that is down meanwhile: its plugins stay, and turn stale."""
ACCOUNT: Final = "network-post"
SECOND: Final = "network"
"""The second release of the chart, next to that of the GPU stack."""


class Net:
    """What is done to the network stack of a laboratory, and what is true of it."""

    def __init__(self, lab: Lab, nodes: int) -> None:
        self.lab, self.cluster = lab, lab.cluster
        self.names = [f"gpu-{number}" for number in range(nodes)]
        self.cluster.kubectl("label", "nodes", *self.names, f"{NIC}=true")
        self.account: Path = kubeconfig(self.cluster, ACCOUNT, [Right("*", "*", "*")])

    # What the platform team does.

    def operator(self, driver: str = OLD, **values: Any) -> None:  # noqa: ANN401 - chart values
        """Install or upgrade the network operator; returns at once, long before drivers reload."""
        self.lab.helm_install("network-operator", CHART, NAMESPACE, {"ofedDriver__version": driver, **values})

    def own_plugin(self) -> None:
        """Deploy a device plugin in addition to the operator's."""
        labels = {"name": "sriov-device-plugin", "tier": "node", "app": "sriovdp"}
        containers = [{"name": "kube-sriovdp", "image": IMAGE}]
        pod = {"nodeSelector": {NIC: "true"}, "tolerations": [{"operator": "Exists"}], "containers": containers}
        template = {"metadata": {"labels": labels}, "spec": pod}
        spec = {"selector": {"matchLabels": {"name": labels["name"]}}, "template": template}
        body = {"metadata": {"name": OWN, "labels": {"app": "sriovdp"}}, "spec": spec}
        self.cluster.create("/apis/apps/v1/namespaces/kube-system/daemonsets", body)

    def fleet(self, **values: Any) -> None:  # noqa: ANN401 - chart values
        """Bring all nodes up on the old driver, with three fresh plugins on each."""
        # A plugin that starts in the very second in which its driver is ready cannot be proven fresh: a pod
        # takes longer than that in reality.
        self.lab.settings(plugin_start_seconds=1.5)
        self.operator(**PARALLEL, **values)
        self.until_loaded(OLD)
        self.own_plugin()
        self.lab.until(lambda: self.holding() == 3 * len(self.names), "three plugins run on each node", 120)

    def start(self, *args: str) -> Logged:
        """Start the program for this driver, with an account whose writes are in the audit log."""
        served = ("--stack=network", FURTHER)
        # An excluded node keeps this policy notReady for good, and a run waits for it.
        briefly = (*QUICK, "advanced.policyGrace=4s", "--timeout=140s")
        return self.lab.start("run", *served, *briefly, *args, kubeconfig=self.account)

    def run(self, *args: str) -> Ended:
        """Run the program to its end."""
        return self.start(*args).ended()

    def status(self, *args: str) -> Ended:
        """Ask how this stack stands."""
        return self.lab.run("status", "--stack=network", *args, kubeconfig=self.account)

    def fault(self, node: str, value: str | None) -> None:
        """Let a node's network driver fail, or no longer."""
        self.lab.annotate(node, "network-driver-fault", value)

    def delete_drivers(self) -> None:
        """Rotate all drivers by hand."""
        self.cluster.kubectl("delete", "pods", "-n", NAMESPACE, "-l", "nvidia.com/ofed-driver", "--wait=false")

    # What is true.

    @property
    def truth(self) -> Truth:
        """The journal of the network's drivers."""
        return Truth.read(self.cluster.state, NETWORK)

    def holding(self) -> int:
        """Count the plugins that run on what is loaded."""
        running: dict[str, Entry] = {}
        for each in self.truth.entries:
            if each.event == "plugin-ready":
                running[each.uid] = each
            elif each.event == "plugin-gone":
                running.pop(each.uid, None)
        return len(running) if not self.truth.stale_now() else 0

    def until_loaded(self, version: str, nodes: list[str] | None = None) -> None:
        """Wait until nodes run a driver, Ready."""

        def there() -> bool:
            return self.truth.running(version) >= set(nodes if nodes is not None else self.names)

        self.lab.until(there, f"{version} is loaded", 120)

    def states(self) -> dict[str, str]:
        """Return the upgrade state of each node."""
        nodes = self.cluster.list("/api/v1/nodes", labelSelector=f"{NIC}=true")
        return {node["metadata"]["name"]: node["metadata"]["labels"].get(STATE, "") for node in nodes}

    def outdated(self) -> int:
        """Count the driver pods that are not of their DaemonSet's newest revision."""
        drivers = self.cluster.list(
            f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets", labelSelector="nvidia.com/ofed-driver"
        )
        fresh = [each for each in drivers if each["status"].get("observedGeneration") == each["metadata"]["generation"]]
        return sum(
            each["status"]["desiredNumberScheduled"] - each["status"].get("updatedNumberScheduled", 0) for each in fresh
        )

    def deleted(self) -> set[str]:
        """Name the pods that the program deleted, from a shell or as the chart's Job."""
        accounts = {f"default:{ACCOUNT}", f"{HOOKS}:{RELEASE}", f"{HOOKS}:{SECOND}-{RELEASE}"}
        ours = {f"system:serviceaccount:{account}" for account in accounts}
        return {
            str(each["objectRef"]["name"])
            for each in self.cluster.audit()
            if each["user"]["username"] in ours and each["verb"] == "delete" and each["responseStatus"]["code"] < 300
        }

    def restarts(self) -> list[Entry]:
        """Return what really happened when the program deleted plugins, in that order."""
        ours = self.deleted()
        return [each for each in self.truth.entries if each.event == "plugin-deleted" and each.pod in ours]

    def assert_clean(self, restarted: dict[str, list[str]]) -> None:
        """Assert the promises: nothing stale, early or needless, and these nodes' restarts for each DaemonSet."""
        found: dict[str, list[str]] = {}
        for each in self.restarts():
            found.setdefault(each.daemonset, []).append(each.node)
            with promised():
                assert each.stale, f"needless: {each}"
                assert each.driver_ready, f"early: {each}"
                assert each.driver_current, f"early: {each}"
        with promised():
            assert self.truth.stale_now() == ()
        assert restarted == {name: sorted(nodes) for name, nodes in found.items()}


def nodes_of(story: Any) -> dict[str, str]:  # noqa: ANN401 - JSON
    """Return the reason of each node that a status names."""
    return {str(each["node"]): str(each["reason"]) for each in story["nodes"]}
