"""What a resolved recipe says about the components that matter here.

The shape is that of NVIDIA AICR: ``kind: RecipeResult`` (``aicr.nvidia.com/v1alpha1``, later ``aicr.run/…``) or
``kind: Recipe`` (``aicr.run/v1``), with ``componentRefs``. Only what is used is judged, so that a recipe of a later
version with more in it is still read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bundler import documents
from bundler.documents import InputError, at, kind

if TYPE_CHECKING:
    from pathlib import Path

    from bundler.documents import Mapping, Value

OPERATOR: Final = "gpu-operator"
POST: Final = "gpu-operator-post"
DRA: Final = "nvidia-dra-driver-gpu"

KINDS: Final = ("RecipeResult", "Recipe")
GROUPS: Final = ("aicr.nvidia.com", "aicr.run")
"""AICR renamed its API group; the fields that are read here stayed."""
GATES: Final = ("enabled", "install")
"""Overrides that switch a component off instead of reaching its chart."""
MANIFEST_FILES: Final = "manifestFiles"
BESIDE: Final = ("preManifestFiles", MANIFEST_FILES, "patches")
"""What AICR installs before, after and over a component's chart, from files that are not in the recipe."""

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CHART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION: Final = re.compile(r"v?[0-9][0-9A-Za-z.+_-]*")
_SOURCE: Final = re.compile(r"(oci|https?)://[A-Za-z0-9.:_/~%@\[\]-]+")


@dataclass(frozen=True, slots=True)
class Component:
    """One component, with the place where the recipe names it. A text that is not there is empty."""

    path: str
    name: str
    namespace: str = ""
    chart: str = ""
    source: str = ""
    version: str = ""
    values_file: str = ""
    beside: tuple[str, ...] = ()
    """What else the recipe installs for it, beside its chart: fields that no bundle has room for."""
    overrides: Mapping = field(default_factory=dict)
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Recipe:
    """A resolved recipe."""

    name: str
    """The file's name, for messages."""
    components: tuple[Component, ...]

    def enabled(self, name: str) -> Component | None:
        """Give a component, if the recipe has it switched on."""
        return next((one for one in self.components if one.name == name and one.enabled), None)

    def switched_off(self, name: str) -> bool:
        """Whether the recipe names a component and switches it off."""
        return any(one.name == name and not one.enabled for one in self.components)

    def required(self, component: Component, key: str) -> str:
        """Give a text that a component must have for what is asked."""
        text = str(getattr(component, key))
        if not text:
            raise InputError(f"{self.name}: {at(component.path, key)}: it is missing or empty ({component.name})")
        return text


def is_source(text: str) -> bool:
    """Whether a text names a chart repository."""
    return _SOURCE.fullmatch(text) is not None


def is_version(text: str) -> bool:
    """Whether a text is a chart's version."""
    return _VERSION.fullmatch(text) is not None


def read(file: Path) -> Recipe:
    """Read a recipe's file."""
    return interpret(documents.read(file), documents.name_of(file))


def interpret(document: Mapping, name: str) -> Recipe:
    """Judge a recipe."""
    return _Interpreter(name).recipe(document)


class _Interpreter:
    """Judges one recipe, knowing its name for the messages."""

    def __init__(self, name: str) -> None:
        self._name = name

    def recipe(self, document: Mapping) -> Recipe:
        self._header(document)
        refs = document.get("componentRefs")
        if not isinstance(refs, list):
            raise self._error("componentRefs", f"a list is expected, not {kind(refs)}")
        components: list[Component] = []
        for index, ref in enumerate(refs):
            found = self._component(ref, at("componentRefs", index))
            if any(found.name == other.name for other in components):
                raise self._error(at(found.path, "name"), f"{found.name} is there twice")
            components.append(found)
        return Recipe(self._name, tuple(components))

    def _header(self, document: Mapping) -> None:
        what = self._text(document, "kind", "")
        if what == "RecipeMetadata":
            raise self._error(
                "kind", "a RecipeMetadata is not resolved yet: make a RecipeResult of it with `aicr recipe`"
            )
        if what not in KINDS:
            raise self._error("kind", f"{' or '.join(KINDS)} is expected, not {what or 'nothing'}")
        version = self._text(document, "apiVersion", "")
        group = version.partition("/")[0]
        if group not in GROUPS or not version.removeprefix(group).strip("/"):
            raise self._error(
                "apiVersion", f"a version of {' or '.join(GROUPS)} is expected, not {version or 'nothing'}"
            )

    def _component(self, ref: Value, path: str) -> Component:
        if not isinstance(ref, dict):
            raise self._error(path, f"a mapping is expected, not {kind(ref)}")
        name = self._text(ref, "name", path)
        if name not in (OPERATOR, DRA, POST):
            return Component(path, name)
        if (sort := self._text(ref, "type", path)).lower() not in ("", "helm"):
            raise self._error(at(path, "type"), f"{name} is of type {sort}; only Helm is known")
        overrides = ref.get("overrides") or {}
        if not isinstance(overrides, dict):
            raise self._error(at(path, "overrides"), f"a mapping is expected, not {kind(overrides)}")
        return Component(
            path,
            name,
            namespace=self._shaped(ref, "namespace", path, _NAME),
            chart=self._shaped(ref, "chart", path, _CHART) or name,
            source=self._shaped(ref, "source", path, _SOURCE).rstrip("/"),
            version=self._shaped(ref, "version", path, _VERSION),
            values_file=self._text(ref, "valuesFile", path),
            beside=tuple(key for key in BESIDE if ref.get(key)),
            overrides={key: value for key, value in overrides.items() if key not in GATES},
            enabled=all(self._gate(overrides, gate, at(path, "overrides")) for gate in GATES),
        )

    def _gate(self, overrides: Mapping, key: str, path: str) -> bool:
        gate = overrides.get(key, True)
        if not isinstance(gate, bool):
            raise self._error(at(path, key), f"true or false is expected, not {kind(gate)}")
        return gate

    def _text(self, mapping: Mapping, key: str, path: str) -> str:
        text = mapping.get(key)
        if text is None:
            return ""
        if not isinstance(text, str):
            hint = ": quote it" if isinstance(text, (int, float)) else ""
            raise self._error(at(path, key), f"a text is expected, not {kind(text)}{hint}")
        return text

    def _shaped(self, mapping: Mapping, key: str, path: str, pattern: re.Pattern[str]) -> str:
        """Give a text that ends up in commands and file names, and so must not hold what those would understand."""
        text = self._text(mapping, key, path)
        if text and pattern.fullmatch(text) is None:
            raise self._error(at(path, key), f"{text[:60]!r} is no {key}")
        return text

    def _error(self, path: str, problem: str) -> InputError:
        return InputError(f"{self._name}: {path}: {problem}")
