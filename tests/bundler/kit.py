"""Read examples/aicr, as AICR does."""

from __future__ import annotations

from typing import Any, Final

from tests.bundler.program import ROOT
from tests.bundler.reading import load

KIT: Final = ROOT / "examples" / "aicr"
NAME: Final = "dra-plugin-refresh"


def entry() -> dict[str, Any]:
    """Return the component's entry in the registry."""
    (found,) = load(KIT / "registry.yaml")["components"]
    return dict(found)


def component_ref() -> dict[str, Any]:
    """Return the component as AICR resolves it: the overlay's reference with the defaults of the registry."""
    ours, _ = load(KIT / "overlays" / f"{NAME}.yaml")["spec"]["componentRefs"]
    keys = {"chart": "defaultChart", "source": "defaultRepository", "version": "defaultVersion"}
    helm = entry()["helm"]
    return {**ours, "namespace": helm["defaultNamespace"], **{key: helm[value] for key, value in keys.items()}}


def scheduling(selector: dict[str, str], tolerations: list[dict[str, str]]) -> dict[str, Any]:
    """Return the values that AICR's flags for system nodes set, by path."""
    paths = entry()["nodeScheduling"]["system"]
    given: dict[str, Any] = dict.fromkeys(paths["nodeSelectorPaths"], selector)
    return given | dict.fromkeys(paths["tolerationPaths"], tolerations)


def asserted() -> list[dict[str, Any]]:
    """Return what the health check asserts."""
    steps = load(KIT / entry()["healthCheck"]["assertFile"])["spec"]["steps"]
    return [each["assert"]["resource"] for step in steps for each in step["try"]]
