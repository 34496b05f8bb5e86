"""The network operator's driver and the device plugins that hold it."""

from __future__ import annotations

import json

from tests.e2e import lab as gpu
from tests.e2e.network import FURTHER_VALUE, MISSED, NEW, OWN, PARALLEL, RDMA, SECOND, SRIOV, Net, nodes_of

THREE = ["gpu-0", "gpu-1", "gpu-2"]


def test_a_parallel_upgrade_with_safe_load_that_the_operator_missed(boot: gpu.Boot) -> None:
    """The operator's plugins were not evicted: all three of each node are stale, and each is restarted once."""
    # By the chart's Job, with the chart's permissions and its admission policy.
    lab = boot(3)
    net = Net(lab, 3)
    net.fleet()
    safely = {"ofedDriver__upgradePolicy__safeLoad": True}
    net.operator(NEW, **PARALLEL, **MISSED, **safely)
    lab.deploy(stack="network", driverClients=[FURTHER_VALUE])
    asked = {each.node for each in net.truth.entries if each.event == "safe-load-asked"}
    assert asked == set(THREE)
    assert set(net.states().values()) == {"upgrade-done"}
    net.assert_clean({RDMA: THREE, SRIOV: THREE, OWN: THREE})


def test_a_driver_that_is_rotated_by_hand(boot: gpu.Boot) -> None:
    """With autoUpgrade off, the default of this operator, outdated nodes are reported, or waited for."""
    net = Net(boot(2), 2)
    manual = {"ofedDriver__upgradePolicy__autoUpgrade": False, **MISSED}
    net.fleet(**manual)
    net.operator(NEW, **manual)
    net.lab.until(lambda: net.outdated() == 2, "the new driver is rendered")
    report = net.run()
    assert report.code == 0, report.said
    assert "ManualUpgrade" in report.out
    net.assert_clean({})
    told = json.loads(net.status("-o", "json").out)
    assert {"gpu-0": "ManualUpgrade", "gpu-1": "ManualUpgrade"} == nodes_of(told)

    hook = net.start("onManualUpgrade=wait")
    net.delete_drivers()
    done = hook.ended()
    assert done.code == 0, done.said
    net.until_loaded(NEW)
    net.assert_clean({RDMA: net.names, SRIOV: net.names, OWN: net.names})


def test_two_releases_on_the_same_nodes(boot: gpu.Boot) -> None:
    """Both operators upgrade at once. Each release refreshes the plugins of its own stack, and writes its own state."""
    lab = boot(2)
    net = Net(lab, 2)
    net.fleet()
    lab.stale_fleet(nodes=2)
    net.operator(NEW, **PARALLEL, **MISSED)
    releases = [lab.start_post(), lab.start_post(release=SECOND, stack="network", driverClients=[FURTHER_VALUE])]
    for release in releases:
        lab.succeeded(release)
    lab.assert_clean(net.names)
    net.assert_clean({RDMA: net.names, SRIOV: net.names, OWN: net.names})
    assert (lab.writes(), lab.writes(f"{SECOND}-{gpu.RELEASE}")) == (["delete pods"] * 2, ["delete pods"] * 6)
    states = lab.cluster.list(
        f"/api/v1/namespaces/{gpu.NAMESPACE}/configmaps", labelSelector="gpu-operator-post/object=status"
    )
    versions = {each["metadata"]["name"]: each["data"]["driverVersion"] for each in states}
    assert versions == {f"{gpu.RELEASE}-status": gpu.NEW, f"{SECOND}-{gpu.RELEASE}-status": NEW}
