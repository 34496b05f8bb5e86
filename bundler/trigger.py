"""The rollout trigger: an annotation on the DRA driver's pods that carries the GPU operator's chart version.

A new version of the operator in a recipe then changes the DRA release too, and Kubernetes replaces its pods. The
annotation is derived, because people forget a pin that they keep by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bundler.documents import at
from bundler.recipe import DRA, OPERATOR
from bundler.values import mapping_at, merged, nested, text_at

if TYPE_CHECKING:
    from bundler.documents import Mapping
    from bundler.recipe import Recipe

KEY: Final = "aicr.run/gpu-operator-chart-version"
OLDER_KEY: Final = "aicr.nvidia.com/gpu-operator-chart-version"
"""What AICR wrote before it renamed its API group."""
PLACES: Final = (("controller", "podAnnotations"), ("kubeletPlugin", "podAnnotations"))
"""Both workloads of the DRA driver's chart."""


def version(recipe: Recipe) -> str:
    """Return the version that the annotation must carry; empty where one of the two components is switched off."""
    operator = recipe.enabled(OPERATOR)
    if operator is None or recipe.enabled(DRA) is None:
        return ""
    return recipe.required(operator, "version")


def overlay(recipe: Recipe, key: str) -> Mapping:
    """Return the values to lay over the DRA driver's; empty where there is nothing to trigger."""
    wanted = version(recipe)
    return merged(*(nested((*place, key), wanted) for place in PLACES)) if wanted else {}


def annotated(recipe: Recipe, key: str, given: Mapping, name: str) -> Mapping:
    """Return the overlay with all other annotations of the pods, for tools that replace whole mappings."""
    derived = overlay(recipe, key)
    own = (nested(place, mapping_at(given, place, name)) for place in PLACES)
    return merged(*own, derived) if derived else {}


def divergences(recipe: Recipe, key: str, given: Mapping, name: str) -> list[str]:
    """Compare the given values with the recipe. An older key may be missing, but must not have another version."""
    wanted = version(recipe)
    result = []
    for place in PLACES if wanted else ():
        for each in dict.fromkeys((key, KEY, OLDER_KEY)):
            value = text_at(given, (*place, each), name)
            if value != wanted and (value is not None or each == key):
                path = at(".".join(place), each)
                result.append(f"{path} is {value or 'missing'}, but the recipe's {OPERATOR} is {wanted}")
    return result
