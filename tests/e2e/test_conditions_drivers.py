"""Drivers and plugins that do not start, say little about themselves, or are published in an older shape."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e import acts
from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e

OLD = "580.105.08"
BOTH = ["gpu-0", "gpu-1"]
GIVES_UP: dict[str, Any] = {"simulate__failedRestarts": 2, **ALL_AT_ONCE}


def _all_serve(lab: Lab, nodes: list[str]) -> None:
    lab.until(lambda: lab.serving_on() == set(nodes), "a plugin runs on every node", acts.PATIENCE)
    lab.until(lambda: lab.label_states() == {"upgrade-done"}, "the labels are quiet", acts.PATIENCE)


def test_a_failed_upgrade(boot: Callable[..., Lab]) -> None:
    """A crash loop becomes upgrade-failed: the others are served, then exit 3; once it clears, it is served too."""
    lab = boot(2)
    lab.fleet(nodes=2, **GIVES_UP)
    lab.annotate("gpu-1", "driver-fault", "crash-loop")
    lab.operator(driver=NEW, **GIVES_UP)
    lab.until(lambda: acts.upgrade_state(lab, "gpu-1") == "upgrade-failed", "the upgrade has failed", acts.PATIENCE)
    failed = acts.run(lab, "advanced.failedGrace=6s")
    assert (failed.story["phase"], failed.code) == ("Fail", 3), failed.said
    assert failed.reasons() == {"gpu-1": "UpgradeFailed"}
    assert "upgrade-required --overwrite" in failed.said
    lab.assert_clean(["gpu-0"])
    hook = acts.begin(lab)
    lab.annotate("gpu-1", "driver-fault", None)
    done = hook.told()
    assert done.phase == ("Done", "Refreshed", 0), done.said
    lab.assert_clean(BOTH)


def test_drivers_that_do_not_come(boot: Callable[..., Lab]) -> None:
    """On a fresh install one is Pending, one cannot be pulled: their plugins sit in their init containers.

    A driver DaemonSet that wants no pods, left over from another time, holds nothing up.
    """
    lab = boot(3)
    lab.annotate("gpu-1", "driver-fault", "pending")
    lab.annotate("gpu-2", "driver-fault", "image-pull")
    lab.operator(**ALL_AT_ONCE)
    lab.plugin()
    lab.until(lambda: lab.serving_on() == {"gpu-0"}, "one plugin runs", acts.PATIENCE)
    _leave_a_daemonset(lab)
    late = acts.run(lab, timeout="25s")
    assert late.phase == ("Deadline", "TimeUp", 124), late.said
    assert late.reasons() == {"gpu-1": "DriverNotReady", "gpu-2": "DriverFailing"}
    for node in ("gpu-1", "gpu-2"):
        lab.annotate(node, "driver-fault", None)
    done = acts.run(lab)
    assert done.phase == ("Done", "NothingStale", 0), done.said
    lab.assert_clean([])


def _leave_a_daemonset(lab: Lab) -> None:
    """Create a driver DaemonSet like the operator's, for a kernel that no node has."""
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
    (live,) = lab.cluster.list(path)
    name = "nvidia-driver-daemonset-5.4.0-1-generic-ubuntu22.04"
    spec = live["spec"]
    labels = {"app": name, "app.kubernetes.io/component": "nvidia-driver"}
    spec["selector"] = {"matchLabels": {"app": name}}
    spec["template"]["metadata"]["labels"] = labels
    spec["template"]["spec"]["nodeSelector"]["feature.node.kubernetes.io/kernel-version.full"] = "5.4.0-1-generic"
    lab.cluster.create(path, {"metadata": {"name": name, "labels": labels}, "spec": spec})


def test_what_plugins_publish(boot: Callable[..., Lab], subtests: pytest.Subtests) -> None:
    """Parts of GPUs, GPUs and compute domains that do not tell the driver's version, one container or two."""
    lab = boot(2)
    lab.operator(**ALL_AT_ONCE)
    lab.until(lambda: acts.migrated(lab, 2, OLD), "the drivers are there", acts.PATIENCE)
    kinds: dict[str, dict[str, object]] = {
        "parts of GPUs": {"devices": "mig"},
        "GPUs without a version": {"devices": "unversioned"},
        "GPUs alone": {"resources__computeDomains__enabled": False},
        "compute domains alone": {"resources__gpus__enabled": False},
    }
    for number, (kind, values) in enumerate(kinds.items()):
        version = f"580.126.{number + 1}"
        with subtests.test(kind):
            lab.plugin(**values)
            lab.until(lab.rolled_out, "the plugin is what was asked for", acts.PATIENCE)
            _all_serve(lab, BOTH)
            lab.began = time.time()
            lab.operator(driver=version, **ALL_AT_ONCE)
            done = acts.run(lab)
            assert done.phase == ("Done", "Refreshed", 0), done.said
            assert set(lab.truth.loaded_now().values()) == {version}
            lab.assert_clean(BOTH)


@pytest.mark.parametrize("slices", ["v1beta1", "v1beta2"])
def test_slices_of_an_older_api_server(boot: Callable[..., Lab], slices: str) -> None:
    """ResourceSlices that are served in that version only are read all the same, and must show the new driver."""
    lab = boot(1, slices=slices)
    lab.fleet(nodes=1)
    lab.operator(driver=NEW)
    done = acts.run(lab)
    assert done.phase == ("Done", "Refreshed", 0), done.said
    lab.assert_clean(["gpu-0"])
    (shown,) = lab.cluster.list(
        f"/apis/resource.k8s.io/{slices}/resourceslices", fieldSelector="spec.driver=gpu.nvidia.com"
    )
    lab.cluster.kubectl("scale", "deployment", "gpu-operator", "-n", NAMESPACE, "--replicas=0")
    shown["spec"]["devices"] = []
    lab.cluster.patch(
        f"/apis/resource.k8s.io/{slices}/resourceslices/{shown['metadata']['name']}", {"spec": shown["spec"]}
    )
    empty = acts.run(lab, timeout="20s")
    assert empty.code == 124, empty.said
    assert empty.reasons() == {"gpu-0": "SliceMissing"}


def test_drivers_by_branch_digest_and_default(boot: Callable[..., Lab], subtests: pytest.Subtests) -> None:
    """A version may be a branch, a digest, or left to the operator: verified as far as it says something."""
    lab = boot(2)
    lab.fleet(nodes=2, **ALL_AT_ONCE)
    digest = "sha256:" + "5e" * 32
    intents: dict[str, tuple[str, dict[str, Any], str]] = {
        "branch": ("581", {}, "581.95.05"),
        "digest": (digest, {"simulate__loadedVersion": NEW}, NEW),
        "default": ("", {"driver__defaultVersion": "580.82.07"}, "580.82.07"),
    }
    for kind, (version, values, loaded) in intents.items():
        with subtests.test(kind):
            _all_serve(lab, BOTH)
            lab.began = time.time()
            lab.operator(driver=version, **ALL_AT_ONCE, **values)
            lab.until(lambda wanted=loaded: acts.migrated(lab, 2, wanted), "both run it", acts.PATIENCE)  # type: ignore[misc]
            done = acts.run(lab)
            assert done.phase == ("Done", "Refreshed", 0), done.said
            lab.assert_clean(BOTH)
