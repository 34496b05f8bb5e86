"""A third driver stack is a row, a reader, a few names and a fixture set: docs/adding-a-stack.md, walked through."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec.structs import replace

from hook.config import Settings
from hook.decide import decide
from hook.decide.explain import remedy
from hook.decide.reasons import Reason
from hook.decide.result import DeletePod, Phase
from hook.kube import requests
from hook.objects import drivers, names
from hook.objects.decoding import reads
from hook.objects.drivers import DriverPods, NodeLabels, Operator, PluginKind, PolicyKind, Stack, UpgradeLabels
from hook.objects.policies import nic_cluster_policy
from tests.chart.needs import Role, permissions
from tests.fixtures.cluster import LATER, Cluster
from tests.fixtures.modes import owner, wants
from tests.fixtures.objects import Object, R, conditions, merged, obj, running

if TYPE_CHECKING:
    from hook.objects.policies import Policy

LABEL: Final = "example.com/storage-driver"
PRESENT: Final = "example.com/storage.present"


@reads(nic_cluster_policy.shape)
def storage_policy(found: Any) -> Policy:  # noqa: ANN401 - a Struct of its own kind
    """Read the third stack's policy, the one view that it needs; here it is spelled like one that exists."""
    return nic_cluster_policy.build(replace(found, spec={"ofedDriver": found.spec["driver"]}))


STORAGE: Final = Stack(
    name="storage",
    device="a storage adapter",
    policy=PolicyKind("example.com", "v1", "storagepolicies", "StoragePolicy", storage_policy),
    operator=Operator("storage operator", "app=storage-operator", "storage.example.com", "storage-operator"),
    driver=DriverPods(
        label=(LABEL, "yes"),
        container="driver",
        unloader="",
        owners=frozenset({"StoragePolicy"}),
        tag="{version}",
    ),
    nodes=NodeLabels(present=PRESENT),
    upgrade=UpgradeLabels(state="example.com/state", skip="example.com/skip", counts_unavailable=False),
    plugin=PluginKind(noun="csi plugin", names=("storage-csi-node",)),
    failed_upgrade_command="kubectl -n {namespace} delete pod {name}",
)


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the row to the table, and its labels to the ones that are kept when objects are read."""
    monkeypatch.setitem(drivers.STACKS, STORAGE.name, STORAGE)
    monkeypatch.setattr(names, "NODE_LABEL_PREFIXES", (*names.NODE_LABEL_PREFIXES, "example.com/"))
    monkeypatch.setattr(names, "DAEMONSET_LABELS", names.DAEMONSET_LABELS | {LABEL})


def pod(what: str, uid: str, container: str, started: float, ready: float) -> Object:
    """Give a pod of a DaemonSet on the node a."""
    patch: Object = {
        "metadata": {"name": f"{what}-a", "uid": f"{what}-a", "ownerReferences": owner(uid)},
        "spec": {"nodeName": "a", "initContainers": [], "containers": [{"name": container}]},
        "status": {
            "conditions": conditions(ready),
            "initContainerStatuses": [],
            "containerStatuses": [running(container, started)],
        },
    }
    return obj("network/driver-pod", patch)


def daemonset(name: str, uid: str, containers: list[Object], labels: dict[str, str]) -> Object:
    """Give a DaemonSet that has its one pod; nobody owns it."""
    patch: Object = {
        "metadata": {"name": name, "uid": uid, "labels": labels},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}},
        **wants(1),
    }
    return obj("network/plugin-daemonset", patch)


def storage(plugin_started: float = R + 6, **driver: object) -> Cluster:
    """Give the third stack's fixture set: one node, its driver settled, its plugin started at a moment."""
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


def test_a_fresh_plugin_of_a_third_stack_is_done() -> None:
    """End to end through ``decide``: rendered, settled, fresh, verified."""
    decision, _memory = storage().decide()
    assert (Phase.DONE, Reason.NOTHING_STALE) == (decision.phase, decision.reason)
    assert "no csi plugin needed a restart, 1 run on the loaded driver" == decision.message


def test_a_stale_one_is_restarted_and_then_done() -> None:
    """By the same rules, in its own words."""
    decision, memory = storage(-9).decide()
    (action,) = decision.actions
    assert isinstance(action, DeletePod)
    assert (Phase.WAIT, "csi-a") == (decision.phase, action.pod.name)
    assert decision.statuses[0].message.startswith("csi plugin pod csi-a is stale")
    memory = memory.asked(action.node, action.pod, LATER)
    done, _memory = storage().decide(memory=memory, now=LATER + timedelta(seconds=30))
    assert (Phase.DONE, Reason.REFRESHED) == (done.phase, done.reason)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(lambda: storage(version="1.2.4"), Reason.NOT_RENDERED, id="not-rendered"),
        pytest.param(lambda: storage().drop("driver-pod"), Reason.DRIVER_MISSING, id="between-pods"),
        pytest.param(lambda: storage().change("node", {"metadata": {"labels": {"example.com/skip": "true"}}}),
                     Reason.NODE_SKIPPED, id="skipped"),
        pytest.param(lambda: storage().change("node", {"metadata": {"labels": {"example.com/state":
                     "drain-required"}}}), Reason.UPGRADE_IN_PROGRESS, id="its-turn-comes"),
        pytest.param(lambda: storage(upgradePolicy={}).change("driver-pod", {"metadata": {"labels": {
            "controller-revision-hash": "old"}}}).change("daemonset", {"spec": {"updateStrategy": {
                "type": "OnDelete"}}}), Reason.MANUAL_UPGRADE, id="nobody-rotates"),
    ],
)  # fmt: skip
def test_every_guard_reads_the_new_row(found: Any, expected: Reason) -> None:  # noqa: ANN401 - it needs the row
    """No guard knows a stack by itself."""
    assert expected is found().judge().reason


def test_it_takes_part_in_a_run_of_several() -> None:
    """Chosen by its name."""
    settings = Settings(drivers=("storage",))
    decision, memories = decide.decide_all({"storage": storage(-9).seen()}, {}, settings, LATER)
    assert ({"storage"}, ["storage"]) == (set(memories), [one.stack for one in decision.statuses])


def test_the_rule_of_rbac_that_it_needs_is_named() -> None:
    """The chart's contract test asks for it."""
    needed = permissions([STORAGE], "delete-stale-pods", Role.JOB)
    assert ("list", "watch") == needed[requests.policies_of(STORAGE.policy)]


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_can_be_told_of_it(reason: Reason) -> None:
    """Every explanation is complete with this row."""
    assert "{" not in remedy(reason, "a", "ns/pod", STORAGE).replace("{NAME", "")
