"""The rollout trigger: an annotation on the DRA driver's pods that carries the GPU operator's chart version.

A bump of the operator's version in a recipe then changes the DRA release too, which re-rolls its pods. It is derived,
because a pin that people keep by hand is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bundler.documents import DocumentError, at, kind
from bundler.recipe import DRA, OPERATOR
from bundler.values import found, merged, nested

if TYPE_CHECKING:
    from bundler.documents import Mapping
    from bundler.recipe import Recipe

KEY: Final = "aicr.run/gpu-operator-chart-version"
OLDER_KEY: Final = "aicr.nvidia.com/gpu-operator-chart-version"
"""What AICR wrote before it renamed its API group."""
PODS: Final = ("controller", "kubeletPlugin")
"""Both workloads of the DRA driver's chart; each has ``podAnnotations``."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """An annotation that does not say what the recipe says."""

    path: str
    given: str
    """What the values say; empty where they say nothing."""
    wanted: str

    def __str__(self) -> str:
        return f"{self.path} is {self.given or 'missing'}, but the recipe's {OPERATOR} is {self.wanted}"


def version(recipe: Recipe) -> str:
    """Give the version that the annotation must carry; empty where one of the two components is switched off."""
    operator = recipe.enabled(OPERATOR)
    if operator is None or recipe.enabled(DRA) is None:
        return ""
    return recipe.required(operator, "version")


def overlay(recipe: Recipe, key: str) -> Mapping:
    """Give the values to lay over the DRA driver's; empty where there is nothing to trigger."""
    wanted = version(recipe)
    return merged(*(nested((pod, "podAnnotations", key), wanted) for pod in PODS)) if wanted else {}


def annotated(recipe: Recipe, key: str, given: Mapping, name: str) -> Mapping:
    """Give the overlay with the pods' other annotations of the given values, for tools that replace whole mappings."""
    derived = overlay(recipe, key)
    if not derived:
        return {}
    own = (nested((pod, "podAnnotations"), _annotations(given, pod, name)) for pod in PODS)
    return merged(*own, derived)


def divergences(recipe: Recipe, key: str, given: Mapping, name: str) -> list[Divergence]:
    """Compare the given values with the recipe. An older key may be missing, but must not lie."""
    wanted = version(recipe)
    result = []
    for pod in PODS if wanted else ():
        annotations = _annotations(given, pod, name)
        for each in dict.fromkeys((key, KEY, OLDER_KEY)):
            path = at(f"{pod}.podAnnotations", each)
            value = annotations.get(each)
            if value is not None and not isinstance(value, str):
                raise DocumentError(f"{name}: {path}: a text is expected, not {kind(value)}: quote it")
            if value != wanted and (value is not None or each == key):
                result.append(Divergence(path, value or "", wanted))
    return result


def _annotations(given: Mapping, pod: str, name: str) -> Mapping:
    annotations = found(given, (pod, "podAnnotations"), name)
    if annotations is None:
        return {}
    if not isinstance(annotations, dict):
        raise DocumentError(f"{name}: {pod}.podAnnotations: a mapping is expected, not {kind(annotations)}")
    return annotations
