"""What is to be deployed, in which order and with which values: the same for every deployer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bundler import timing, trigger
from bundler.recipe import POST
from bundler.values import merged

if TYPE_CHECKING:
    from bundler.charts import Chart, Copied
    from bundler.documents import Mapping


@dataclass(frozen=True, slots=True)
class Git:
    """Where the bundle will be committed."""

    url: str
    revision: str
    path: str

    def folder(self, name: str) -> str:
        """Give the path of a folder of the bundle, from the repository's root."""
        return "/".join(part for part in (self.path, name) if part)


@dataclass(frozen=True, slots=True)
class Release:
    """One release, the same by whatever deployer."""

    step: int
    name: str
    namespace: str
    chart: Chart
    given: Mapping
    """The values of the recipe and of the user."""
    derived: Mapping
    """What is laid over them, so that nobody defeats it by accident."""

    @property
    def folder(self) -> str:
        """Its folder in the bundle; the number shows the order."""
        return f"{self.step:03}-{self.name}"

    @property
    def values(self) -> Mapping:
        """All values."""
        return merged(self.given, self.derived)


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asks for, beside the recipe."""

    timeout: str = ""
    hook: bool = True
    key: str = trigger.KEY
    values: dict[str, Mapping] = field(default_factory=dict)
    """By component, on top of the recipe's."""
    base_values: dict[str, Mapping] = field(default_factory=dict)
    """By component, below the recipe's overrides: the recipe's ``valuesFile``."""
    charts: dict[str, str | Copied] = field(default_factory=dict)
    """By component: another repository, or files."""
    post_version: str = ""
    git: Git | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole: releases in their order, and what the deployer must know beside them."""

    recipe: str
    releases: tuple[Release, ...]
    timeout: int
    """Seconds that the run may take."""
    hook: bool
    git: Git | None
    notes: tuple[str, ...] = ()
    """What the user should know."""

    @property
    def outer(self) -> int:
        """Seconds that the deployer must give the run."""
        return timing.outer(self.timeout)

    @property
    def post(self) -> Release | None:
        """Our own release, where the recipe has something to keep fresh."""
        return self.release(POST)

    def release(self, name: str) -> Release | None:
        """Give a release by name."""
        return next((one for one in self.releases if one.name == name), None)

    def before(self, release: Release) -> Release | None:
        """Give the release that comes right before another one."""
        return next((one for one in self.releases if one.step == release.step - 1), None)
