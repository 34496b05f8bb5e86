"""What a run works on goes away in the middle: the plugin's DaemonSet, a namespace, a node.

Each run waits for an upgrade when it happens, and has judged every node. What is gone may be replaced a moment
later, so nothing is concluded from it at once; the grace for that is minutes, and is short here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.e2e import acts
from tests.e2e.acts import PATIENCE
from tests.e2e.faults.cluster.ground import PLUGIN, PLUGINS
from tests.e2e.lab import OLD, PLUGIN_NAME, PLUGIN_NAMESPACE
from tests.promises import promised

if TYPE_CHECKING:
    from tests.e2e.faults.cluster.ground import Ground, Run

pytestmark = pytest.mark.e2e

NODES = 2
SOON: Final = "advanced.notReadyGrace=6s"
LATE: Final = "advanced.notReadyGrace=100s"
OTHER: Final = "gpu-agent"
MANAGED: Final = "nvidia-dra-driver-kubelet-plugin"
"""What the operator calls a plugin of its own."""
HOLD: Final[dict[str, Any]] = {"metadata": {"finalizers": ["example.com/hold"]}}
RELEASE: Final[dict[str, Any]] = {"metadata": {"finalizers": []}}
HOME: Final = "post-home"


def _manifest(ground: Ground, name: str = PLUGIN_NAME) -> dict[str, Any]:
    """Give the plugin's DaemonSet as somebody would apply it, under a name."""
    found = ground.cluster.get(PLUGIN)
    labels = {**found["metadata"]["labels"], **({"app.kubernetes.io/component": MANAGED} if name == MANAGED else {})}
    metadata = {"name": name, "namespace": PLUGIN_NAMESPACE, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": found["spec"]}


def _without_daemonset(ground: Ground, run: Run, *how: str) -> None:
    """Delete the plugin's DaemonSet, and wait until the run has noticed."""
    ground.cluster.kubectl("delete", "daemonset", PLUGIN_NAME, "-n", PLUGIN_NAMESPACE, *how)
    ground.until(lambda: "it may come back" in run.said, "the run has noticed", PATIENCE)
    assert not run.over


def _by_us(ground: Ground, name: str = PLUGIN_NAME) -> list[str]:
    """List the nodes of the plugins that were restarted from now on under a DaemonSet."""
    return sorted(each.node for each in ground.truth.restarts(name, since=ground.began))


def test_daemonset_deleted(ground: Ground) -> None:
    """It is not there any more after the grace, either: nothing is left to protect, and that is said."""
    run = ground.waiting(SOON)
    _without_daemonset(ground, run)
    ground.migrate()
    told = run.told()
    assert told.phase == ("Skip", "NoPlugin", 0), told.said
    assert PLUGIN_NAME in told.story["message"]


@pytest.mark.parametrize("pods_stay", [False, True], ids=["with-its-pods", "without-them"])
def test_daemonset_created_again(ground: Ground, *, pods_stay: bool) -> None:
    """Another DaemonSet of the same name, with new pods or with the old ones, which it adopts: it is served."""
    run = ground.waiting(LATE)
    manifest = _manifest(ground)
    _without_daemonset(ground, run, *(["--cascade=orphan"] if pods_stay else []))
    ground.apply(manifest)
    ground.until(lambda: ground.serving() == NODES, "the plugins are owned again", PATIENCE)
    ground.began = time.time()
    ground.migrate()
    told = run.told()
    assert told.phase == ("Done", "Refreshed", 0), told.said
    ground.assert_clean(ground.nodes)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(OTHER, ("Fail", "UnnamedPlugin", 3), id="by-a-name-that-nobody-gave"),
        pytest.param(MANAGED, ("Skip", "OperatorManagedPlugin", 0), id="by-the-operators-own"),
    ],
)
def test_daemonset_replaced(ground: Ground, name: str, expected: tuple[str, str, int]) -> None:
    """What is not named is never restarted: a person is asked for, unless the operator restarts it itself."""
    run = ground.waiting(SOON)
    manifest = _manifest(ground, name)
    _without_daemonset(ground, run)
    ground.apply(manifest)
    try:
        ground.migrate()
        told = run.told()
        assert told.phase == expected, told.said
        assert name in told.story["message"]
        assert _by_us(ground, name) == []
    finally:
        ground.cluster.kubectl("delete", "daemonset", name, "-n", PLUGIN_NAMESPACE)
        ground.until(lambda: not ground.plugins(), "its pods are gone", PATIENCE)


def test_namespace_of_the_plugin_terminating(ground: Ground) -> None:
    """Its pods are on their way out, and held; none can come back, which needs a person.

    The rest of the namespace, its DaemonSet too, stays until they are gone. Events cannot be written there any more;
    that holds nothing up.
    """
    ground.spoil()
    held = [f"{PLUGINS}/{pod['metadata']['name']}" for pod in ground.plugins()]
    for each in held:
        ground.cluster.patch(each, HOLD)
    ground.cluster.kubectl("delete", "namespace", PLUGIN_NAMESPACE, "--wait=false")
    try:
        ground.until(lambda: all(map(_leaves, ground.plugins())), "its pods are on their way out", PATIENCE)
        told = ground.begin("pluginTimeout=8s").told()
        assert told.code == 3, told.said
        assert "terminating" in told.story["message"]
    finally:
        for each in held:
            ground.cluster.patch(each, RELEASE)
        gone = ("get", "namespace", PLUGIN_NAMESPACE)
        ground.until(lambda: ground.cluster.kubectl(*gone, check=False).returncode != 0, "it is gone", PATIENCE)


def _leaves(pod: dict[str, Any]) -> bool:
    """Whether a pod is on its way out."""
    return "deletionTimestamp" in pod["metadata"]


def test_namespace_of_the_release_terminating(ground: Ground) -> None:
    """The run is told to stop, says so and leaves; what it was waiting for happens, and nothing is touched.

    Helm waits on for the Job, until its own time is up: that is not waited for here.
    """
    ground.deploy("leaving", HOME, f"--set=expect.driverVersion={OLD}")
    ground.until(lambda: "ExpectationUnmet" in _log_at_home(ground), "the run has judged the fleet", PATIENCE)
    ground.cluster.kubectl("delete", "namespace", HOME)
    assert "(Terminated)" in _log_at_home(ground)
    ground.migrate()
    ground.until(lambda: acts.migrated(ground, NODES, OLD), "the drivers are others", PATIENCE)
    assert list(ground.truth.stale_now()) == ground.nodes
    ground.assert_untouched()


def _log_at_home(ground: Ground) -> str:
    """Read what the runs of a release in its own namespace have said."""
    logs = (ground.cluster.state / "pods").glob(f"{HOME}_leaving*/*.log")
    return "".join(each.read_text() for each in logs)


def test_node_deleted_while_its_plugin_ends(ground: Ground) -> None:
    """Nothing comes back on a node that is no more: the others are proven, and it is not waited for for ever."""
    ground.spoil()
    (pod,) = ground.plugins("gpu-1")
    url = f"{PLUGINS}/{pod['metadata']['name']}"
    ground.cluster.patch(url, HOLD)
    run = ground.begin(LATE, "pluginTimeout=100s")
    ground.until(lambda: ground.restarts() == ground.nodes, "both were restarted", PATIENCE)
    ground.cluster.delete("/api/v1/nodes/gpu-1")
    ground.until(lambda: "LabelsMissing" in run.said or run.over, "the run has noticed", PATIENCE)
    ground.cluster.patch(url, RELEASE)
    ground.cluster.kubectl("delete", "pods", "-A", "--field-selector=spec.nodeName=gpu-1", "--force")
    try:
        told = run.told()
        assert told.phase == ("Done", "Refreshed", 0), told.said
        with promised():
            assert ground.truth.stale_now() == ()
            assert ground.truth.needless_restarts(since=ground.began) == ()
    finally:
        acts.add_node(ground, "gpu-1")
