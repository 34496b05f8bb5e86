"""Derive values: the rollout trigger of the DRA driver, and the values of gpu-operator-post.

The rollout trigger is an annotation on the pods of the DRA driver with the chart version of the GPU operator. A new
version in a recipe then changes the release of the DRA driver, too, and Kubernetes replaces its pods. The annotation is
derived, because a version that people maintain by hand becomes outdated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bundler.charts import fingerprint
from bundler.documents import at
from bundler.recipe import DRA, OPERATOR, POST
from bundler.values import look_up, merged

if TYPE_CHECKING:
    from bundler.charts import Chart
    from bundler.documents import Mapping
    from bundler.recipe import Recipe

KEY: Final = "aicr.run/gpu-operator-chart-version"
OLDER_KEY: Final = "aicr.nvidia.com/gpu-operator-chart-version"
"""The key that AICR used before it renamed its API group."""
WORKLOADS: Final = ("controller", "kubeletPlugin")
"""Both workloads of the DRA driver's chart."""
KNOWN_PLUGINS: Final = (DRA, "dra-driver-nvidia-gpu")
"""Names of the DRA driver's DaemonSets from its chart or from AICR. The run must be given any other name."""


def trigger_version(recipe: Recipe) -> str:
    """Return the version that the annotation must have; empty if one of the two components is switched off."""
    operator = recipe.enabled(OPERATOR)
    if operator is None or recipe.enabled(DRA) is None:
        return ""
    return recipe.required(operator, "version")


def trigger(recipe: Recipe, key: str) -> Mapping:
    """Return the values to lay over the DRA driver's; empty if there is nothing to trigger."""
    version = trigger_version(recipe)
    return {workload: {"podAnnotations": {key: version}} for workload in WORKLOADS} if version else {}


def trigger_over(recipe: Recipe, key: str, given: Mapping, name: str) -> Mapping:
    """Return the trigger with all other annotations of the pods, for tools that replace whole mappings."""
    own: Mapping = {
        workload: {"podAnnotations": look_up(given, (workload, "podAnnotations"), dict, name) or {}}
        for workload in WORKLOADS
    }
    overlay = trigger(recipe, key)
    return merged(own, overlay) if overlay else {}


def divergences(recipe: Recipe, key: str, given: Mapping, name: str) -> list[str]:
    """Compare values with the recipe. An older key may be missing, but must not have another version."""
    version = trigger_version(recipe)
    result = []
    for workload in WORKLOADS if version else ():
        for annotation in dict.fromkeys((key, KEY, OLDER_KEY)):
            value = look_up(given, (workload, "podAnnotations", annotation), str, name)
            if value != version and (value is not None or annotation == key):
                path = at(f"{workload}.podAnnotations", annotation)
                result.append(f"{path} is {value or 'missing'}, but the recipe's {OPERATOR} is {version}")
    return result


def run_values(version: str, charts: dict[str, Chart], given: dict[str, Mapping]) -> Mapping:
    """Return values of gpu-operator-post that depend on the other two releases."""
    # The version alone would miss a new driver, which changes only the values. GitOps tools run the hook again only
    # if its release changes.
    own = look_up(given[POST], ("trigger",), str, f"values of {POST}")
    parts = (version, fingerprint(charts[OPERATOR], given[OPERATOR]), own)
    return {
        "trigger": "-".join(filter(None, parts)),
        "expect": {"chartVersion": version, **_driver(given[OPERATOR])},
        **_plugin(charts[DRA].name, given),
    }


def _driver(operator: Mapping) -> Mapping:
    """Return the driver version to expect, if the operator's policy will name it."""
    name = f"values of {OPERATOR}"
    driver = look_up(operator, ("driver",), dict, name) or {}
    by_other_kind = look_up(driver, ("nvidiaDriverCRD", "enabled"), Any, f"{name}: driver")
    if driver.get("version") is None or driver.get("enabled") is False or by_other_kind:
        return {}
    version = look_up(operator, ("driver", "version"), str, name)
    return {"driverVersion": version} if version and not version.startswith("sha256:") else {}


def _plugin(chart: str, given: dict[str, Mapping]) -> Mapping:
    """Return the name of the plugin's DaemonSet if the chart or the values of the DRA driver give it an unusual one."""
    if look_up(given[POST], ("plugin", "names"), Any, f"values of {POST}"):
        return {}
    name = look_up(given[DRA], ("nameOverride",), str, f"values of {DRA}") or chart
    if name in KNOWN_PLUGINS:
        return {}
    return {"plugin": {"names": [f"{name[:63].rstrip('-')}-kubelet-plugin"]}}
