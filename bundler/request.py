"""What the flags of ``bundle`` ask for in addition to the recipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bundler import documents
from bundler.documents import InputError
from bundler.values import merged

if TYPE_CHECKING:
    from bundler.charts import Copied
    from bundler.documents import Mapping
    from bundler.recipe import Component


@dataclass(frozen=True, slots=True)
class Git:
    """The repository that the bundle will be committed to."""

    url: str
    revision: str
    path: str

    def folder(self, name: str) -> str:
        """Return the path of a folder of the bundle, from the root of the repository."""
        return "/".join(part for part in (self.path, name) if part)


@dataclass(frozen=True, slots=True)
class Request:
    """The flags. Values and charts are pairs with the name of a component."""

    timeout: str
    hook: bool
    key: str
    values: tuple[tuple[str, Mapping], ...]
    charts: tuple[tuple[str, str | Copied], ...]
    """Repositories, or files."""
    post_version: str
    data: Path | None
    """The directory of the recipe's values files."""
    git_url: str
    git_revision: str
    git_path: str

    @property
    def git(self) -> Git | None:
        """The repository of the bundle, if it was named."""
        parts = Path(self.git_path).parts
        if Path(self.git_path).is_absolute() or ".." in parts:
            raise InputError(f"--git-path {self.git_path}: it must stay inside the repository")
        return Git(self.git_url, self.git_revision, "/".join(parts)) if self.git_url else None

    def given(self, component: Component) -> Mapping:
        """Return the values of a component: its values file, its overrides and the user's values, as in AICR."""
        base: Mapping = {}
        if self.data is not None and component.values_file:
            file = (self.data / component.values_file).resolve()
            if not file.is_relative_to(self.data.resolve()):
                path = documents.at(component.path, "valuesFile")
                raise InputError(f"{path}: {component.values_file!r} leads out of {self.data}")
            base = documents.read(file)
        return merged(base, component.overrides, *(values for name, values in self.values if name == component.name))
