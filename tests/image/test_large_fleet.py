"""A thousand nodes inside of the chart's default memory limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from devcluster import etcd
from devcluster.layout import CHECKOUT
from tests.e2e.lab import OPERATOR
from tests.fixtures.objects import Object, obj

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.image.node import NodeLab

pytestmark = pytest.mark.e2e

NODES: Final = 1000
NODE_BYTES: Final = 28_000
POD_BYTES: Final = 24_000
"""What these objects weighed on real clusters, managed fields and all."""

POLICIES: Final = "/apis/nvidia.com/v1/clusterpolicies"


def test_a_thousand_nodes_within_the_default_limit(boot: Callable[..., NodeLab]) -> None:
    """The pod survives: it reads nodes, driver pods, plugins and slices of real size, judges all, and reads them again.

    The limit is the chart's default; the kernel, not this test, watches over it.
    """
    lab = boot(0, at_rest=True)
    for namespace in ("gpu-operator", "nvidia-dra-driver-gpu"):
        lab.cluster.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    _create_policy(lab)
    etcd.put(lab.cluster.files, _fleet())
    done = lab.post()
    assert done.code == 0, done.output
    story = lab.story()
    assert ("Done", "NothingStale", {"Verified": NODES}) == (story["verdict"], story["reason"], story["counts"])
    (end,) = lab.ends().values()
    assert (0, "Completed") == (end["exitCode"], end["reason"])
    (container,) = lab.pods()[-1]["spec"]["containers"]
    assert container["resources"]["limits"]["memory"] == "128Mi"
    lab.assert_on_the_real_node()


def _create_policy(lab: NodeLab) -> None:
    """Create kind and policy through the API: the only objects here that are not the API server's own kinds."""
    definition = CHECKOUT / OPERATOR / "crds" / "clusterpolicies.yaml"
    lab.cluster.kubectl("apply", "-f", str(definition))
    lab.cluster.kubectl("wait", "--for=condition=Established", "crd/clusterpolicies.nvidia.com", "--timeout=60s")
    policy = obj("policy")
    created = {key: value for key, value in policy.items() if key != "status"} | {
        "metadata": {"name": "cluster-policy"}
    }
    lab.until(lambda: _served(lab), "the kind is served")
    lab.cluster.create(POLICIES, created)
    lab.cluster.patch(f"{POLICIES}/cluster-policy/status", {"status": policy["status"]})


def _served(lab: NodeLab) -> bool:
    return lab.cluster.kubectl("get", "clusterpolicies", check=False).returncode == 0


def _fleet() -> Iterator[Object]:
    """Give every object of a fleet whose plugins are all fresh."""
    yield obj("revision")
    for name in ("driver-daemonset", "plugin-daemonset"):
        status = dict.fromkeys(
            ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable"), NODES
        )
        yield obj(name, {"metadata": BORN, "status": status})
    for number in range(NODES):
        name = f"gpu-{number}"
        yield _sized(
            obj("node", {"metadata": {**_named(name), "labels": {"kubernetes.io/hostname": name}}}), NODE_BYTES
        )
        for kind in ("driver", "plugin"):
            pod = obj(f"{kind}-pod", {"metadata": _named(f"{kind}-{name}"), "spec": {"nodeName": name}})
            yield _sized(pod, POD_BYTES)
        pool = {"driver": "gpu.nvidia.com", "nodeName": name, "pool": {"name": name}}
        yield obj("slice", {"metadata": _named(f"0-gpu.nvidia.com-{name}"), "spec": pool})


BORN: Final = {"creationTimestamp": "2026-01-01T09:00:00Z"}


def _named(name: str) -> dict[str, Any]:
    """Give an object its name and identity; the version is the storage's to say."""
    return {**BORN, "name": name, "uid": f"{name}-uid", "resourceVersion": None}


def _sized(each: Object, size: int) -> Object:
    """Make an object as large as it is in reality."""
    padding = "x" * (size - len(str(each)))
    return {**each, "metadata": {**each["metadata"], "annotations": {"devcluster/padding": padding}}}
