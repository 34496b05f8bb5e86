"""Plan a bundle: the releases in their order, with the same charts and values for every deployment tool."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from bundler import trigger
from bundler.documents import InputError, at, parse
from bundler.recipe import DRA, MANIFEST_FILES, OPERATOR, POST, Component
from bundler.values import found, merged, text_at
from hook import __version__

if TYPE_CHECKING:
    from bundler.documents import Mapping
    from bundler.recipe import Recipe

DEFAULT_TIMEOUT: Final = "25m"
"""The default of the chart."""
ALLOWANCE: Final = 120
"""Seconds to pull the image, start the pod and delete the Job of the last run; the chart's NOTES name it, too."""
LEAST: Final = 30
"""Seconds: in less no plugin restarts and is verified, and the chart refuses it, too."""
LONGEST: Final = 30 * 24 * 3600
"""As for the run itself: no driver upgrade takes a month."""
REGARDING: Final = "regarding"
"""The value that names the objects on which the run reports a failure as Events."""
KNOWN_PLUGINS: Final = (DRA, "dra-driver-nvidia-gpu")
"""Names that the chart of the DRA driver or AICR gives the DaemonSets. The run must be given any other name."""
DIGITS: Final = 12
"""Of a SHA-256: enough to tell one state of a release from the one before it."""
_DURATION: Final = re.compile(r"(?=[0-9])(?:([0-9]{1,7})h)?(?:([0-9]{1,7})m)?(?:([0-9]{1,7})s)?")
_NOTES: Final = {
    DRA: "podAnnotations re-roll the pods whenever the GPU operator's chart version changes",
    POST: "trigger changes with everything that is deployed as gpu-operator; the run waits for what expect names",
}


@dataclass(frozen=True, slots=True)
class Remote:
    """A chart in a repository."""

    repository: str
    name: str
    version: str

    @property
    def registry(self) -> str:
        """The OCI registry and path without their scheme, or nothing."""
        return self.repository.removeprefix("oci://") if self.repository.startswith("oci://") else ""

    @property
    def identity(self) -> Mapping:
        """What the chart is."""
        return {"repository": self.repository, "name": self.name, "version": self.version}


@dataclass(frozen=True, slots=True)
class Copied:
    """A chart whose files become part of the bundle."""

    files: dict[str, bytes]

    @property
    def identity(self) -> Mapping:
        """What the chart is: a hash of each file."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files.items()}

    @property
    def name(self) -> str:
        """The name in its ``Chart.yaml``, which is the first part of the names of its objects."""
        return str(self.about("Chart.yaml").get("name"))

    def about(self, name: str) -> Mapping:
        """Read its ``Chart.yaml``, which messages call by a name."""
        return parse(self.files.get("Chart.yaml", b"").decode(errors="replace"), name)


Chart = Remote | Copied


def fingerprint(chart: Chart, values: Mapping) -> str:
    """Return a hash of one state of a release."""
    parts = (json.dumps(part, sort_keys=True) for part in (chart.identity, values))
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:DIGITS]


def seconds(text: str, name: str) -> int:
    """Read a duration such as 25m, 90s or 1h30m, as the chart has it."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InputError(f"{name}: {text[:40]!r} is no duration; write it with units, such as 25m, 90s or 1h30m")
    hours, minutes, rest = (int(part or 0) for part in match.groups())
    total = hours * 3600 + minutes * 60 + rest
    if not LEAST <= total <= LONGEST:
        raise InputError(f"{name}: {text} is not between {LEAST}s, the least for one plugin's restart, and 30 days")
    return total


def duration(total: int) -> str:
    """Write seconds as Helm and Flux read them, in the largest unit that fits."""
    size, unit = next((size, unit) for size, unit in ((3600, "h"), (60, "m"), (1, "s")) if total % size == 0)
    return f"{total // size}{unit}"


@dataclass(frozen=True, slots=True)
class Git:
    """Where the bundle will be committed."""

    url: str
    revision: str
    path: str

    def folder(self, name: str) -> str:
        """Return the path of a folder of the bundle, from the root of the repository."""
        return "/".join(part for part in (self.path, name) if part)


@dataclass(frozen=True, slots=True)
class Release:
    """One release, the same for every deployment tool."""

    step: int
    name: str
    namespace: str
    chart: Chart
    given: Mapping
    """The values of the recipe and of the user."""
    derived: Mapping
    """Values laid over them, so that no other value defeats them by accident."""

    @property
    def folder(self) -> str:
        """Its folder in the bundle; the number shows the order."""
        return f"{self.step:03}-{self.name}"

    @property
    def values(self) -> Mapping:
        """All values."""
        return merged(self.given, self.derived)

    def reporting_on(self, resource: str, namespace: str) -> Release:
        """Return this release with failures reported on the object that deploys it, unless its values decide that.

        Not where permissions stay in some namespaces: the run would need one more, which may be missing or forbidden.
        """
        if self.name != POST or REGARDING in self.given:
            return self
        if found(self.given, ("rbac", "scope"), f"values of {POST}") == "namespace":
            return self
        deployed_by: Mapping = {"resource": resource, "namespace": namespace, "name": self.name}
        return replace(self, derived={**self.derived, REGARDING: [deployed_by]})


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asks for in addition to the recipe."""

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
    """Releases in their order, and what the deployment tool must know in addition."""

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
        """Seconds that the deployment tool must give the run."""
        return self.timeout + ALLOWANCE

    @property
    def post(self) -> Release | None:
        """Our own release, where the recipe has plugins to keep fresh."""
        return self.release(POST)

    def release(self, name: str) -> Release | None:
        """Return a release by name."""
        return next((release for release in self.releases if release.name == name), None)

    def before(self, release: Release) -> Release | None:
        """Return the release that comes right before another one."""
        return next((other for other in self.releases if other.step == release.step - 1), None)

    def reporting_on(self, resource: str, namespace: str) -> Plan:
        """Return this plan with failures of the run reported on the object of the deployment tool."""
        return replace(self, releases=tuple(release.reporting_on(resource, namespace) for release in self.releases))

    def note(self, release: Release) -> str:
        """Describe which values of a release are derived, for people who read the file before the documentation."""
        if not release.derived:
            return f"Values of {release.name}, from {self.recipe} and what was given to the bundle."
        told = "; failures are told on what regarding names" if REGARDING in release.derived else ""
        derived = f"Derived from {self.recipe}: {_NOTES[release.name]}{told}."
        return f"{derived} Change the recipe, and write the bundle again."

    def git_for(self, tool: str) -> Git:
        """Return the repository that the bundle will be in, from which a tool reads charts that are copied into it."""
        if self.git is None:
            raise InputError(
                f"--git-url is missing: {tool} reads a chart that is copied into the bundle from the repository that "
                "it is in"
            )
        return self.git


def make(recipe: Recipe, request: Request) -> Plan:
    """Plan the releases that a recipe asks for."""
    operator, dra = recipe.enabled(OPERATOR), recipe.enabled(DRA)
    if operator is None and dra is None:
        raise InputError(f"{recipe.name}: componentRefs: neither {OPERATOR} nor {DRA} is enabled")
    planner = _Planner(recipe, request)
    timeout = request.timeout or DEFAULT_TIMEOUT
    if operator is not None:
        planner.add(operator)
    if operator is not None and dra is not None and not recipe.switched_off(POST):
        timeout = planner.add_post(operator, dra)
    if dra is not None:
        planner.add(dra, trigger.overlay(recipe, request.key))
    unused = {*request.values, *request.charts} - {release.name for release in planner.releases}
    planner.notes += [f"nothing was done with what was given for {name}, which is not in the bundle" for name in sorted(
        unused
    )]  # fmt: skip
    limit = seconds(timeout, "timeout")
    return Plan(recipe.name, tuple(planner.releases), limit, request.hook, request.git, tuple(planner.notes))


class _Planner:
    """Makes the releases of one plan, in their order."""

    def __init__(self, recipe: Recipe, request: Request) -> None:
        self._recipe = recipe
        self._request = request
        self.releases: list[Release] = []
        self.notes: list[str] = []

    def add(self, component: Component, derived: Mapping | None = None) -> None:
        """Add the release of a component."""
        namespace = self._recipe.required(component, "namespace")
        self._append(component, namespace, self._given(component), derived or {})

    def add_post(self, operator: Component, dra: Component) -> str:
        """Add our own release, after the operator's, and return its timeout."""
        component = self._recipe.enabled(POST) or Component("", POST, chart=POST)
        given = self._given(component)
        name = f"values of {POST}"
        timeout = self._request.timeout or text_at(given, ("timeout",), name) or DEFAULT_TIMEOUT
        # The version alone would miss a new driver, which changes the operator's values only. Any change of the
        # operator's release must make a GitOps tool run the hook.
        version, release = self._recipe.required(operator, "version"), self.releases[0]
        parts = (version, fingerprint(release.chart, release.values), text_at(given, ("trigger",), name))
        derived: Mapping = {
            "timeout": timeout,
            "trigger": "-".join(filter(None, parts)),
            "expect": self._expectation(operator),
            **self._consumer(dra, given),
        }
        if MANIFEST_FILES in operator.extras:
            self.notes.append(
                f"AICR installs the {MANIFEST_FILES} of {OPERATOR} as a release called {POST}: where that is live, the "
                "release of this bundle replaces it, and Helm deletes what it held"
            )
        if not self._request.hook:
            derived["hook"] = {"enabled": False}
        self._append(component, component.namespace or release.namespace, given, derived)
        return timeout

    def _append(self, component: Component, namespace: str, given: Mapping, derived: Mapping) -> None:
        chart = self._chart(component)
        self.notes += [
            f"{at(component.path, key)} of {component.name} is not in the bundle, which holds charts only: "
            "install it beside them"
            for key in component.extras
        ]
        if component.name == OPERATOR and isinstance(chart, Copied):
            self._note_another_version(component, chart)
        self.releases.append(Release(len(self.releases) + 1, component.name, namespace, chart, given, derived))

    def _note_another_version(self, component: Component, chart: Copied) -> None:
        """Compare the version that the run waits for with the one that the operator's objects will carry."""
        file = f"Chart.yaml of --chart {component.name}"
        version = chart.about(file).get("version")
        # The run leaves the "v" out as well.
        if str(version).removeprefix("v") != component.version.removeprefix("v"):
            self.notes.append(
                f"{file} has version {version}, the recipe {component.version}: the run waits for the recipe's, in "
                "vain if the chart labels its policy with its own"
            )

    def _given(self, component: Component) -> Mapping:
        """Lay the user's values over the recipe's, as AICR does."""
        if component.values_file and component.name not in self._request.base_values:
            self.notes.append(
                f"the recipe's valuesFile of {component.name}, {component.values_file}, is not in it: name AICR's data "
                f"directory with --data, or pass the file with --values {component.name}=FILE"
            )
        return self._layered(component)

    def _layered(self, component: Component) -> Mapping:
        base = self._request.base_values.get(component.name, {})
        return merged(base, component.overrides, self._request.values.get(component.name, {}))

    def _chart(self, component: Component) -> Chart:
        source = self._request.charts.get(component.name, "")
        if isinstance(source, Copied):
            return source
        if component.name != POST:
            version = self._recipe.required(component, "version")
            return Remote(source or self._recipe.required(component, "source"), component.chart, version)
        version = self._request.post_version or component.version or __version__
        if not (source := source or component.source):
            # No registry is the project's own, and anyone could claim a name that is free.
            raise InputError(
                f"nothing says where the chart of {POST} comes from: name the repository that you trust with "
                f"--chart {POST}=oci://…, or its directory, or give the recipe's component {POST} a source"
            )
        return Remote(source, component.chart, version)

    def _expectation(self, operator: Component) -> Mapping:
        """Return what the operator's policy will name: its chart's version, and the driver's where it names one."""
        expected: Mapping = {"chartVersion": operator.version}
        values, name = self.releases[0].values, f"values of {operator.name}"
        if found(values, ("driver", "version"), name) is None:
            return expected
        enabled = found(values, ("driver", "enabled"), name) is not False
        if enabled and not found(values, ("driver", "nvidiaDriverCRD", "enabled"), name):
            version = text_at(values, ("driver", "version"), name) or ""
            expected |= {"driverVersion": version} if version and not version.startswith("sha256:") else {}
        return expected

    def _consumer(self, dra: Component, given: Mapping) -> Mapping:
        """Return the name of the plugin's DaemonSet where the DRA driver's chart or values give it an unusual one."""
        if found(given, ("consumer", "names"), f"values of {POST}"):
            return {}
        name = text_at(self._layered(dra), ("nameOverride",), f"values of {DRA}") or self._chart(dra).name
        if name in KNOWN_PLUGINS:
            return {}
        return {"consumer": {"names": [f"{name[:63].rstrip('-')}-kubelet-plugin"]}}
