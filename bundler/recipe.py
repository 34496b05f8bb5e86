"""Read the components of a resolved recipe that matter here.

The shape is that of NVIDIA AICR: ``kind: RecipeResult`` (``aicr.nvidia.com/v1alpha1``, later ``aicr.run/…``) or
``kind: Recipe`` (``aicr.run/v1``), with ``componentRefs``. Fields that the bundler does not use may have any name and
type, so that it still reads a recipe of a later AICR with more in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from bundler import documents
from bundler.documents import InputError, at

if TYPE_CHECKING:
    from pathlib import Path

    from bundler.documents import Mapping

OPERATOR: Final = "gpu-operator"
POST: Final = "gpu-operator-post"
DRA: Final = "nvidia-dra-driver-gpu"
MANIFEST_FILES: Final = "manifestFiles"

_VERSION: Final = r"v?[0-9][0-9A-Za-z.+_-]*"
_SOURCE: Final = r"(oci|https?)://[A-Za-z0-9.:_/~%@\[\]-]+"

# These texts end up in commands and file names, and so must not hold what those would understand.
Name = Annotated[str, Meta(pattern=r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?\Z")]
Chart = Annotated[str, Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?\Z")]
Version = Annotated[str, Meta(pattern=rf"^({_VERSION})?\Z")]
Source = Annotated[str, Meta(pattern=rf"^({_SOURCE})?\Z")]
Api = Annotated[str, Meta(pattern=r"^(aicr\.nvidia\.com|aicr\.run)/+[^/]")]
Helm = Annotated[str, Meta(pattern=r"^(?i:helm)?\Z")]
T = TypeVar("T")


class Component(Struct, frozen=True, rename="camel"):
    """One component. A text that is not there is empty."""

    path: str
    """The place where the recipe names it."""
    name: str
    namespace: Name = ""
    chart: Chart = ""
    source: Source = ""
    version: Version = ""
    values_file: str = ""
    type: Helm = ""
    overrides: dict[str, Any] = {}
    enabled: bool = True
    pre_manifest_files: Any = None
    manifest_files: Any = None
    patches: Any = None

    @property
    def extras(self) -> tuple[str, ...]:
        """The fields with what AICR installs before, after and over the chart, which no bundle has room for."""
        fields = {"preManifestFiles": self.pre_manifest_files, MANIFEST_FILES: self.manifest_files}
        return tuple(key for key, value in {**fields, "patches": self.patches}.items() if value)


class Recipe(Struct, frozen=True):
    """A resolved recipe."""

    name: str
    """The name of the file, for messages."""
    components: tuple[Component, ...]

    def enabled(self, name: str) -> Component | None:
        """Return a component, if the recipe has it switched on."""
        return next((each for each in self.components if each.name == name and each.enabled), None)

    def switched_off(self, name: str) -> bool:
        """Whether the recipe names a component and switches it off."""
        return any(each.name == name and not each.enabled for each in self.components)

    def required(self, component: Component, key: str) -> str:
        """Return a text that a component must have for what is asked."""
        text = str(getattr(component, key))
        if not text:
            raise InputError(f"{self.name}: {at(component.path, key)}: it is missing or empty ({component.name})")
        return text


class _Document(Struct, rename="camel"):
    kind: Literal["RecipeResult", "Recipe"]
    api_version: Api
    component_refs: list[dict[str, Any]]


class _Named(Struct):
    name: str = ""


class _Gates(Struct):
    """Overrides that switch a component off instead of reaching its chart."""

    enabled: bool = True
    install: bool = True


def is_source(text: str) -> bool:
    """Whether a text names a chart repository."""
    return re.fullmatch(_SOURCE, text) is not None


def is_version(text: str) -> bool:
    """Whether a text is a chart's version."""
    return re.fullmatch(_VERSION, text) is not None


def read(file: Path) -> Recipe:
    """Read a recipe's file."""
    document, name = documents.read(file), documents.name_of(file)
    if document.get("kind") == "RecipeMetadata":
        raise InputError(f"{name}: kind: a RecipeMetadata is not resolved yet: make a RecipeResult with `aicr recipe`")
    components: list[Component] = []
    for index, ref in enumerate(_convert(document, _Document, name, "").component_refs):
        component = _component(ref, name, at("componentRefs", index))
        if any(component.name == other.name for other in components):
            raise InputError(f"{name}: {component.path}.name: {component.name} is there twice")
        components.append(component)
    return Recipe(name, tuple(components))


def _component(ref: Mapping, file: str, path: str) -> Component:
    given = {key: value for key, value in ref.items() if value}
    name = _convert(given, _Named, file, path).name
    if name not in (OPERATOR, DRA, POST):
        return Component(path, name)
    component = _convert({"chart": name, **given, "path": path, "enabled": True}, Component, file, path)
    gates = _convert(component.overrides, _Gates, file, at(path, "overrides"))
    values = {key: value for key, value in component.overrides.items() if key not in gates.__struct_fields__}
    enabled, source = gates.enabled and gates.install, component.source.rstrip("/")
    return msgspec.structs.replace(component, source=source, overrides=values, enabled=enabled)


def _convert(value: object, into: type[T], file: str, path: str) -> T:
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError as error:
        problem, _, below = str(error).partition(" - at `$")
        where = (path + below.rstrip("`")).lstrip(".") or "the document"
        hint = ": quote it" if re.match(r"Expected `str`, got `(int|float|bool)`", problem) else ""
        raise InputError(f"{file}: {where}: {problem}{hint}") from error
