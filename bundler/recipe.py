"""Read the components of a resolved recipe that matter here.

The shape is that of NVIDIA AICR: ``kind: RecipeResult`` (``aicr.nvidia.com/v1alpha1``, later ``aicr.run/…``) or
``kind: Recipe`` (``aicr.run/v1``), with ``componentRefs``. Fields that the bundler does not use may have any name and
type, so that it can read the recipes of a later AICR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from bundler import documents
from bundler.documents import InputError, at, convert

if TYPE_CHECKING:
    from pathlib import Path

    from bundler.documents import Mapping

OPERATOR: Final = "gpu-operator"
POST: Final = "gpu-operator-post"
DRA: Final = "nvidia-dra-driver-gpu"
COMPONENTS: Final = (OPERATOR, POST, DRA)
MANIFEST_FILES: Final = "manifestFiles"
EXTRAS: Final = ("preManifestFiles", MANIFEST_FILES, "patches")

VERSION: Final = r"v?[0-9][0-9A-Za-z.+_-]*"
SOURCE: Final = r"(oci|https?)://[A-Za-z0-9.:_/~%@\[\]-]+"

# These texts become part of commands and file names, so they must not contain characters that are special there.
Name = Annotated[str, Meta(pattern=r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?\Z")]
Chart = Annotated[str, Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?\Z")]
Version = Annotated[str, Meta(pattern=rf"^({VERSION})?\Z")]
Source = Annotated[str, Meta(pattern=rf"^({SOURCE})?\Z")]
Api = Annotated[str, Meta(pattern=r"^(aicr\.nvidia\.com|aicr\.run)/+[^/]")]
Helm = Annotated[str, Meta(pattern=r"^(?i:helm)?\Z")]


class Component(Struct, frozen=True, rename="camel"):
    """One component. A missing text is empty."""

    path: str
    """The place of the component in the recipe."""
    name: str
    release: Name = ""
    """What the recipe calls it, and its release: gpu-operator-post may have another name there than here."""
    namespace: Name = ""
    chart: Chart = ""
    source: Source = ""
    version: Version = ""
    values_file: str = ""
    type: Helm = ""
    overrides: dict[str, Any] = {}
    enabled: bool = True
    extras: tuple[str, ...] = ()
    """Fields with objects and patches that AICR applies in addition to the chart. A bundle leaves them out."""


class Recipe(Struct, frozen=True):
    """A resolved recipe."""

    name: str
    """The name of the file, for messages."""
    components: tuple[Component, ...]

    def find(self, name: str) -> Component | None:
        """Return a component, also one that is switched off."""
        return next((component for component in self.components if component.name == name), None)

    def enabled(self, name: str) -> Component | None:
        """Return a component, unless it is missing or switched off."""
        component = self.find(name)
        return component if component is not None and component.enabled else None

    def required(self, component: Component, key: str) -> str:
        """Return a text of a component, and refuse the recipe if it is missing."""
        text = str(getattr(component, key))
        if not text:
            raise InputError(f"{self.name}: {at(component.path, key)}: it is missing or empty ({component.name})")
        return text


class _Document(Struct, rename="camel"):
    kind: Literal["RecipeResult", "Recipe"]
    api_version: Api
    component_refs: list[dict[str, Any]]


class _Switches(Struct):
    """Overrides that switch a component off, and are not values of its chart."""

    enabled: bool = True
    install: bool = True


def read(file: Path) -> Recipe:
    """Read the file of a recipe."""
    document, name = documents.read(file), file.name
    if document.get("kind") == "RecipeMetadata":
        raise InputError(f"{name}: kind: a RecipeMetadata is not resolved: make a RecipeResult with `aicr recipe`")
    components: dict[str, Component] = {}
    for index, ref in enumerate(convert(document, _Document, name).component_refs):
        component = _component(ref, name, at("componentRefs", index))
        if component.name in components:
            raise InputError(f"{name}: {component.path}.name: duplicate component {component.name}")
        components[component.name] = component
    return Recipe(name, tuple(components.values()))


def _component(ref: Mapping, file: str, path: str) -> Component:
    given = {key: value for key, value in ref.items() if value}
    called = convert(given.get("name", ""), str, file, at(path, "name"))
    # AICR keeps names that end in -post for its own releases, so a recipe has another one for our chart.
    name = POST if given.get("chart") == POST else called
    if name not in COMPONENTS:
        return Component(path, name)
    extras = [key for key in EXTRAS if key in given]
    ours = {"path": path, "name": name, "release": called or name, "enabled": True, "extras": extras}
    component = convert({"chart": name, **given, **ours}, Component, file, path)
    switches = convert(component.overrides, _Switches, file, at(path, "overrides"))
    values = {key: value for key, value in component.overrides.items() if key not in switches.__struct_fields__}
    enabled, source = switches.enabled and switches.install, component.source.rstrip("/")
    return msgspec.structs.replace(component, source=source, overrides=values, enabled=enabled)
