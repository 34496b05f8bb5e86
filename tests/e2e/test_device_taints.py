"""Device taints: the real scheduler gives a node's devices to no new claim while its plugin is not verified."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.e2e import acts
from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, RELEASE, Boot, Lab

TEAM: Final = "team"
RULES: Final = "/apis/resource.k8s.io/v1/devicetaintrules"
CLAIMS: Final = f"/apis/resource.k8s.io/v1/namespaces/{TEAM}/resourceclaims"
PODS: Final = f"/api/v1/namespaces/{TEAM}/pods"
CLASS: Final = "gpu.nvidia.com"
KEY: Final = "gpu-operator-post/unverified"
MANUAL: Final[dict[str, Any]] = {"driver__upgradePolicy": {"autoUpgrade": False}}
CONTROLLER: Final[dict[str, Any]] = {
    "controller__enabled": True, "job__enabled": False, "deviceTaints__enabled": True
}  # fmt: skip
NETWORK: Final = "network-operator-post"
LABEL: Final = "app.kubernetes.io/component"
SECONDS: Final = 90


def _tainted(lab: Lab) -> dict[str, str]:
    """Return the nodes with a rule for their GPUs, with the reason."""
    specs = [rule["spec"] for rule in lab.cluster.list(RULES)]
    gpus = [spec for spec in specs if spec["deviceSelector"]["driver"] == CLASS]
    return {spec["deviceSelector"]["pool"]: spec["taint"]["value"] for spec in gpus}


def _components(lab: Lab) -> set[str]:
    """Return which processes have rules."""
    return {rule["metadata"]["labels"]["app.kubernetes.io/component"] for rule in lab.cluster.list(RULES)}


def _none(lab: Lab, what: str) -> None:
    lab.until(lambda: lab.cluster.list(RULES) == [], what, SECONDS)


def _delete_driver(lab: Lab, node: str) -> None:
    """Delete a node's driver pod, and return at once."""
    lab.cluster.kubectl(
        "delete", "pods", f"-n{NAMESPACE}", "-lapp.kubernetes.io/component=nvidia-driver",
        f"--field-selector=spec.nodeName={node}", "--wait=false",
    )  # fmt: skip


# What is exposed.


def _upgrade_by_hand(lab: Lab) -> None:
    lab.operator(driver=NEW, **MANUAL)
    lab.until(lambda: lab.rendered(NEW), "the DaemonSet asks for the new driver")
    _delete_driver(lab, "gpu-0")


def _switch_to_precompiled(lab: Lab) -> None:
    lab.operator(driver="580", driver__usePrecompiled=True, **MANUAL)


def _restart_in_place(lab: Lab) -> None:
    lab.annotate("gpu-0", "restart-driver-container", "first")


def _reboot(lab: Lab) -> None:
    lab.annotate("gpu-0", "reboot", "first")


SITUATIONS: Final = (_upgrade_by_hand, _switch_to_precompiled, _restart_in_place, _reboot)


@pytest.mark.parametrize("happen", SITUATIONS, ids=lambda happen: happen.__name__.strip("_"))
def test_no_stale_plugin_is_exposed_where_no_node_is_cordoned(boot: Boot, happen: Callable[[Lab], None]) -> None:
    """A plugin is stale for seconds, and in none of them may a new claim get a device of its node."""
    lab = boot(2)
    lab.fleet(nodes=2, **MANUAL)
    lab.settings(driver_ready_gap_seconds=3)
    lab.deploy(**CONTROLLER)
    _lead(lab)
    happened = time.time()
    happen(lab)
    lab.until(lambda: _tainted(lab) != {}, "new claims are kept away", SECONDS)
    lab.until(lambda: acts.happened(lab, "driver-ready", "gpu-0", happened), "the driver is loaded again", SECONDS)
    lab.until(lambda: lab.truth.stale_now() == () and len(lab.serving_on()) == 2, "all plugins are fresh", SECONDS)
    _none(lab, "no node has a rule")
    # After a reboot, the plugin waits for the driver, and starts before its pod is ready.
    assert (sum(lab.truth.stale_seconds(time.time(), since=happened).values()) > 3) is (happen is not _reboot)
    assert set(lab.truth.exposed_seconds(time.time(), since=happened).values()) == {0}
    # What the scheduler sees: the node was never cordoned.
    assert not any(each.cordoned for each in lab.truth.since(happened) if each.event == "node-status")


# What the scheduler does.


def _submit(lab: Lab, name: str, count: int, node: str = "", *, tolerates: bool = False) -> None:
    """Create a pod with a claim of so many GPUs, on any node or on one. The scheduler does the rest."""
    exactly: dict[str, Any] = {"deviceClassName": CLASS, "count": count}
    if tolerates:
        exactly["tolerations"] = [{"key": KEY, "operator": "Exists"}]
    devices = {"requests": [{"name": "gpu", "exactly": exactly}]}
    lab.cluster.create(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": devices}})
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node} if node else {},
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "registry.example/train"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
    }
    lab.cluster.create(PODS, {"metadata": {"name": name}, "spec": spec})


def _pod(lab: Lab, name: str) -> dict[str, Any]:
    found: dict[str, Any] = lab.cluster.get(f"{PODS}/{name}")
    return found


def _allocated(lab: Lab, name: str) -> set[str]:
    """Return the pools that the devices of a claim are in."""
    status = lab.cluster.get(f"{CLAIMS}/{name}").get("status", {})
    results = status.get("allocation", {}).get("devices", {}).get("results", [])
    return {each["pool"] for each in results}


def _runs(lab: Lab, *names: str) -> None:
    for name in names:
        lab.until(lambda name=name: _pod(lab, name)["status"].get("phase") == "Running", f"{name} runs", SECONDS)  # type: ignore[misc]


def _unschedulable(lab: Lab, name: str) -> str:
    """Return what the scheduler says about a pod that it cannot place."""
    conditions = _pod(lab, name)["status"].get("conditions", [])
    return next((each["message"] for each in conditions if each.get("reason") == "Unschedulable"), "")


def _lead(lab: Lab) -> None:
    """Wait until a controller leads."""
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    lab.until(
        lambda: any(
            each["metadata"]["name"] == RELEASE and each["spec"].get("holderIdentity")
            for each in lab.cluster.list(lease)
        ),
        "a controller leads",
    )


def test_a_new_claim_waits_for_the_plugin_or_gets_another_node(boot: Boot) -> None:
    """From the reload until *verified*; a claim that tolerates the taint is allocated, and running pods stay."""
    lab = boot(2)
    lab.fleet(nodes=2, **MANUAL)
    lab.cluster.kubectl("create", "namespace", TEAM)
    selector = {"cel": {"expression": f'device.driver == "{CLASS}"'}}
    lab.cluster.create(
        "/apis/resource.k8s.io/v1/deviceclasses", {"metadata": {"name": CLASS}, "spec": {"selectors": [selector]}}
    )
    _submit(lab, "before", 1, "gpu-0")
    _runs(lab, "before")
    before = _pod(lab, "before")
    lab.settings(driver_ready_gap_seconds=8)
    lab.deploy(**CONTROLLER)
    _lead(lab)
    lab.operator(driver=NEW, **MANUAL)
    lab.until(lambda: lab.rendered(NEW), "the DaemonSet asks for the new driver")
    # A node that waits for its upgrade has no rule.
    assert _tainted(lab) == {}
    _delete_driver(lab, "gpu-0")
    lab.until(lambda: lab.truth.loaded_now().get("gpu-0") == NEW, "the new driver is loaded", SECONDS)
    assert (lab.truth.stale_now(), set(_tainted(lab))) == (("gpu-0",), {"gpu-0"})

    _submit(lab, "waits", 4, "gpu-0")
    _submit(lab, "tolerates", 1, "gpu-0", tolerates=True)
    _submit(lab, "elsewhere", 4)
    _runs(lab, "tolerates", "elsewhere")
    lab.until(lambda: "cannot allocate all claims" in _unschedulable(lab, "waits"), "the scheduler has tried")
    assert (_allocated(lab, "waits"), _allocated(lab, "elsewhere")) == (set(), {"gpu-1"})
    assert lab.truth.stale_now() == ("gpu-0",)

    _runs(lab, "waits")
    assert _allocated(lab, "waits") == {"gpu-0"}
    _none(lab, "the node is verified")
    assert lab.truth.holding_old_files() == (f"{TEAM}/before", f"{TEAM}/tolerates")
    after = _pod(lab, "before")
    assert (before["metadata"]["uid"], after["status"]["phase"]) == (after["metadata"]["uid"], "Running")


# Who removes rules.


TAINTING: Final = (f"--release-namespace={NAMESPACE}", "--release-name=shell", "deviceTaints.enabled=true")


def _own(lab: Lab) -> None:
    """Create the ClusterRoles that own the rules of a program that is started from a shell."""
    for component in ("job", "controller"):
        role = f"{NAMESPACE}:shell:device-taints:{component}"
        lab.cluster.kubectl("create", "clusterrole", role, "--verb=list", "--resource=devicetaintrules")


def _begin(lab: Lab) -> acts.Run:
    """Start a run, and wait until it keeps claims away."""
    run = acts.begin(lab, *TAINTING)
    lab.until(lambda: "waiting" in run.said and len(lab.cluster.list(RULES)) == 2, "it keeps claims away", SECONDS)
    return run


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_run_that_is_stopped_or_killed_leaves_no_rule(boot: Boot, number: signal.Signals) -> None:
    """A signal lets it remove its rules. After a kill, the next start adopts them, and removes them at its end."""
    lab = boot(1)
    lab.fleet(nodes=1, **ALL_AT_ONCE)
    lab.annotate("gpu-0", "driver-fault", "unready")
    _delete_driver(lab, "gpu-0")
    lab.until(lambda: lab.truth.stale_now() == ("gpu-0",), "the plugin is stale", SECONDS)
    _own(lab)
    first = _begin(lab)
    uids = {rule["metadata"]["uid"] for rule in lab.cluster.list(RULES)}
    first.signal(number)
    first.ended()
    left = {rule["metadata"]["uid"] for rule in lab.cluster.list(RULES)}
    assert left == (uids if number is signal.SIGKILL else set())

    second = _begin(lab)
    if number is signal.SIGKILL:
        assert {rule["metadata"]["uid"] for rule in lab.cluster.list(RULES)} == uids
    lab.annotate("gpu-0", "driver-fault", None)
    second.result().assert_phase("Done", "Refreshed")
    assert lab.cluster.list(RULES) == []


def _replace_pod_of_the_job(lab: Lab) -> None:
    """Delete the Job's pod. The Job starts another one, and the rules stay."""
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    rules = {rule["metadata"]["uid"] for rule in lab.cluster.list(RULES)}

    def running() -> set[str]:
        found = (pod for pod in lab.cluster.list(pods) if pod["metadata"].get("labels", {}).get(LABEL) == "job")
        return {pod["metadata"]["uid"] for pod in found if pod["status"].get("phase") == "Running"}

    before = running()
    lab.cluster.kubectl("delete", "pods", f"-n{NAMESPACE}", f"-l{LABEL}=job", "--wait=false")
    lab.until(lambda: running() - before != set(), "another pod of the Job runs", SECONDS)
    assert {rule["metadata"]["uid"] for rule in lab.cluster.list(RULES)} == rules


def test_rules_go_with_their_release_its_setting_or_the_controller(boot: Boot) -> None:
    """Also those of a node that is not verified. Another release has none of them, and takes none away."""
    lab = boot(1)
    lab.fleet(nodes=1, **MANUAL)
    lab.annotate("gpu-0", "driver-fault", "unready")
    lab.deploy(**CONTROLLER)
    lab.succeeded(lab.start_post(release=NETWORK, stack="network", **CONTROLLER))
    _delete_driver(lab, "gpu-0")
    lab.until(lambda: set(_tainted(lab)) == {"gpu-0"}, "new claims are kept away", SECONDS)
    uids = {rule["metadata"]["uid"] for rule in lab.cluster.list(RULES)}
    lab.cluster.helm("uninstall", NETWORK, "-n", NAMESPACE)
    assert {rule["metadata"]["uid"] for rule in lab.cluster.list(RULES)} == uids
    lab.deploy(**{**CONTROLLER, "deviceTaints__enabled": False})
    _none(lab, "the value is off")
    lab.deploy(**CONTROLLER)
    lab.until(lambda: set(_tainted(lab)) == {"gpu-0"}, "new claims are kept away again", SECONDS)
    lab.deploy(hook__enabled=False, deviceTaints__enabled=True)
    lab.until(lambda: _components(lab) == {"job"}, "only the Job has rules", SECONDS)
    _replace_pod_of_the_job(lab)
    lab.deploy(**CONTROLLER)
    lab.until(lambda: _components(lab) == {"controller"}, "the controller keeps claims away once more", SECONDS)
    lab.cluster.helm("uninstall", RELEASE, "-n", NAMESPACE)
    _none(lab, "the release is gone")
    assert lab.serving() == 0
