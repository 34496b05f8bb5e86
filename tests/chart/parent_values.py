"""The root values of the GPU operator's chart, which bundlers pass to our chart as well.

values.schema.json accepts and ignores them, flat or nested, and refuses every other unknown value. None of our own root
values may have one of these names.

Sources are in github.com/NVIDIA/gpu-operator, folder deployments/gpu-operator, unless they say otherwise.
"""

from __future__ import annotations

from typing import Final

ROOT_KEYS: Final[dict[str, str]] = {
    # values.yaml at d7413be97273 (driver 550.90.07)
    "ccManager": "values.yaml",
    "cdi": "values.yaml",
    "daemonsets": "values.yaml",
    "dcgm": "values.yaml",
    "dcgmExporter": "values.yaml",
    "devicePlugin": "values.yaml",
    "driver": "values.yaml",
    "gdrcopy": "values.yaml",
    "gds": "values.yaml",
    "gfd": "values.yaml",
    "hostPaths": "values.yaml",
    "kataManager": "values.yaml",
    "mig": "values.yaml",
    "migManager": "values.yaml",
    "nfd": "values.yaml",
    "node-feature-discovery": "values.yaml",
    "nodeStatusExporter": "values.yaml",
    "operator": "values.yaml",
    "platform": "values.yaml",
    "psa": "values.yaml",
    "sandboxDevicePlugin": "values.yaml",
    "sandboxWorkloads": "values.yaml",
    "toolkit": "values.yaml",
    "validator": "values.yaml",
    "vfioManager": "values.yaml",
    "vgpuDeviceManager": "values.yaml",
    "vgpuManager": "values.yaml",
    # later versions
    "clusterPolicy": "NVIDIA's Helm chart values reference for v26.7.0 (clusterPolicy.deployCR)",
    "draDriver": "templates/gpucluster.yaml at 4651c8215db7",
    "extraObjects": "tests/extra_objects_test.yaml at 25dba0408cf8",
    "gpuCluster": "templates/gpucluster.yaml at 4651c8215db7",
    "kataSandboxDevicePlugin": "spec of the ClusterPolicy that the chart v26.3.3 renders",
    "networkPolicy": "templates/networkpolicy.yaml at 2c05384f83a1",
    # earlier versions
    "dcgmPodExporter": "values.yaml at 002f0f8a1ed7 (driver 440.33.01)",
    "psp": "values.yaml of v22.9.1",
    "replicaCount": "values.yaml at 002f0f8a1ed7 (driver 440.33.01)",
}

NESTS: Final[dict[str, str]] = {
    "gpu-operator": "where a bundler nests the operator's values under the component's name",
    "gpuoperator": "the same name where a hyphen is not allowed",
}
