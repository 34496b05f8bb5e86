"""A third driver stack is a row, a reader, a few names and a fixture set: all steps of docs/dev/adding-a-driver.md."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from hook.config import Settings
from hook.decide import decide
from hook.decide.explain import remedy
from hook.decide.reasons import Reason
from hook.decide.result import Decision, Phase
from hook.kube import requests
from hook.objects import drivers, names
from hook.objects.decoding import reads
from hook.objects.drivers import DriverPods, NodeLabels, Operator, PluginKind, PolicyKind, Stack, UpgradeLabels
from hook.objects.policies import Policy, nic_cluster_policy
from tests.chart.needs import Role, permissions
from tests.fixtures.cluster import LATER, Cluster
from tests.fixtures.modes import owner, wants
from tests.fixtures.objects import Object, R, conditions, merged, obj, running
from tests.unit.decide import patches
from tests.unit.decide.runs import Run, pods

LABEL: Final = "example.com/storage-driver"
SETTINGS: Final = Settings(drivers=("storage",))
PRESENT: Final = "example.com/storage.present"


@reads(nic_cluster_policy.shape)
def storage_policy(found: Any) -> Policy:  # noqa: ANN401 - a Struct of its own kind
    """Read the policy of the third stack, the only view that it needs; its spec is that of a NicClusterPolicy."""
    return nic_cluster_policy.build(replace(found, spec={"ofedDriver": found.spec["driver"]}))


STORAGE: Final = Stack(
    name="storage",
    device="a storage adapter",
    policy=PolicyKind("example.com", "v1", "storagepolicies", "StoragePolicy", storage_policy),
    operator=Operator("storage operator", "app=storage-operator", "storage.example.com", "storage-operator"),
    driver=DriverPods(
        label=(LABEL, "yes"), container="driver", unloader="", owners=frozenset({"StoragePolicy"}), tag="{version}"
    ),
    nodes=NodeLabels(present=PRESENT),
    upgrade=UpgradeLabels(state="example.com/state", skip="example.com/skip", counts_unavailable=False),
    plugin=PluginKind(noun="csi plugin", names=("storage-csi-node",)),
    failed_upgrade_command="kubectl -n {namespace} delete pod {name}",
)


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the row to the table, and its labels to those that are kept when objects are read."""
    monkeypatch.setitem(drivers.STACKS, STORAGE.name, STORAGE)
    monkeypatch.setattr(names, "NODE_LABEL_PREFIXES", (*names.NODE_LABEL_PREFIXES, "example.com/"))
    monkeypatch.setattr(names, "DAEMONSET_LABELS", names.DAEMONSET_LABELS | {LABEL})


def pod(what: str, uid: str, container: str, started: float, ready: float) -> Object:
    """Return a pod of a DaemonSet on the node a."""
    ran = {"initContainerStatuses": [], "containerStatuses": [running(container, started)]}
    patch: Object = {
        "metadata": {"name": f"{what}-a", "uid": f"{what}-a", "ownerReferences": owner(uid)},
        "spec": {"nodeName": "a", "initContainers": [], "containers": [{"name": container}]},
        "status": {"conditions": conditions(ready), **ran},
    }
    return obj("network/driver-pod", patch)


def daemonset(name: str, uid: str, containers: list[Object], labels: dict[str, str]) -> Object:
    """Return a DaemonSet that has its one pod, and no owner."""
    patch: Object = {
        "metadata": {"name": name, "uid": uid, "labels": labels},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}},
        **wants(1),
    }
    return obj("network/plugin-daemonset", patch)


def storage(plugin_started: float = R + 6, **driver: object) -> Cluster:
    """Return the fixture set of the third stack: one node, its driver settled, its plugin started at a moment."""
    asked = {"repository": "registry.example.com", "image": "storage", "version": "1.2.3",
             "upgradePolicy": {"autoUpgrade": True}, **driver}  # fmt: skip
    policy = merged(obj("network/policy"), {"spec": {"ofedDriver": None, "driver": asked}})
    node = obj("network/node", {"metadata": {"name": "a", "labels": {PRESENT: "true"}}})
    image = [{"name": "driver", "image": "registry.example.com/storage:1.2.3"}]
    found = Cluster(stack=STORAGE).put("policy", policy).put("node", node)
    found.put("daemonset", daemonset("storage-driver", "driver-ds", image, {LABEL: "yes"}))
    found.put("daemonset", daemonset("storage-csi-node", "csi-ds", [{"name": "csi"}], {}))
    found.put("revision", obj("network/revision", {"metadata": {"ownerReferences": owner("driver-ds")}}))
    found.put("driver-pod", pod("driver", "driver-ds", "driver", 0, R))
    found.put("plugin-pod", pod("csi", "csi-ds", "csi", plugin_started, plugin_started + 2))
    return found.put("deployment", obj("network/deployment")).put("replicaset", obj("network/replicaset"))


def test_a_plugin_of_a_third_stack_is_verified_or_restarted() -> None:
    """By the same rules, in the words of its stack: rendered, settled, fresh, verified."""
    assert "no csi plugin needed a restart, 1 run on the loaded driver" == storage().decide()[0].message
    run = Run(storage(-9), SETTINGS)
    decision = run.act()
    assert (Phase.WAIT, ["csi-a"]) == (decision.phase, pods(decision))
    assert decision.statuses[0].message.startswith("csi plugin pod csi-a is stale")
    done = run.then(storage()).look(30)
    assert (Phase.DONE, Reason.REFRESHED) == (done.phase, done.reason)


def test_every_rule_reads_the_new_row() -> None:
    """No rule knows a stack by itself."""
    by_hand = storage(upgradePolicy={}).change("driver-pod", patches.OUTDATED).change("daemonset", patches.ON_DELETE)
    for found, expected in (
        (storage(version="1.2.4"), Reason.NOT_RENDERED),
        (storage().drop("driver-pod"), Reason.DRIVER_MISSING),
        (storage().change("node", {"metadata": {"labels": {"example.com/skip": "true"}}}), Reason.NODE_SKIPPED),
        (storage().change("node", {"metadata": {"labels": {"example.com/state": "drain-required"}}}),
         Reason.UPGRADE_IN_PROGRESS),
        (by_hand, Reason.MANUAL_UPGRADE),
    ):  # fmt: skip
        assert expected is found.judge().reason
    for reason in Reason:
        assert "{" not in remedy(reason, "a", "ns/pod", STORAGE).replace("{NAME", ""), reason


def test_a_third_stack_takes_part_in_a_run_of_several() -> None:
    """It is chosen by its name. The tests of the chart ask for its permissions."""
    decision, memories = decide.decide_all({"storage": storage(-9).seen()}, {}, SETTINGS, LATER)
    assert ({"storage"}, ["storage"]) == (set(memories), [status.stack for status in decision.statuses])
    done = Decision(Phase.DONE, Reason.REFRESHED, "two were restarted")
    both = decide.combined({"gpu": done, "storage": Decision(Phase.WAIT, Reason.NODES_PENDING, "one is left")})
    assert (Phase.WAIT, "storage: one is left; gpu: two were restarted") == (both.phase, both.message)
    needed = permissions([STORAGE], Role.JOB)
    assert ("list", "watch") == needed[requests.policies_of(STORAGE.policy)]
