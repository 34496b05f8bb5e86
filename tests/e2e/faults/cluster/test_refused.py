"""A deletion that is refused, or does not come to an end; permissions that are taken away. For a while, or for good.

Refused for good it ends the run with exit 3, in the words of the refusal; refused for a while it is a delay.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from devcluster.boot.ports import free_ports
from tests.e2e.acts import PATIENCE
from tests.e2e.faults.cluster.doorway import Doorway
from tests.e2e.faults.cluster.ground import HOLD, LET_GO, PLUGINS, Ground
from tests.e2e.identity import RBAC, Right, allow, charted, kubeconfig
from tests.e2e.lab import PLUGIN_NAMESPACE

NAME: Final = "freeze.example.com"
DELETING_PODS: Final = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}
IN_ITS_NAMESPACE: Final = {"matchLabels": {"kubernetes.io/metadata.name": PLUGIN_NAMESPACE}}
"""The plugin's: pods elsewhere go on."""


NODES = 2
ADMISSION: Final = "admissionregistration.k8s.io/v1"
WORDS: Final = "change freeze 4711"
BINDINGS: Final = f"/apis/{RBAC}/clusterrolebindings"
DELETE_PODS: Final = Right("", "pods", "delete")


def _somebody(ground: Ground, name: str) -> Path:
    return kubeconfig(ground.cluster, name, charted(ground.cluster))


def _take_deletions(ground: Ground, name: str) -> None:
    allow(ground.cluster, name, charted(ground.cluster) - {DELETE_PODS})


def _take_rights(ground: Ground, name: str) -> dict[str, Any]:
    found = ground.cluster.get(f"{BINDINGS}/{name}")
    ground.cluster.delete(f"{BINDINGS}/{name}")
    return {**found, "metadata": {"name": name}}


@contextmanager
def _frozen(ground: Ground, spared: str = "", reason: str = "Invalid") -> Iterator[None]:
    """Let an admission policy refuse every deletion of a plugin, but on a node that is spared."""
    name = {"metadata": {"name": "freeze"}}
    matched = {"resourceRules": [DELETING_PODS], "namespaceSelector": IN_ITS_NAMESPACE}
    expression = f"oldObject.spec.nodeName == '{spared}'"
    spec = {
        "matchConstraints": matched,
        "validations": [{"expression": expression, "message": WORDS, "reason": reason}],
    }
    binding = {"policyName": "freeze", "validationActions": ["Deny"]}
    ground.apply(
        {"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", **name, "spec": spec},
        {"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", **name, "spec": binding},
    )
    try:
        _await_refusal(ground, WORDS)
        yield
    finally:
        ground.cluster.kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "freeze")
        ground.until(lambda: not _refusal(ground), "deletions are allowed", PATIENCE)


def _webhook(port: int) -> dict[str, Any]:
    """Describe a webhook for deletions of plugins that listens on a port."""
    webhook = {
        "name": NAME, "clientConfig": {"url": f"https://127.0.0.1:{port}/"}, "rules": [DELETING_PODS],
        "namespaceSelector": IN_ITS_NAMESPACE, "failurePolicy": "Fail", "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }  # fmt: skip
    kind = {"apiVersion": ADMISSION, "kind": "ValidatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": NAME}, "webhooks": [webhook]}


def _refusal(ground: Ground) -> str:
    pod = ground.plugins("gpu-0")[0]["metadata"]["name"]
    tried = ground.cluster.kubectl("delete", "pod", pod, "-n", PLUGIN_NAMESPACE, "--dry-run=server", check=False)
    return tried.stderr if tried.returncode else ""


def _await_refusal(ground: Ground, words: str) -> None:
    ground.until(lambda: words in _refusal(ground), "deletions are refused", PATIENCE)


def _refreshed(ground: Ground) -> None:
    ground.begin().told().assert_phase("Done", "Refreshed")
    ground.assert_clean(ground.nodes)


def test_an_admission_policy_and_a_disruption_budget(ground: Ground) -> None:
    """A policy ends the run at once, in its own words. A budget does not: it bounds evictions, not deletions."""
    ground.spoil()
    with _frozen(ground):
        refused = ground.begin().told().assert_phase("Fail", "RestartRefused")
    assert refused.reasons() == dict.fromkeys(ground.nodes, "RestartRefused")
    assert WORDS in refused.story["message"]
    assert "validatingadmissionpolicies" in refused.story["next"]
    ground.assert_untouched()

    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}}}
    name = {"name": "none", "namespace": PLUGIN_NAMESPACE}
    ground.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": name, "spec": spec})
    try:
        _refreshed(ground)
    finally:
        ground.cluster.kubectl("delete", "poddisruptionbudget", "none", "-n", PLUGIN_NAMESPACE)


def test_a_refusal_as_by_rbac(ground: Ground) -> None:
    """A 403 that names no permission ends the run with exit 3. A plugin that is spared is refreshed."""
    ground.spoil()
    with _frozen(ground, "gpu-1", "Forbidden"):
        forbidden = ground.begin().told().assert_phase("Fail", "RestartRefused")
    assert forbidden.reasons() == {"gpu-0": "RestartRefused"}
    assert WORDS in forbidden.said
    assert "permission missing" not in forbidden.said
    assert ground.truth.stale_now() == ("gpu-0",)
    assert ground.restarts() == ["gpu-1"]
    _refreshed(ground)


def test_a_webhook_that_is_broken(ground: Ground, door: Doorway) -> None:
    """It may recover: the run tries again, and completes."""
    ground.spoil()
    (port,) = free_ports(1)
    ground.apply(_webhook(port))
    try:
        _await_refusal(ground, NAME)
        run = ground.begin(kubeconfig=door.through())
        ground.until(lambda: bool(door.asked("delete")) or run.over, "it tries", PATIENCE)
        ground.assert_untouched()
    finally:
        ground.cluster.kubectl("delete", "validatingwebhookconfiguration", NAME)
    run.told().assert_phase("Done", "Refreshed")
    ground.assert_clean(ground.nodes)


def test_a_finalizer_that_keeps_the_old_pod(ground: Ground) -> None:
    """Its successor cannot come while it is there: after the plugin's timeout exit 3, which names the pod."""
    # Once it is let go, a run that still waits continues, and restarts nothing a second time.
    ground.spoil("gpu-1")
    (pod,) = ground.plugins("gpu-1")
    name = pod["metadata"]["name"]
    ground.cluster.patch(f"{PLUGINS}/{name}", HOLD)
    try:
        stuck = ground.begin("pluginTimeout=6s").told().assert_phase("Fail", "PluginRestarting")
        assert stuck.reasons() == {"gpu-1": "PluginRestarting"}
        assert all(words in stuck.story["message"] for words in (name, "terminating"))
        patient = ground.begin("pluginTimeout=100s", "--log-format=json", "--verbose")
        ground.until(lambda: "is terminating" in patient.said or patient.over, "the run waits for it", PATIENCE)
    finally:
        ground.cluster.patch(f"{PLUGINS}/{name}", LET_GO)
    patient.told().assert_phase("Done", "NothingStale")
    ground.assert_clean(["gpu-1"])


def test_rights_that_come_back(ground: Ground, door: Doorway) -> None:
    """Gone for seconds, for watches first and then for deletions: asked again, and nothing is missed."""
    run = ground.waiting(kubeconfig=door.through(_somebody(ground, "forgiven")))
    ground.until(door.watches_all, "it watches everything", PATIENCE)
    binding = _take_rights(ground, "forgiven")
    door.cut()
    ground.until(lambda: door.refused("watch") > 0 or run.over, "watches are refused", PATIENCE)
    ground.cluster.create(BINDINGS, binding)
    ground.until(lambda: door.watches_all(2) or run.over, "watches are allowed again", PATIENCE)
    _take_deletions(ground, "forgiven")
    ground.upgrade()
    ground.until(lambda: door.refused("delete") > 0 or run.over, "a deletion is refused", PATIENCE)
    ground.assert_untouched()
    allow(ground.cluster, "forgiven", charted(ground.cluster))
    run.told().assert_phase("Done", "Refreshed")
    ground.assert_clean(ground.nodes)


def test_rights_that_do_not_come_back(ground: Ground, door: Doorway) -> None:
    """After some seconds exit 3, which names the permission: for a watch, and for a deletion."""
    blind = ground.waiting(kubeconfig=door.through(_somebody(ground, "blind")))
    bound = ground.waiting(kubeconfig=_somebody(ground, "bound"))
    ground.until(door.watches_all, "it watches everything", PATIENCE)
    _take_rights(ground, "blind")
    _take_deletions(ground, "bound")
    door.cut()
    ground.upgrade()
    ends = {"watch": blind.told(), "delete pods": bound.told()}
    for right, end in ends.items():
        end.assert_phase("Fail", "PermissionMissing")
        assert f"permission missing: {right}" in end.story["message"]
        assert end.story["next"].startswith("PermissionMissing")
    assert f"in namespace {PLUGIN_NAMESPACE}" in ends["delete pods"].story["message"]
    ground.assert_untouched()
    ground.begin().told().assert_phase("Done", "Refreshed")
    ground.assert_clean(ground.nodes)
