"""A deletion that somebody refuses, or that does not come to an end: for a while, or for ever.

Refused for ever it needs a person, who is told the words of whoever refused; refused for a while it is a delay. A
disruption budget has no say: it bounds evictions, and this program deletes.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.e2e.acts import PATIENCE
from tests.e2e.faults.cluster.ground import PLUGINS
from tests.e2e.faults.cluster.webhook import DELETING_PODS, IN_ITS_NAMESPACE, NAME, Webhook
from tests.e2e.lab import PLUGIN_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.faults.cluster.ground import Ground

pytestmark = pytest.mark.e2e

NODES = 2
ADMISSION: Final = "admissionregistration.k8s.io/v1"
WORDS: Final = "change freeze 4711"
HOLD: Final[dict[str, Any]] = {"metadata": {"finalizers": ["example.com/hold"]}}
RELEASE: Final[dict[str, Any]] = {"metadata": {"finalizers": []}}


@contextmanager
def _frozen(ground: Ground) -> Iterator[None]:
    """Let an admission policy refuse every deletion of a plugin."""
    name = {"metadata": {"name": "freeze"}}
    matched = {"resourceRules": [DELETING_PODS], "namespaceSelector": IN_ITS_NAMESPACE}
    spec = {"matchConstraints": matched, "validations": [{"expression": "false", "message": WORDS}]}
    binding = {"policyName": "freeze", "validationActions": ["Deny"]}
    ground.apply(
        {"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", **name, "spec": spec},
        {"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", **name, "spec": binding},
    )
    try:
        ground.until(lambda: WORDS in _refusal(ground), "deletions are refused", PATIENCE)
        yield
    finally:
        ground.cluster.kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "freeze")
        ground.until(lambda: not _refusal(ground), "deletions are allowed", PATIENCE)


def _refusal(ground: Ground) -> str:
    """Say why the API server would not delete a plugin now; nothing if it would."""
    pod = ground.plugins()[0]["metadata"]["name"]
    tried = ground.cluster.kubectl("delete", "pod", pod, "-n", PLUGIN_NAMESPACE, "--dry-run=server", check=False)
    return tried.stderr if tried.returncode else ""


def _served(ground: Ground) -> None:
    """Run again, now that nothing is in the way: it goes on where the last run stopped."""
    done = ground.begin().told()
    assert done.phase == ("Done", "Refreshed", 0), done.said
    ground.assert_clean(ground.nodes)


def test_refused_by_an_admission_policy(ground: Ground) -> None:
    """At once a person is asked for, in the policy's words; without it the next run does the work."""
    ground.spoil()
    with _frozen(ground):
        refused = ground.begin().told()
    assert refused.phase == ("Fail", "RestartRefused", 3), refused.said
    assert refused.reasons() == dict.fromkeys(ground.nodes, "RestartRefused")
    assert WORDS in refused.story["message"]
    assert "validatingadmissionpolicies" in refused.story["next"]
    ground.assert_untouched()
    _served(ground)


def test_forbidden_by_a_webhook(ground: Ground) -> None:
    """It answers 403, as RBAC does, and is asked for some seconds; the plugin that it spares is served all the same.

    Then a person is asked for, who hears that it was not for want of a permission.
    """
    ground.spoil()
    with Webhook(ground, WORDS) as webhook:
        ground.until(lambda: WORDS in _refusal(ground), "deletions are refused", PATIENCE)
        webhook.spares = {pod["metadata"]["name"] for pod in ground.plugins("gpu-1")}
        forbidden = ground.begin().told()
    assert forbidden.phase == ("Fail", "RestartRefused", 3), forbidden.said
    assert forbidden.reasons() == {"gpu-0": "RestartRefused"}
    assert all(words in forbidden.story["message"] for words in (NAME, WORDS))
    assert ground.truth.stale_now() == ("gpu-0",)
    assert ground.restarts() == ["gpu-1"]
    _served(ground)


@pytest.mark.parametrize("broken", [False, True], ids=["it-says-no", "it-is-broken"])
def test_a_webhook_in_the_way_for_a_while(ground: Ground, *, broken: bool) -> None:
    """The run asks again, and completes."""
    ground.spoil()
    with Webhook(ground, WORDS) as webhook:
        webhook.broken = broken
        ground.until(lambda: NAME in _refusal(ground), "deletions are refused", PATIENCE)
        before = webhook.asked
        run = ground.begin()
        ground.until(lambda: webhook.asked > before or run.over, "the run has asked", PATIENCE)
        ground.assert_untouched()
        webhook.allows, webhook.broken = True, False
        done = run.told()
    assert done.phase == ("Done", "Refreshed", 0), done.said
    ground.assert_clean(ground.nodes)


def test_a_webhook_that_stays_broken(ground: Ground) -> None:
    """That may pass, so that it is tried until the time is up; the report then names it."""
    ground.spoil()
    with Webhook(ground, WORDS) as webhook:
        webhook.broken = True
        ground.until(lambda: NAME in _refusal(ground), "deletions are refused", PATIENCE)
        late = ground.begin(timeout="30s").told()
    assert late.phase == ("Deadline", "TimeUp", 124), late.said
    assert any(NAME in node["message"] for node in late.story["nodes"])
    ground.assert_untouched()
    _served(ground)


def test_a_disruption_budget(ground: Ground) -> None:
    """It allows no disruption, and bounds evictions; a plugin that serves nobody any more is deleted all the same."""
    ground.spoil()
    labels = {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}
    name = {"name": "none", "namespace": PLUGIN_NAMESPACE}
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": labels}}
    ground.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": name, "spec": spec})
    try:
        _served(ground)
    finally:
        ground.cluster.kubectl("delete", "poddisruptionbudget", "none", "-n", PLUGIN_NAMESPACE)


def test_a_finalizer_that_keeps_the_old_pod(ground: Ground) -> None:
    """Its successor cannot come while it is there: after the plugin's timeout a person is asked for, by its name.

    Once it is let go, a run that has patience goes on, and restarts nothing a second time.
    """
    ground.spoil("gpu-1")
    (pod,) = ground.plugins("gpu-1")
    name = pod["metadata"]["name"]
    ground.cluster.patch(f"{PLUGINS}/{name}", HOLD)
    try:
        stuck = ground.begin("pluginTimeout=6s").told()
        assert stuck.phase == ("Fail", "PluginRestarting", 3), stuck.said
        assert stuck.reasons() == {"gpu-1": "PluginRestarting"}
        assert all(words in stuck.story["message"] for words in (name, "terminating"))
        patient = ground.begin("pluginTimeout=100s", "--log-format=json", "--verbose")
        ground.until(lambda: "is terminating" in patient.said or patient.over, "the run waits for it", PATIENCE)
    finally:
        ground.cluster.patch(f"{PLUGINS}/{name}", RELEASE)
    done = patient.told()
    assert done.phase == ("Done", "NothingStale", 0), done.said
    ground.assert_clean(["gpu-1"])
