"""The network operator's driver and the device plugins that hold it; and both drivers on the same nodes."""

from __future__ import annotations

import json

from tests.e2e import lab as gpu
from tests.e2e.network import FURTHER_VALUE, MISSED, NEW, OWN, PARALLEL, RDMA, SRIOV, Net, nodes_of

THREE = ["gpu-0", "gpu-1", "gpu-2"]


def test_a_parallel_upgrade_with_safe_load_that_the_operator_missed(boot: gpu.Boot) -> None:
    """The operator's plugins were not evicted: all three of each node are stale, and each is restarted once."""
    # By the chart's Job, with the chart's permissions and its admission policy.
    lab = boot(3)
    net = Net(lab, 3)
    net.fleet()
    safely = {"ofedDriver__upgradePolicy__safeLoad": True}
    net.operator(NEW, **PARALLEL, **MISSED, **safely)
    lab.deploy(drivers=["network"], driverClients=[FURTHER_VALUE])
    asked = {each.node for each in net.truth.happenings if each.event == "safe-load-asked"}
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


def test_both_drivers_on_the_same_nodes(boot: gpu.Boot) -> None:
    """With GPUDirect RDMA no DRA plugin is restarted before the network driver of its node is settled."""
    lab = boot(2)
    net = Net(lab, 2)
    net.fleet()
    lab.fleet(nodes=2, driver__rdma__enabled=True, **gpu.ALL_AT_ONCE)
    net.fault("gpu-1", "unready")
    net.operator(NEW, **PARALLEL, **MISSED)
    lab.until(lambda: "upgrade-done" not in net.states().values(), "the network operator has begun", 90)
    lab.operator(chart=gpu.NEW_CHART, driver=gpu.NEW, driver__rdma__enabled=True, **gpu.ALL_AT_ONCE)
    hook = net.start("--driver=gpu")
    # The GPU driver of gpu-1 has waited until the network's is loaded, and is ready before that is.
    lab.until(lambda: lab.settled(2), "the GPU operator is through", 120)
    lab.until(lambda: lab.restarts() == ["gpu-0"], "the other node is refreshed", 60)
    assert not net.truth.standings()["gpu-1"].driver_ready
    status = ("status", "--driver=gpu", "-o", "json")
    lab.until(lambda: nodes_of(json.loads(lab.run(*status).out))["gpu-1"] == "PriorDriverUnsettled", "it waits")
    net.fault("gpu-1", None)
    done = hook.ended()
    assert done.code == 0, done.said
    net.until_loaded(NEW)
    net.assert_clean({RDMA: net.names, SRIOV: net.names, OWN: net.names})
    lab.assert_clean(net.names)
    settled = {each.node: each.t for each in net.truth.happenings if each.event == "driver-ready"}
    assert all(each.t > settled[each.node] for each in lab.truth.restarts(since=lab.began))
