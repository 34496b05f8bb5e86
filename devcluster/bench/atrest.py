"""A fleet at rest, as large as real ones are on the wire: nodes, driver pods, plugins and slices, all fresh.

`fleet.yaml` spells the objects; here they are numbered, and made as heavy as on real clusters.
"""

from __future__ import annotations

import json
import uuid
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devcluster.client import Object

SPELLED: Final = Path(__file__).with_name("fleet.yaml")
BYTES: Final = {"node": 28_000, "driver": 24_000, "plugin": 24_000}
"""What these objects weigh on real clusters, managed fields and all."""
OPERATOR, DRA = "gpu-operator", "nvidia-dra-driver-gpu"
GPUS: Final = 8
LOADED, BEFORE = "10", "09"
"""The hour in which every driver was loaded, and the one before it."""


def policy() -> Object:
    """Return the ClusterPolicy, with its status."""
    return _filled("policy")


def fleet(nodes: int, policy_uid: str) -> Iterator[Object]:
    """Return every object of a fleet but the policy."""
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    for key in ("drivers", "plugins"):
        yield {**_filled(key, policy_uid), "status": {"observedGeneration": 2, **dict.fromkeys(counts, nodes)}}
    yield _filled("revision")
    for number in range(nodes):
        yield node(number)
        yield driver_pod(number)
        yield plugin_pod(number)
        yield _numbered("slice", number)


def node(number: int) -> Object:
    """Return a node with what feature discovery says of it, and with the images that it holds."""
    return _numbered("node", number)


def driver_pod(number: int, *, ready: bool = True) -> Object:
    """Return a node's driver pod; one that is not ready yet loads its driver."""
    found = _numbered("driver", number)
    for condition in found["status"]["conditions"]:
        condition["status"] = "True" if ready else "False"
    return found


def plugin_pod(number: int, *, stale: bool = False) -> Object:
    """Return a node's plugin, which waited for the driver that is there now, or started on the one before."""
    return _numbered("plugin", number, BEFORE if stale else LOADED)


def _numbered(key: str, number: int, hour: str = LOADED) -> Object:
    return _filled(key, str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{key}-{number}")), number, hour)


def _filled(key: str, uid: str = "", number: int = 0, hour: str = LOADED) -> Object:
    found: Object = json.loads(_templates()[key].substitute(uid=uid, number=number, hour=hour))
    return found


@cache
def _templates() -> dict[str, Template]:
    """Read the objects, and add what would be tedious to spell."""
    found: dict[str, Object] = yaml.safe_load(SPELLED.read_text(encoding="utf-8"))
    found["node"]["metadata"]["labels"] |= {
        f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{count}": "true" for count in range(80)
    }
    found["node"]["status"]["images"] = [
        {"names": [f"registry.k8s.io/image-{count}@sha256:{count:064x}"], "sizeBytes": count} for count in range(50)
    ]
    (device,) = found["slice"]["spec"]["devices"]
    found["slice"]["spec"]["devices"] = [{**device, "name": f"gpu-{count}"} for count in range(GPUS)]
    for key, size in BYTES.items():
        _fill(found[key], size)
    return {key: Template(json.dumps(each)) for key, each in found.items()}


def _fill(spelled: Object, size: int) -> None:
    """Let an object weigh what it does in reality, by what makes it heavy there: who wrote which field."""
    wrote = {"manager": "nfd-master", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    fields: dict[str, Any] = {}
    managed = {**wrote, "time": "2026-01-01T09:00:00Z", "fieldsV1": {"f:metadata": {"f:labels": fields}}}
    spelled["metadata"]["managedFields"] = [managed]
    missing = size - len(json.dumps(spelled, separators=(",", ":")))
    one = len('"f:feature.node.kubernetes.io/field-000":{},')
    fields |= {f"f:feature.node.kubernetes.io/field-{count:03}": {} for count in range(missing // one)}
