"""Views of API objects: what is kept of each, and which cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from hook.objects import policies, readers, views
from hook.objects.decoding import MalformedObjectError
from tests.fixtures import objects
from tests.fixtures.cluster import stale_plugin
from tests.fixtures.objects import Object, R, at, conditions, driver_pod, finished, merged, obj, plugin_pod, running


def test_labels_of_others_and_conditions_that_are_not_true_do_not_count() -> None:
    """Five thousand nodes carry dozens of labels each. A node without the condition is not ready."""
    node, daemonset = readers.node(obj("node")), readers.daemonset(obj("driver-daemonset"))
    prefixes = ("nvidia.com/gpu.", "nvidia.com/gpu-driver-upgrade")
    assert (True, True) == (node.ready, all(label.startswith(prefixes) for label in node.labels))
    assert "helm.sh/chart" not in daemonset.labels
    for conditions_of in ("null", "[]", "[{type: Ready, status: Unknown}]"):
        assert not readers.node(obj("node", f"status: {{conditions: {conditions_of}}}")).ready, conditions_of


def test_the_time_of_a_label_is_kept_only_if_it_is_wanted() -> None:
    """The last write of any manager of the label counts. Thousands of nodes have large `managedFields`."""
    owned = "fieldsV1: {'f:metadata': {'f:labels': {'f:mig': {}}}}"
    time = "time: '2026-01-01T10:00:0"
    read = readers.node_with((), ("mig", "other"))
    for writes, expected in (
        (f"[{{{time}5Z', {owned}}}, {{{time}7.9Z', {owned}}}, {{{time}6Z', {owned}}}]", {"mig": (at(7), False)}),
        (f"[{{{time}5Z', {owned}}}, {{manager: ancient-changes, {time}6Z', {owned}}}]", {"mig": (at(6), True)}),
        (f"[{{{time}9Z', fieldsV1: {{'f:metadata': {{'f:labels': {{'f:more': {{}}}}}}}}}}]", {}),
        (f"[{{{time}9Z', fieldsV1: {{'f:metadata': {{}}}}}}, {{{time}9Z', fieldsV1: {{}}}}, {{{time}9Z'}}]", {}),
        (f"[{{{owned}}}]", {}),
        ("null", {}),
    ):
        node = obj("node", f"metadata: {{managedFields: {writes}}}")
        assert expected == read(node).written, writes
        assert {} == readers.node(node).written


def test_what_an_object_leaves_out_has_the_default_of_kubernetes() -> None:
    """RollingUpdate, no owner without a controller, no template, no holder of a Lease, no selected pod."""
    for patch, rolling in (("null", True), ("{type: OnDelete}", False)):
        found = readers.daemonset(obj("plugin-daemonset", f"spec: {{selector: null, updateStrategy: {patch}}}"))
        assert (rolling, False) == (found.rolling, found.selects({})), patch
    for references, owner in (
        ("[{kind: DaemonSet, uid: a}]", ""),
        ("[{uid: a, controller: false}, {uid: b, controller: true}]", "b"),
    ):
        assert owner == readers.revision(obj("revision", f"metadata: {{ownerReferences: {references}}}")).owner_uid
    containers = "{template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: d}, {name: e}]}}}"
    for data, expected in (
        (containers, views.Template.of({"a": "b"}, {"c": "d", "e": ""})),
        ("{template: {}}", views.Template.of({}, {})),
        ("{}", None),
    ):
        assert expected == readers.revision(obj("revision", f"data: {{spec: {data}}}")).template, data
    assert views.Lease("gpu-operator", "", None) == readers.lease(obj("lease", "spec: null"))
    # A Deployment is rolled out as ``kubectl rollout status`` has it.
    for patch, rolled_out in (
        ("spec: {replicas: null}", True),  # one by default
        ("status: {availableReplicas: 0}", False),
        ("spec: {replicas: 2}", False),
        ("status: null", False),
    ):
        assert rolled_out == readers.deployment(obj("deployment", patch)).rolled_out, patch


def test_a_containers_state_is_read() -> None:
    """It runs, waits with a reason, or ended; what is not reported is being created. A long message is cut."""
    creating = (None, False, "ContainerCreating", "")
    cases: tuple[tuple[Object, tuple[object, bool, str, str]], ...] = (
        (running("gpus", R + 6), (objects.at(R + 6), False, "", "")),
        (objects.waiting("gpus", "CrashLoopBackOff", "b" * 2000), (None, False, "CrashLoopBackOff", "b" * 1024)),
        (finished("gpus", 5), (None, True, "", "")),
        (finished("gpus", 5, 1), (None, False, "", "")),
        ({"name": "gpus", "state": {"terminated": {}}}, (None, False, "", "")),
        ({"name": "gpus", "state": {"terminated": None}}, creating),
        ({"name": "gpus"}, creating),
        ({"name": "gpus", "state": {"running": {}}}, creating),
        ({"name": "gpus", "state": {"terminated": {"exitCode": 2, "message": "boom", "startedAt": objects.stamp(5)}}},
         (None, False, "", "boom")),
    )  # fmt: skip
    for status, expected in cases:
        pod = obj("plugin-pod", {"spec": {"containers": [{"name": "gpus"}]}, "status": {"containerStatuses": [status]}})
        (found,) = readers.pod(pod).containers
        assert (*expected, None) == (found.started_at, found.succeeded, found.waiting, found.message, found.lasted)
    # A container without a status is not running, rather than absent; one without a spec counts.
    for spec, seen, names in (
        ("ab", "b", [("a", "ContainerCreating"), ("b", "")]),
        ("a", "ab", [("a", ""), ("b", "")]),
    ):
        spec_of = {"containers": [{"name": name} for name in spec]}
        statuses = [running(name, R + 6) for name in seen]
        pod = obj("plugin-pod", {"spec": spec_of, "status": {"containerStatuses": statuses}})
        assert names == [(one.name, one.waiting) for one in readers.pod(pod).containers], (spec, seen)


def test_what_cannot_be_read_is_set_apart() -> None:
    """A malformed object keeps as much of its identity as can be read. What can be read has its key and version."""
    nameless: Object = {"metadata": {"name": ["a"], "namespace": 3}, "spec": []}
    for found, expected in (
        (obj("driver-pod", "metadata: {uid: 7}"), ("gpu-operator", "driver-gpu-0", "gpu-0")),
        (nameless, ("", "", "")),
    ):
        malformed = readers.entry(readers.pod, "Pod", objects.raw(found)).view
        assert isinstance(malformed, views.Malformed), found
        assert ("Pod", *expected) == (malformed.kind, malformed.namespace, malformed.name, malformed.node)
    found, key = obj("driver-pod"), ("gpu-operator", "driver-gpu-0")
    assert (key, "100", readers.pod(found)) == readers.entry(readers.pod, "Pod", objects.raw(found))


def test_a_policys_switches_have_the_operators_defaults() -> None:
    """An absent field means what the operator assumes."""
    for patch, enabled, precompiled, automatic in (
        ("driver: {enabled: null}", True, False, True),
        ("driver: {enabled: false}", False, False, True),
        ("driver: {usePrecompiled: true}", True, True, True),
        ("driver: {upgradePolicy: null}", True, False, False),
        ("driver: {upgradePolicy: {autoUpgrade: false}}", True, False, False),
        ("sandboxWorkloads: {enabled: true}", True, False, False),
        ("sandboxWorkloads: {enabled: false}", True, False, True),
    ):
        policy = policies.cluster_policy(obj("policy", f"spec: {{{patch}}}"))
        assert (enabled, precompiled, automatic) == (policy.driver_enabled, policy.precompiled, not policy.manual), (
            patch
        )


def test_when_the_spec_was_written() -> None:
    """Only managers of spec fields count, and the last of their writes."""
    written = datetime(2026, 1, 1, 9, tzinfo=UTC)
    for write, expected in (
        ({"fieldsV1": {"f:spec": {}}}, written),
        ({}, written),
        ({"fieldsV1": {"f:metadata": {}}}, None),
        ({"fieldsV1": {"f:spec": {}}, "subresource": "status"}, None),
    ):
        writes = [{"manager": "helm", "time": f"2026-01-01T0{hour}:00:00Z", **write} for hour in (9, 8)]
        found = policies.cluster_policy(obj("policy", {"metadata": {"managedFields": writes}}))
        assert expected == found.changed, write


def test_an_image_may_be_a_whole_reference() -> None:
    """The operator uses it as it is; its tag or digest tells the version."""
    for image, name, version in (
        ("registry:5000/driver:580", "registry:5000/driver", "580"),
        ("registry/driver@sha256:1", "registry/driver", "sha256:1"),
        ("registry:5000/driver", "registry:5000/driver", ""),
    ):
        driver = {"repository": None, "version": None, "image": image}
        policy = policies.cluster_policy(obj("policy", {"spec": {"driver": driver}}))
        assert ("", name, version) == (policy.repository, policy.image, policy.version), image


# Times of a pod that cannot be true together: it is malformed, so it is neither fresh nor restarted.

FUTURE: Final = 10**8


def since(ready: float, containers_ready: float, status: str = "True") -> Sequence[Object]:
    """Return conditions of two moments."""
    first, second = conditions(ready)[0], conditions(containers_ready)[1]
    return [{**first, "status": status}, second]


def reported(pod: Object, **status: object) -> Object:
    """Return a pod with another status."""
    changed: Object = merged(pod, {"status": status})
    return changed


SIDECAR: Final = merged(
    reported(plugin_pod(), initContainerStatuses=[finished("init-container", 5), finished("mesh", R + 900, 1)]),
    {"spec": {"initContainers": [{"name": "init-container"}, {"name": "mesh", "restartPolicy": "Always"}]}},
)
IMPOSSIBLE: Final = {
    "plugin-started-in-the-future": reported(stale_plugin(), containerStatuses=[
        running("compute-domains", -499), running("gpus", FUTURE)]),
    "driver-started-after-it-was-ready": driver_pod(started=R + 1, ready=R),
    "driver-ready-in-the-future-but-not-the-pod": reported(driver_pod(), conditions=since(R, FUTURE)),
    "plugin-waited-until-after-its-start": reported(stale_plugin(),
                                                    initContainerStatuses=[finished("init-container", R)]),
    "driver-started-before-the-old-one-was-unloaded": driver_pod(started=0, unloaded=5),
    "driver-started-before-its-last-run-ended": driver_pod(started=0, ended_before=5, restarts=1),
    "ended-before-it-started": reported(plugin_pod(), initContainerStatuses=[merged(
        finished("init-container", 5), {"state": {"terminated": {"startedAt": objects.stamp(6)}}})]),
    "container-reported-twice": reported(stale_plugin(), containerStatuses=[
        running("gpus", -499), running("compute-domains", -499), running("gpus", R + 5)]),
    "container-wanted-twice": merged(plugin_pod(), {"spec": {"containers": [{"name": "gpus"}] * 2}}),
}  # fmt: skip
POSSIBLE: Final = {
    "all-in-one-second": plugin_pod(waited=R, started=R),
    "driver-unloaded-and-started-in-one-second": driver_pod(started=0, unloaded=0, ended_before=0, restarts=1, ready=0),
    "lost-and-back": reported(driver_pod(), conditions=since(R + 900, R)),
    "lost-and-not-ready": reported(driver_pod(), conditions=since(R - 900, R, "False")),
    "ready-since-never": reported(driver_pod(), conditions=[{"type": "Ready", "status": "True"}, conditions(R)[1]]),
    "ended-in-the-second-of-its-start": reported(plugin_pod(), initContainerStatuses=[merged(
        finished("init-container", 5), {"state": {"terminated": {"startedAt": objects.stamp(5)}}})]),
    "restarted-by-its-liveness-probe": reported(plugin_pod(), containerStatuses=[
        running("gpus", R + 900, restarts=1, ended_before=R + 899), running("compute-domains", R + 5)]),
    "a-sidecar-that-crashed": SIDECAR,
}  # fmt: skip


def test_a_pod_that_contradicts_itself_is_refused() -> None:
    """No proof can rest on it. Whole seconds make equal times of what came one after the other."""
    for name, pod in IMPOSSIBLE.items():
        assert objects.error_of(MalformedObjectError, readers.pod, pod), name
    base = ("driver-pod", "plugin-pod", "exporter/pod", "toolkit/pod", "network/driver-pod", "network/plugin-pod")
    for name, pod in {**POSSIBLE, **{name: obj(name) for name in base}}.items():
        assert not objects.error_of(MalformedObjectError, readers.pod, pod), name


def test_a_daemonset_names_the_labels_by_which_it_selects_nodes() -> None:
    """Of its node selector and of the affinity that it requires; the cache reads these of all nodes."""
    term = "{matchExpressions: [{key: b, operator: Exists}, {operator: Exists}]}"
    required = f"{{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}}}"
    spec = f"{{nodeSelector: {{a: x}}, affinity: {{nodeAffinity: {required}}}}}"
    found = readers.daemonset(obj("plugin-daemonset", f"spec: {{template: {{spec: {spec}}}}}"))
    assert ["a", "b"] == list(found.selected_by)
