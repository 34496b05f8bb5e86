"""The GPU operator: precompiled drivers, OpenShift, vGPU, pools (NVIDIADriver), GPUCluster and manual upgrades."""

from __future__ import annotations

from hook.config import DriverClient, Expect, OnManualUpgrade, OnMissingPlugin, Plugin, Settings
from hook.decide.explain import remedy
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from tests.fixtures.cluster import Cluster, cluster, labelled, stale, stale_plugin
from tests.fixtures.modes import (
    DIGEST,
    Pool,
    network,
    openshift,
    owner,
    pool_daemonset,
    pooled,
    rdma_pod,
    wants,
    with_exporter,
)
from tests.fixtures.objects import Object, driver_pod, merged, obj, parsed, plugin_pod
from tests.unit.decide.cases import timeline, wrong, wrong_decisions, wrong_nodes

PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"


def reasons(found: Cluster, settings: Settings | None = None) -> list[Reason]:
    """Return the reason for each node."""
    return [status.reason for status in found.decide(settings)[0].statuses]


def published(version: str) -> str:
    """Return a patch of ResourceSlices: devices of a driver version."""
    return f"spec: {{devices: [{{attributes: {{driverVersion: {{version: {version}}}}}}}]}}"


# Precompiled drivers: one DaemonSet per kernel, replaced when kernels change, while every label stays quiet.

OLD_KERNEL, NEW_KERNEL = "5.15.0-105-generic", "5.15.0-119-generic"


def of_kernel(kernel: str, **metadata: str) -> Object:
    """Return a patch: owned by the DaemonSet of a kernel."""
    return {"metadata": {**metadata, "ownerReferences": owner(f"{kernel}-ds")}}


def precompiled(*kernels: str) -> Cluster:
    """Return one node per kernel, with stale plugins. The DaemonSet of the other kernel has no node any more."""
    nodes = [f"gpu-{number}" for number in range(len(kernels))]
    found = stale(*nodes).change("policy", "spec: {driver: {version: '580', usePrecompiled: true}}")
    found.drop("daemonset", "nvidia-driver-daemonset").drop("revision")
    for kernel in (OLD_KERNEL, NEW_KERNEL):
        containers = [{"name": "nvidia-driver-ctr", "image": f"nvcr.io/nvidia/driver:580-{kernel}-ubuntu22.04"}]
        rendered: Object = {"metadata": {"name": kernel, "uid": f"{kernel}-ds"}, **wants(kernels.count(kernel))}
        rendered["spec"] = {"template": {"spec": {"containers": containers}}}
        found.put("daemonset", obj("driver-daemonset", rendered))
        found.put("revision", obj("revision", of_kernel(kernel, name=kernel)))
    for kernel, node in zip(kernels, nodes, strict=True):
        found.change("driver-pod", of_kernel(kernel), f"driver-{node}")
    return found


def test_a_precompiled_driver_is_settled_by_the_daemonset_of_its_kernel() -> None:
    """The upgrade label is upgrade-done in each case, and proves nothing."""
    another = merged(driver_pod(), of_kernel(OLD_KERNEL, name="old", uid="old"))
    compiled = "spec: {driver: {usePrecompiled: false, version: 580.126.20}}"
    other_devices = precompiled(OLD_KERNEL).put("plugin-pod", plugin_pod()).change("slice", published("570.124.6"))
    assert {} == wrong_nodes({
        "settled": (precompiled(NEW_KERNEL), Reason.PLUGIN_STALE),
        "by whichever DaemonSet owns it": (
            precompiled(NEW_KERNEL).change("driver-pod", of_kernel(OLD_KERNEL)), Reason.PLUGIN_STALE),
        "a pod of each kernel": (precompiled(NEW_KERNEL).put("driver-pod", another), Reason.SEVERAL_DRIVER_PODS),
        "its DaemonSet was deleted": (precompiled(NEW_KERNEL).drop("daemonset", NEW_KERNEL), Reason.DRIVER_ORPHANED),
        "another branch": (
            precompiled(NEW_KERNEL).change("policy", "spec: {driver: {version: '590'}}"), Reason.NOT_RENDERED),
        "compiled": (precompiled(NEW_KERNEL).change("policy", compiled), Reason.NOT_RENDERED),
        "verified by the branch": (precompiled(OLD_KERNEL).put("plugin-pod", plugin_pod()), Reason.VERIFIED),
        "devices of another branch": (other_devices, Reason.SLICE_OUTDATED),
    })  # fmt: skip
    two = precompiled(OLD_KERNEL, NEW_KERNEL).change("driver-pod", OLD_HASH, "driver-gpu-1")
    assert [Reason.PLUGIN_STALE, Reason.DRIVER_OUTDATED] == reasons(two), "each by the revisions of its own DaemonSet"


# OpenShift: the driver toolkit's DaemonSet names, OLM instead of a chart, images by digest.


def test_on_openshift_the_driver_is_found_by_its_component() -> None:
    """Whatever its DaemonSet is called. Generation, hash and readiness decide, and an image where one is named."""
    driver = "nvidia-driver-daemonset-410.84.202203290245-0"
    unlabelled = "metadata: {labels: {app.kubernetes.io/component: null}}"
    replaced = openshift().drop("daemonset", driver)
    replaced.put("daemonset", obj("openshift/driver-daemonset", "metadata: {name: next, uid: next}"))

    def outdated(part: str = "", patch: str | Object = "{}", name: str = "") -> Cluster:
        return openshift().put("plugin-pod", stale_plugin()).change(part or "policy", patch, name)

    def digest(version: str) -> Object:
        return {"spec": {"driver": {"repository": "nvcr.io/nvidia", "image": "driver", "version": version}}}

    assert {} == wrong_nodes({
        "done": (openshift(), Reason.VERIFIED),
        "stale": (outdated(), Reason.PLUGIN_STALE),
        "not observed": (outdated("daemonset", "metadata: {generation: 3}", driver), Reason.NOT_RENDERED),
        "by its owner": (outdated("daemonset", unlabelled, driver), Reason.PLUGIN_STALE),
        "digest as asked": (outdated("policy", digest(DIGEST)), Reason.PLUGIN_STALE),
        "another digest": (outdated("policy", digest("sha256:" + "1b" * 32)), Reason.NOT_RENDERED),
        "replaced by one for a new RHCOS": (replaced, Reason.DRIVER_ORPHANED),
    })  # fmt: skip
    assert {} == wrong_decisions({
        "published as expected": (openshift().change("slice", published("580.126.20")), Reason.NOTHING_STALE),
        "not as expected": (openshift().change("slice", published("570.124.6")), Reason.NODES_PENDING),
    }, Settings(expect=Expect(driver_version="580.126.20")))  # fmt: skip


# vGPU and sandbox workloads: some nodes have no driver for containers.

STATELESS = {"metadata": {"labels": {"nvidia.com/gpu-driver-upgrade-state": None}}}


def workload(value: str, node: str = "gpu-1") -> Object:
    """Return a patch of a node whose GPUs have a purpose, and that lost its driver label for it."""
    config = {"metadata": {"labels": {"nvidia.com/gpu.workload.config": value}}}
    changed: Object = merged(merged(labelled(node, deploy_driver=None), STATELESS), config)
    return changed


def sandbox(patch: Object) -> Cluster:
    """Return a cluster with sandbox workloads: one container node, and one of another kind without pods of ours."""
    found = stale("gpu-0", "gpu-1").change("policy", "spec: {sandboxWorkloads: {enabled: true}}")
    found.change("node", patch, "gpu-1").change("node", STATELESS)
    found.change("daemonset", "status: {desiredNumberScheduled: 1, updatedNumberScheduled: 1}")
    return found.drop("driver-pod", "driver-gpu-1").drop("plugin-pod", "plugin-gpu-1")


def test_a_node_without_a_driver_for_containers_is_excluded() -> None:
    """With the reason, also while its old driver still runs. The container node next to it is refreshed."""
    still_runs = stale("gpu-0", "gpu-1").change("policy", "spec: {sandboxWorkloads: {enabled: true}}")
    for name, (found, expected) in {
        "passed through": (sandbox(workload("vm-passthrough")), Reason.VIRTUAL_MACHINE_NODE),
        "vGPU": (sandbox(workload("vm-vgpu")), Reason.VIRTUAL_MACHINE_NODE),
        "container without a driver": (sandbox(workload("container")), Reason.DRIVER_NOT_DEPLOYED),
        "by the default": (sandbox(labelled("gpu-1", deploy_driver=None)), Reason.DRIVER_NOT_DEPLOYED),
        "host driver": (sandbox(labelled("gpu-1", deploy_driver="pre-installed")), Reason.HOST_DRIVER),
        "driver still runs": (still_runs.change("node", workload("vm-passthrough"), "gpu-1"),
                              Reason.VIRTUAL_MACHINE_NODE),
    }.items():  # fmt: skip
        decision, _memory = found.decide()
        states = [(status.state, status.reason) for status in decision.statuses]
        assert [(NodeState.STALE, Reason.PLUGIN_STALE), (NodeState.EXCLUDED, expected)] == states, name
        assert ["gpu-0"] == [action.node for action in decision.actions if hasattr(action, "node")], name


def test_sandbox_workloads_turn_the_upgrade_controller_off() -> None:
    """An outdated container node waits for an administrator. Without one there is nothing to do."""
    found = sandbox(workload("vm-vgpu")).change("driver-pod", OLD_HASH).put("plugin-pod", plugin_pod("gpu-0"))
    status = found.decide()[0].statuses[0]
    assert (NodeState.EXCLUDED, Reason.MANUAL_UPGRADE) == (status.state, status.reason)
    assert "sandbox workloads" in status.message
    found.drop("node", "gpu-0").drop("driver-pod").drop("plugin-pod")
    decision, _memory = found.change("daemonset", "status: {desiredNumberScheduled: 0}").decide()
    assert (Phase.SKIP, Reason.NO_ELIGIBLE_NODE) == (decision.phase, decision.reason)


# The driver manager may evict the plugin by itself: by the client label, or by one that is configured.

CLIENT, CONFIGURED = "nvidia.com/gpu.deploy.client", "nvidia.com/dra-kubelet-plugin"
MANAGER: Object = {"manager": {"env": [
    {"name": "X", "value": "y"}, {"name": "NODE_LABEL_FOR_GPU_POD_EVICTION", "value": CONFIGURED}]}}  # fmt: skip


def selecting(label: str, found: Cluster | None = None) -> Cluster:
    """Let the plugin select a node label, which every node has."""
    found = found or cluster("gpu-0", "gpu-1")
    selector = {"spec": {"template": {"spec": {"nodeSelector": {label: "true"}}}}}
    return found.change("daemonset", selector, PLUGIN).change("node", {"metadata": {"labels": {label: "true"}}})


def configured(label: str) -> Cluster:
    """Configure the driver manager's label in the policy."""
    return selecting(label).change("policy", {"spec": {"driver": MANAGER}})


def test_a_plugin_that_the_driver_manager_evicted_is_fresh() -> None:
    """Nothing is restarted, and the message says why. While the label is paused, the node is waited for."""
    in_pool = selecting(CONFIGURED, pooled(Pool()).change("pool", {"spec": MANAGER}))
    for found, label in ((selecting(CLIENT), CLIENT), (configured(CONFIGURED), CONFIGURED), (in_pool, CONFIGURED)):
        decision, _memory = found.decide()
        assert (Phase.DONE, Reason.NOTHING_STALE, ()) == (decision.phase, decision.reason, decision.actions)
        assert f"the driver manager evicts them before it reloads a driver: {label}" in decision.message
    assert "driver manager" not in selecting(CONFIGURED).decide()[0].message, "not configured"
    for label in (CLIENT, CONFIGURED):
        paused = {"metadata": {"labels": {label: "paused-for-driver-upgrade"}}}
        found = configured(label).change("node", paused, "gpu-1").drop("plugin-pod", "plugin-gpu-1")
        status = found.decide()[0].statuses[1]
        assert (NodeState.WAITING, Reason.OPERANDS_PAUSED) == (status.state, status.reason), label
        assert label in status.message


# Which policy counts, who else reloads drivers, and where none is reloaded.

MANAGED = """metadata: {name: nvidia-dra-driver-kubelet-plugin, namespace: gpu-operator, uid: managed,
ownerReferences: [{kind: GPUCluster, uid: gc, controller: true}]}"""


def test_only_the_oldest_policy_counts() -> None:
    """Whatever a younger one contains."""
    for spec, state in (
        ("{driver: {version: '590.1'}}", "ignored"),
        ("{driver: {enabled: false}}", "ignored"),
        ("{driver: {useNvidiaDriverCRD: true}}", "ignored"),
        ("{driver: {upgradePolicy: {autoUpgrade: false}}}", "''"),
        ("{daemonsets: {labels: {helm.sh/chart: gpu-operator-v9}}}", "ready"),
    ):
        metadata = "{name: a-second, uid: second, creationTimestamp: '2025-07-01T08:00:00Z'}"
        younger = obj("policy", f"{{metadata: {metadata}, spec: {spec}, status: {{state: {state}}}}}")
        assert cluster().decide() == cluster().put("policy", younger).decide(), spec
        assert stale().decide() == stale().put("policy", younger).decide(), spec


def gpu_cluster(*, own_plugin: bool = False) -> Cluster:
    """Return a cluster with a GPUCluster: no policy, and a stale plugin that the operator manages."""
    found = stale().drop("policy").put("daemonset", obj("plugin-daemonset", MANAGED))
    if not own_plugin:
        found.drop("daemonset", PLUGIN)
    return found.change("plugin-pod", {"metadata": {"ownerReferences": owner("managed")}})


def test_a_gpu_cluster_restarts_its_own_plugin() -> None:
    """It is never touched, and the reason says why. The state of other driver clients is unknown."""
    waits = Settings(on_missing_plugin=OnMissingPlugin.WAIT)
    for found in (gpu_cluster(), gpu_cluster(own_plugin=True)):
        for settings in (Settings(), waits):
            decision, _memory = found.decide(settings)
            assert (Phase.SKIP, Reason.OPERATOR_MANAGED, ()) == (decision.phase, decision.reason, decision.actions)
            assert "nvidia-dra-driver-kubelet-plugin is managed by the GPU operator" in decision.message
    by_name = Settings(driver_clients=(DriverClient("gpu", "monitoring", "dcgm-exporter"),))
    message = with_exporter(gpu_cluster(), -9).decide(by_name)[0].message
    assert "without a ClusterPolicy the state of monitoring/dcgm-exporter is unknown" in message
    assert "is unknown" not in gpu_cluster().decide()[0].message


def test_a_plugin_that_only_has_the_operators_name_is_restarted_if_it_is_named() -> None:
    """``nameOverride: nvidia-dra-driver`` gives it, and the operator does not restart that one."""
    named = Settings(plugin=Plugin(names=("nvidia-dra-driver-kubelet-plugin",)))
    found = stale().change("daemonset", "metadata: {name: nvidia-dra-driver-kubelet-plugin}", PLUGIN)
    results = [(one.phase, one.reason, len(one.actions)) for one in (found.decide()[0], found.decide(named)[0])]
    assert [(Phase.FAIL, Reason.UNNAMED_PLUGIN, 0), (Phase.WAIT, Reason.NODES_PENDING, 1)] == results


# Pools: NVIDIADriver objects, with one driver DaemonSet each.

A, B, EMPTY = Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",), version="570.124.06"), Pool("empty", ())
NOT_READY = "status: {state: notReady}"


def stale_pools() -> Cluster:
    """Return two pools with different drivers, and plugins from before both."""
    return pooled(A, B).put("plugin-pod", stale_plugin("gpu-a"), stale_plugin("gpu-b"))


def test_each_node_is_evaluated_by_the_pool_that_owns_its_driver() -> None:
    """By its DaemonSet, its version and its object. What blocks one pool does not block the other's nodes."""
    old = pool_daemonset(Pool("a", ("gpu-a",), version="570.124.06"))
    back = {"useNvidiaDriverCRD": None, "repository": "nvcr.io/nvidia", "image": "driver", "version": "590.1.2"}
    of_policy = {"metadata": {"ownerReferences": owner("driver-ds")}}
    verified, pending, not_rendered = Reason.VERIFIED, Reason.PLUGIN_STALE, Reason.NOT_RENDERED
    cases: dict[str, tuple[Cluster, tuple[Reason, Reason]]] = {
        "done": (pooled(A, B), (verified, verified)),
        "both settled": (stale_pools(), (pending, pending)),
        "one is not rendered": (stale_pools().put("daemonset", old), (not_rendered, pending)),
        "one is outdated": (stale_pools().change("driver-pod", OLD_HASH, "driver-gpu-a"),
                            (Reason.DRIVER_OUTDATED, pending)),
        "one object is gone": (stale_pools().drop("pool", "a"), (not_rendered, pending)),
        "one DaemonSet was replaced": (stale_pools().drop("daemonset", "nvidia-gpu-driver-a"),
                                       (Reason.DRIVER_ORPHANED, pending)),
        "devices of no pool's version": (pooled(A, B).change("slice", published("1.2.3")),
                                         (Reason.SLICE_OUTDATED, Reason.SLICE_OUTDATED)),
        "devices of the other pool's version": (pooled(A, B).change("slice", published("570.124.6")),
                                                (Reason.SLICE_OUTDATED, verified)),
        "on the way from one policy": (pooled(A, B).change("driver-pod", of_policy, "driver-gpu-a"),
                                       (Reason.DRIVER_ORPHANED, verified)),
        "on the way back to one policy": (stale_pools().change("policy", {"spec": {"driver": back}}),
                                          (not_rendered, not_rendered)),
    }  # fmt: skip
    assert {} == wrong({name: ([*expected], reasons(found)) for name, (found, expected) in cases.items()})


def test_the_pools_of_a_run_that_is_done() -> None:
    """Only objects whose DaemonSet has nodes delay the end, and for a grace period only."""
    leftover = merged(pool_daemonset(EMPTY), {"metadata": {"ownerReferences": owner("gone")}})
    appearing = pooled(A).put("pool", obj("pool/policy", "metadata: {name: b, uid: b-uid}"))
    appearing.put("daemonset", merged(pool_daemonset(B), parsed("metadata: {generation: 2}")))
    malformed = stale_pools().put("pool", merged(obj("pool/policy"), parsed("spec: null")))
    assert {} == wrong_decisions({
        "a pool with nodes is not ready": (pooled(A, B).change("pool", NOT_READY, "b"), Reason.POLICY_NOT_READY),
        "the policy is not ready": (pooled(A).change("policy", NOT_READY), Reason.POLICY_NOT_READY),
        "one without nodes is not ready": (pooled(A, EMPTY).change("pool", NOT_READY, "empty"), Reason.NOTHING_STALE),
        "a pool without nodes": (pooled(A, EMPTY), Reason.NOTHING_STALE),
        "an object without a DaemonSet": (
            pooled(A).put("pool", obj("pool/policy", "metadata: {name: new, uid: new}")), Reason.NOTHING_STALE),
        "a new pool": (appearing, Reason.NOT_RENDERED),
        "a leftover of a deleted pool": (pooled(A).put("daemonset", leftover), Reason.NOTHING_STALE),
        "an object without a spec": (malformed, Reason.MALFORMED_OBJECT),
    })  # fmt: skip
    assert () == malformed.decide()[0].actions
    assert () == pooled(A, B).decide()[0].warnings
    found = pooled(A).change("pool", NOT_READY)
    decisions = timeline(*((seconds, found) for seconds in (0, 119, 120)))
    assert [Phase.WAIT, Phase.WAIT, Phase.DONE] == [decision.phase for decision in decisions]
    assert "the state of NVIDIADriver a is notReady" in decisions[2].warnings[0]


def test_an_expected_version_must_be_that_of_some_pool() -> None:
    """Which pool it was meant for cannot be known. One object is named, several are counted."""
    for version in ("580.126.20", "570.124.06"):
        decision, _memory = pooled(A, B).decide(Settings(expect=Expect(driver_version=version)))
        assert Reason.NOTHING_STALE is decision.reason, version
    unmet = Settings(expect=Expect(driver_version="590.1.2"))
    one, both = pooled(A).decide(unmet)[0], pooled(A, B).decide(unmet)[0]
    assert (Reason.EXPECTATION_UNMET, Reason.EXPECTATION_UNMET) == (one.reason, both.reason)
    assert "NVIDIADriver a asks for driver 580.126.20, expected 590.1.2" == one.message
    assert "each of 2 NVIDIADriver objects asks for driver 570.124.06, 580.126.20, expected 590.1.2" == both.message


def test_a_pool_whose_image_cannot_be_compared_is_warned_about() -> None:
    """Its nodes are evaluated by generation, revision and quiet time. A digest is compared as a whole."""
    for version, image, warned in (
        ("580.126.20", ":580.126.20-rhel9.4", False),
        (DIGEST, f"@{DIGEST}", False),
        ("", ":580.126.20-rhel9.4", True),
    ):
        containers = [{"name": "nvidia-driver-ctr", "image": f"nvcr.io/nvidia/driver{image}"}]
        rendered = {"spec": {"template": {"spec": {"containers": containers}}}}
        found = pooled(A).change("pool", {"spec": {"version": version}})
        decision, _memory = found.change("daemonset", rendered, "nvidia-gpu-driver-a").decide()
        texts = [warning for warning in decision.warnings if "names no driver image" in warning]
        assert (Phase.DONE, warned) == (decision.phase, bool(texts)), version


# Manual upgrades: no controller replaces driver pods (autoUpgrade off).

UNLABELLED = parsed(
    "metadata: {labels: {nvidia.com/gpu-driver-upgrade-state: null, nvidia.com/ofed-driver-upgrade-state: null}}"
)
OFF, AUTO = ({"upgradePolicy": {"autoUpgrade": on}} for on in (False, True))


def by_hand(mode: str) -> Cluster:
    """Return two nodes: the first was upgraded by hand and has a stale plugin, the second has an outdated driver."""
    if mode == "network":  # its default
        found = network("a", "b").change("policy", "spec: {ofedDriver: {upgradePolicy: null}}")
        found.put("plugin-pod", rdma_pod("a", started=-99)).change("driver-pod", OLD_HASH, "mofed-b")
    else:
        found = cluster("a", "b") if mode == "gpu" else pooled(Pool(nodes=("a", "b")))
        found.change("policy", {"spec": {"driver": OFF}}).put("plugin-pod", stale_plugin("a"))
        found.change("driver-pod", OLD_HASH, "driver-b")
    return found.change("node", UNLABELLED)


def test_an_outdated_node_is_handled_as_the_settings_ask() -> None:
    """The other one is refreshed first. Then report and be done, wait, or fail. The remedy names the pod to delete."""
    for mode in ("gpu", "pools", "network"):
        fresh = (network("a") if mode == "network" else cluster("a")).of("plugin-pod")
        for asked, state, phase in (
            (OnManualUpgrade.REPORT, NodeState.EXCLUDED, Phase.DONE),
            (OnManualUpgrade.WAIT, NodeState.WAITING, Phase.WAIT),
            (OnManualUpgrade.FAIL, NodeState.FAILED, Phase.FAIL),
        ):
            found, name = by_hand(mode), (mode, asked)
            settings = Settings(drivers=(found.stack.name,), on_manual_upgrade=asked)
            first, _memory = found.decide(settings)
            assert [Reason.PLUGIN_STALE, Reason.MANUAL_UPGRADE] == [status.reason for status in first.statuses], name
            assert (Phase.WAIT, 1) == (first.phase, len(first.actions)), name
            decision, _memory = found.put("plugin-pod", *fresh).decide(settings)
            assert (state, phase) == (decision.statuses[1].state, decision.phase), name
        found = by_hand(mode)
        status, pod = found.decide()[0].statuses[1], found.of("driver-pod")[1]["metadata"]
        fix = remedy(status.reason, status.node, status.subject, found.stack)
        assert "autoUpgrade is off" in status.message, mode
        assert fix.endswith(f"kubectl -n {pod['namespace']} delete pod {pod['name']}"), mode


def test_which_upgrade_policy_counts_for_a_pool() -> None:
    """Its own from 26.7 on, where on is the default. Sandbox workloads turn all of them off."""
    named = {"metadata": {"labels": {"nvidia.com/gpu-operator.driver.owner": "default"}}}
    halted: Object = {"sandboxWorkloads": {"enabled": True}}
    for policy, pool, nodes, expected in (
        ({"driver": AUTO}, {}, {}, Reason.DRIVER_OUTDATED),
        ({"driver": OFF}, {}, {}, Reason.MANUAL_UPGRADE),
        ({"driver": OFF}, {}, named, Reason.DRIVER_OUTDATED),
        ({"driver": AUTO}, OFF, named, Reason.MANUAL_UPGRADE),
        ({"driver": OFF}, AUTO, named, Reason.DRIVER_OUTDATED),
        ({"driver": OFF}, {"upgradePolicy": {"maxUnavailable": 1}}, {}, Reason.DRIVER_OUTDATED),
        ({"driver": OFF, **halted}, AUTO, named, Reason.MANUAL_UPGRADE),
        ({"driver": AUTO, **halted}, {}, named, Reason.MANUAL_UPGRADE),
    ):
        found = by_hand("pools").change("policy", {"spec": policy}).change("pool", {"spec": pool})
        found.change("node", nodes)
        found.change("node", {"metadata": {"labels": {"nvidia.com/gpu.workload.config": "container"}}})
        assert expected is reasons(found)[1], (policy, pool, nodes)


def test_each_pool_has_its_own_upgrade_policy() -> None:
    """Where one object has one, silence of the others is the default."""
    off, on = {"spec": OFF}, {"spec": AUTO}
    one_off = pooled(A, B).change("pool", off, "a").change("driver-pod", OLD_HASH)
    assert [Reason.MANUAL_UPGRADE, Reason.DRIVER_OUTDATED] == reasons(one_off)
    one_on = pooled(A, B).change("policy", {"spec": {"driver": OFF}}).change("pool", on, "a")
    assert [Reason.DRIVER_OUTDATED] * 2 == reasons(one_on.change("driver-pod", OLD_HASH))
    assert Phase.WAIT is one_on.decide()[0].phase, "every plugin is about to become stale"
