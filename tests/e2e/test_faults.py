"""An API server that is out of reach, a deletion that it refuses or that does not end, a DaemonSet that is replaced."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from devcluster.boot.ports import free_ports
from tests.e2e.acts import PATIENCE
from tests.e2e.lab import OLD, PLUGIN_NAME, PLUGIN_NAMESPACE
from tests.e2e.relay import Relay
from tests.e2e.resting import PLUGIN, PLUGINS, RestingLab

NODES: Final = 2
LAB: Final = RestingLab
WEBHOOK: Final = "freeze.example.com"
DELETING_PODS: Final = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}
IN_ITS_NAMESPACE: Final = {"matchLabels": {"kubernetes.io/metadata.name": PLUGIN_NAMESPACE}}
"""The plugin's: pods elsewhere go on."""
ADMISSION: Final = "admissionregistration.k8s.io/v1"
WORDS: Final = "change freeze 4711"
HOLD: Final[dict[str, Any]] = {"metadata": {"finalizers": ["example.com/hold"]}}
LET_GO: Final[dict[str, Any]] = {"metadata": {"finalizers": []}}


def test_an_api_server_that_is_out_of_reach(lab: RestingLab) -> None:
    """It is so through the whole upgrade: nothing is restarted unseen, and each plugin once when it is back."""
    relay = Relay(lab.cluster)
    run = lab.waiting(kubeconfig=relay.kubeconfig)
    relay.close()
    lab.upgrade()
    lab.until(lambda: lab.driven(OLD), "all drivers are reloaded", PATIENCE)
    lab.assert_untouched()
    relay.open()
    run.result().assert_phase("Done", "Refreshed")
    relay.close()
    lab.assert_clean(lab.nodes)


@contextmanager
def _frozen(lab: RestingLab, spared: str) -> Iterator[None]:
    """Let an admission policy refuse every deletion of a plugin, but on a node that is spared."""
    name = {"metadata": {"name": "freeze"}}
    matched = {"resourceRules": [DELETING_PODS], "namespaceSelector": IN_ITS_NAMESPACE}
    expression = f"oldObject.spec.nodeName == '{spared}'"
    spec = {
        "matchConstraints": matched,
        # As RBAC refuses, but for the words.
        "validations": [{"expression": expression, "message": WORDS, "reason": "Forbidden"}],
    }
    binding = {"policyName": "freeze", "validationActions": ["Deny"]}
    lab.apply(
        {"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", **name, "spec": spec},
        {"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", **name, "spec": binding},
    )
    try:
        lab.until(lambda: WORDS in _refusal(lab), "deletions are refused", PATIENCE)
        yield
    finally:
        lab.cluster.kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "freeze")
        lab.until(lambda: not _refusal(lab), "deletions are allowed", PATIENCE)


def _webhook(port: int) -> dict[str, Any]:
    """Describe a webhook for deletions of plugins that listens on a port."""
    webhook = {
        "name": WEBHOOK, "clientConfig": {"url": f"https://127.0.0.1:{port}/"}, "rules": [DELETING_PODS],
        "namespaceSelector": IN_ITS_NAMESPACE, "failurePolicy": "Fail", "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }  # fmt: skip
    kind = {"apiVersion": ADMISSION, "kind": "ValidatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": WEBHOOK}, "webhooks": [webhook]}


def _refusal(lab: RestingLab) -> str:
    pod = lab.plugins("gpu-0")[0]["metadata"]["name"]
    tried = lab.cluster.kubectl("delete", "pod", pod, "-n", PLUGIN_NAMESPACE, "--dry-run=server", check=False)
    return tried.stderr if tried.returncode else ""


def test_an_admission_policy_and_a_disruption_budget(lab: RestingLab) -> None:
    """A policy's 403 ends the run, in its own words, after a plugin that is spared was refreshed.

    A budget does not: it bounds evictions, not deletions.
    """
    lab.make_stale()
    with _frozen(lab, spared="gpu-1"):
        refused = lab.begin().result().assert_phase("Fail", "RestartRefused")
    assert refused.reasons() == {"gpu-0": "RestartRefused"}
    assert WORDS in refused.story["message"]
    assert "validatingadmissionpolicies" in refused.story["next"]
    assert "permission missing" not in refused.said
    assert lab.restarts() == ["gpu-1"]

    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}}}
    name = {"name": "none", "namespace": PLUGIN_NAMESPACE}
    lab.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": name, "spec": spec})
    try:
        lab.begin().result().assert_phase("Done", "Refreshed")
    finally:
        lab.cluster.kubectl("delete", "poddisruptionbudget", "none", "-n", PLUGIN_NAMESPACE)
    lab.assert_clean(lab.nodes)


def test_a_webhook_that_is_broken(lab: RestingLab) -> None:
    """It may recover: the run tries again, and completes."""
    lab.make_stale()
    (port,) = free_ports(1)
    lab.apply(_webhook(port))
    try:
        lab.until(lambda: WEBHOOK in _refusal(lab), "deletions are refused", PATIENCE)
        run = lab.begin()
        lab.until(lambda: WEBHOOK in run.said or run.over, "it tries", PATIENCE)
        lab.assert_untouched()
    finally:
        lab.cluster.kubectl("delete", "validatingwebhookconfiguration", WEBHOOK)
    run.result().assert_phase("Done", "Refreshed")
    lab.assert_clean(lab.nodes)


def test_a_finalizer_that_keeps_the_old_pod(lab: RestingLab) -> None:
    """Its successor cannot come while it is there: after the plugin's timeout exit 3, which names the pod."""
    # Once it is let go, a run that still waits continues, and restarts nothing a second time.
    lab.make_stale("gpu-1")
    (pod,) = lab.plugins("gpu-1")
    name = pod["metadata"]["name"]
    lab.cluster.patch(f"{PLUGINS}/{name}", HOLD)
    try:
        stuck = lab.begin("pluginTimeout=6s").result().assert_phase("Fail", "PluginRestarting")
        assert stuck.reasons() == {"gpu-1": "PluginRestarting"}
        assert all(words in stuck.story["message"] for words in (name, "terminating"))
        patient = lab.begin("pluginTimeout=100s", "--log-format=json", "--verbose")
        lab.until(lambda: "is terminating" in patient.said or patient.over, "the run waits for it", PATIENCE)
    finally:
        lab.cluster.patch(f"{PLUGINS}/{name}", LET_GO)
    patient.result().assert_phase("Done", "NothingStale")
    lab.assert_clean(["gpu-1"])


def test_a_plugin_that_is_not_created_again(lab: RestingLab) -> None:
    """A quota keeps the DaemonSet from replacing what was deleted: exit 3. The next run continues."""
    lab.make_stale()
    quota = ("quota", "no-more-pods", "-n", PLUGIN_NAMESPACE)
    lab.cluster.kubectl("create", *quota, "--hard=pods=0")
    try:
        failed = lab.begin("pluginTimeout=10s").result().assert_phase("Fail", "PluginMissing")
        assert failed.reasons() == dict.fromkeys(lab.nodes, "PluginMissing")
    finally:
        lab.cluster.kubectl("delete", *quota)
    lab.begin().result().assert_phase("Done", "NothingStale")
    lab.assert_clean(lab.nodes)


def test_daemonset_created_again(lab: RestingLab) -> None:
    """The pods that another DaemonSet of the same name adopts are refreshed."""
    run = lab.waiting("nodeTimeout=100s")
    found = lab.cluster.get(PLUGIN)
    metadata = {"name": PLUGIN_NAME, "namespace": PLUGIN_NAMESPACE, "labels": found["metadata"]["labels"]}
    lab.cluster.kubectl("delete", "daemonset", PLUGIN_NAME, "-n", PLUGIN_NAMESPACE, "--cascade=orphan")
    lab.until(lambda: "that may change in a moment" in run.said, "the run has noticed", PATIENCE)
    assert not run.over
    lab.apply({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": found["spec"]})
    lab.until(lambda: lab.serving() == NODES, "the plugins are owned again", PATIENCE)
    lab.began = time.time()
    lab.upgrade()
    run.result().assert_phase("Done", "Refreshed")
    lab.assert_clean(lab.nodes)
