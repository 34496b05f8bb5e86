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
from tests.e2e.faults.cluster.resting import HOLD, LET_GO, PLUGINS, RestingLab
from tests.e2e.faults.cluster.stopping import StoppingProxy
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


def _somebody(lab: RestingLab, name: str) -> Path:
    return kubeconfig(lab.cluster, name, charted(lab.cluster))


def _take_deletions(lab: RestingLab, name: str) -> None:
    allow(lab.cluster, name, charted(lab.cluster) - {DELETE_PODS})


def _take_rights(lab: RestingLab, name: str) -> dict[str, Any]:
    found = lab.cluster.get(f"{BINDINGS}/{name}")
    lab.cluster.delete(f"{BINDINGS}/{name}")
    return {**found, "metadata": {"name": name}}


@contextmanager
def _frozen(lab: RestingLab, spared: str = "", reason: str = "Invalid") -> Iterator[None]:
    """Let an admission policy refuse every deletion of a plugin, but on a node that is spared."""
    name = {"metadata": {"name": "freeze"}}
    matched = {"resourceRules": [DELETING_PODS], "namespaceSelector": IN_ITS_NAMESPACE}
    expression = f"oldObject.spec.nodeName == '{spared}'"
    spec = {
        "matchConstraints": matched,
        "validations": [{"expression": expression, "message": WORDS, "reason": reason}],
    }
    binding = {"policyName": "freeze", "validationActions": ["Deny"]}
    lab.apply(
        {"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", **name, "spec": spec},
        {"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", **name, "spec": binding},
    )
    try:
        _await_refusal(lab, WORDS)
        yield
    finally:
        lab.cluster.kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "freeze")
        lab.until(lambda: not _refusal(lab), "deletions are allowed", PATIENCE)


def _webhook(port: int) -> dict[str, Any]:
    """Describe a webhook for deletions of plugins that listens on a port."""
    webhook = {
        "name": NAME, "clientConfig": {"url": f"https://127.0.0.1:{port}/"}, "rules": [DELETING_PODS],
        "namespaceSelector": IN_ITS_NAMESPACE, "failurePolicy": "Fail", "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }  # fmt: skip
    kind = {"apiVersion": ADMISSION, "kind": "ValidatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": NAME}, "webhooks": [webhook]}


def _refusal(lab: RestingLab) -> str:
    pod = lab.plugins("gpu-0")[0]["metadata"]["name"]
    tried = lab.cluster.kubectl("delete", "pod", pod, "-n", PLUGIN_NAMESPACE, "--dry-run=server", check=False)
    return tried.stderr if tried.returncode else ""


def _await_refusal(lab: RestingLab, words: str) -> None:
    lab.until(lambda: words in _refusal(lab), "deletions are refused", PATIENCE)


def _refreshed(lab: RestingLab) -> None:
    lab.begin().told().assert_phase("Done", "Refreshed")
    lab.assert_clean(lab.nodes)


def test_an_admission_policy_and_a_disruption_budget(lab: RestingLab) -> None:
    """A policy ends the run at once, in its own words. A budget does not: it bounds evictions, not deletions."""
    lab.make_stale()
    with _frozen(lab):
        refused = lab.begin().told().assert_phase("Fail", "RestartRefused")
    assert refused.reasons() == dict.fromkeys(lab.nodes, "RestartRefused")
    assert WORDS in refused.story["message"]
    assert "validatingadmissionpolicies" in refused.story["next"]
    lab.assert_untouched()

    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}}}
    name = {"name": "none", "namespace": PLUGIN_NAMESPACE}
    lab.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": name, "spec": spec})
    try:
        _refreshed(lab)
    finally:
        lab.cluster.kubectl("delete", "poddisruptionbudget", "none", "-n", PLUGIN_NAMESPACE)


def test_a_refusal_as_by_rbac(lab: RestingLab) -> None:
    """A 403 that names no permission ends the run with exit 3. A plugin that is spared is refreshed."""
    lab.make_stale()
    with _frozen(lab, "gpu-1", "Forbidden"):
        forbidden = lab.begin().told().assert_phase("Fail", "RestartRefused")
    assert forbidden.reasons() == {"gpu-0": "RestartRefused"}
    assert WORDS in forbidden.said
    assert "permission missing" not in forbidden.said
    assert lab.truth.stale_now() == ("gpu-0",)
    assert lab.restarts() == ["gpu-1"]
    _refreshed(lab)


def test_a_webhook_that_is_broken(lab: RestingLab, stopping: StoppingProxy) -> None:
    """It may recover: the run tries again, and completes."""
    lab.make_stale()
    (port,) = free_ports(1)
    lab.apply(_webhook(port))
    try:
        _await_refusal(lab, NAME)
        run = lab.begin(kubeconfig=stopping.through())
        lab.until(lambda: bool(stopping.asked("delete")) or run.over, "it tries", PATIENCE)
        lab.assert_untouched()
    finally:
        lab.cluster.kubectl("delete", "validatingwebhookconfiguration", NAME)
    run.told().assert_phase("Done", "Refreshed")
    lab.assert_clean(lab.nodes)


def test_a_finalizer_that_keeps_the_old_pod(lab: RestingLab) -> None:
    """Its successor cannot come while it is there: after the plugin's timeout exit 3, which names the pod."""
    # Once it is let go, a run that still waits continues, and restarts nothing a second time.
    lab.make_stale("gpu-1")
    (pod,) = lab.plugins("gpu-1")
    name = pod["metadata"]["name"]
    lab.cluster.patch(f"{PLUGINS}/{name}", HOLD)
    try:
        stuck = lab.begin("pluginTimeout=6s").told().assert_phase("Fail", "PluginRestarting")
        assert stuck.reasons() == {"gpu-1": "PluginRestarting"}
        assert all(words in stuck.story["message"] for words in (name, "terminating"))
        patient = lab.begin("pluginTimeout=100s", "--log-format=json", "--verbose")
        lab.until(lambda: "is terminating" in patient.said or patient.over, "the run waits for it", PATIENCE)
    finally:
        lab.cluster.patch(f"{PLUGINS}/{name}", LET_GO)
    patient.told().assert_phase("Done", "NothingStale")
    lab.assert_clean(["gpu-1"])


def test_rights_that_come_back(lab: RestingLab, stopping: StoppingProxy) -> None:
    """Gone for seconds, for watches first and then for deletions: asked again, and nothing is missed."""
    run = lab.waiting(kubeconfig=stopping.through(_somebody(lab, "forgiven")))
    lab.until(stopping.watches_all, "it watches everything", PATIENCE)
    binding = _take_rights(lab, "forgiven")
    stopping.cut()
    lab.until(lambda: stopping.refused("watch") > 0 or run.over, "watches are refused", PATIENCE)
    lab.cluster.create(BINDINGS, binding)
    lab.until(lambda: stopping.watches_all(2) or run.over, "watches are allowed again", PATIENCE)
    _take_deletions(lab, "forgiven")
    lab.upgrade()
    lab.until(lambda: stopping.refused("delete") > 0 or run.over, "a deletion is refused", PATIENCE)
    lab.assert_untouched()
    allow(lab.cluster, "forgiven", charted(lab.cluster))
    run.told().assert_phase("Done", "Refreshed")
    lab.assert_clean(lab.nodes)


def test_rights_that_do_not_come_back(lab: RestingLab, stopping: StoppingProxy) -> None:
    """After some seconds exit 3, which names the permission: for a watch, and for a deletion."""
    blind = lab.waiting(kubeconfig=stopping.through(_somebody(lab, "blind")))
    bound = lab.waiting(kubeconfig=_somebody(lab, "bound"))
    lab.until(stopping.watches_all, "it watches everything", PATIENCE)
    _take_rights(lab, "blind")
    _take_deletions(lab, "bound")
    stopping.cut()
    lab.upgrade()
    ends = {"watch": blind.told(), "delete pods": bound.told()}
    for right, end in ends.items():
        end.assert_phase("Fail", "PermissionMissing")
        assert f"permission missing: {right}" in end.story["message"]
        assert end.story["next"].startswith("PermissionMissing")
    assert f"in namespace {PLUGIN_NAMESPACE}" in ends["delete pods"].story["message"]
    lab.assert_untouched()
    lab.begin().told().assert_phase("Done", "Refreshed")
    lab.assert_clean(lab.nodes)
