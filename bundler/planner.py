"""From a recipe and what the user asks for to the plan: each release's chart, and the values derived for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bundler import timing, trigger
from bundler.charts import KNOWN_PLUGINS, Copied, Remote, about, chart_name, fingerprint
from bundler.documents import DocumentError, at, kind
from bundler.plan import Plan, Release
from bundler.recipe import DRA, MANIFEST_FILES, OPERATOR, POST, Component
from bundler.values import found, merged
from hook import __version__

if TYPE_CHECKING:
    from bundler.charts import Chart
    from bundler.documents import Mapping
    from bundler.plan import Request
    from bundler.recipe import Recipe

DEFAULT_TIMEOUT: Final = "25m"
"""The chart's own."""


def make(recipe: Recipe, request: Request) -> Plan:
    """Plan the releases that a recipe asks for."""
    operator, dra = recipe.enabled(OPERATOR), recipe.enabled(DRA)
    if operator is None and dra is None:
        raise DocumentError(f"{recipe.name}: componentRefs: neither {OPERATOR} nor {DRA} is enabled")
    planner = _Planner(recipe, request)
    timeout = request.timeout or DEFAULT_TIMEOUT
    if operator is not None:
        planner.add(operator)
    if operator is not None and dra is not None and not recipe.switched_off(POST):
        timeout = planner.add_post(operator)
    if dra is not None:
        planner.add(dra, trigger.overlay(recipe, request.key))
    releases = tuple(planner.releases)
    return Plan(
        recipe.name,
        releases,
        timing.seconds(timeout, "timeout"),
        request.hook,
        request.git,
        tuple(planner.notes + _unused(request, releases)),
    )


def _unused(request: Request, releases: tuple[Release, ...]) -> list[str]:
    """Say what was given for a component that is not in the bundle."""
    names = {release.name for release in releases}
    return [f"nothing was done with what was given for {name}, which is not in the bundle" for name in sorted(
        (set(request.values) | set(request.charts)) - names
    )]  # fmt: skip


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

    def add_post(self, operator: Component) -> str:
        """Add our own release, after the operator's, and give its timeout."""
        component = self._recipe.enabled(POST) or Component("", POST, chart=POST)
        given = self._given(component)
        timeout = self._request.timeout or self._timeout(given)
        derived: Mapping = {
            "timeout": timeout,
            "trigger": self._trigger(operator, given),
            "expect": self._expectation(operator),
            **self._consumer(given),
        }
        if MANIFEST_FILES in operator.beside:
            self.notes.append(
                f"AICR installs the {MANIFEST_FILES} of {OPERATOR} as a release called {POST}: where that is live, the "
                "release of this bundle replaces it, and Helm deletes what it held"
            )
        if not self._request.hook:
            derived["hook"] = {"enabled": False}
        self._append(component, component.namespace or self.releases[0].namespace, given, derived)
        return timeout

    def _append(self, component: Component, namespace: str, given: Mapping, derived: Mapping) -> None:
        chart = self._chart(component)
        self._note_what_is_beside(component)
        if component.name == OPERATOR and isinstance(chart, Copied):
            self._note_another_version(component, chart)
        self.releases.append(Release(len(self.releases) + 1, component.name, namespace, chart, given, derived))

    def _note_what_is_beside(self, component: Component) -> None:
        for key in component.beside:
            self.notes.append(
                f"{at(component.path, key)} of {component.name} is not in the bundle, which holds charts only: "
                "install it beside them"
            )

    def _note_another_version(self, component: Component, chart: Copied) -> None:
        """Compare what the run will wait for with what the operator's objects will carry."""
        file = f"Chart.yaml of --chart {component.name}"
        version = about(chart, file).get("version")
        # The run leaves the "v" out as well.
        if str(version).removeprefix("v") != component.version.removeprefix("v"):
            self.notes.append(
                f"{file} has version {version}, the recipe {component.version}: the run waits for the recipe's, in "
                "vain if the chart labels its policy with its own"
            )

    def _given(self, component: Component) -> Mapping:
        """Lay the user's values over the recipe's, as AICR does."""
        base = self._request.base_values.get(component.name)
        if component.values_file and base is None:
            self.notes.append(
                f"the recipe's valuesFile of {component.name}, {component.values_file}, is not in it: name AICR's data "
                f"directory with --data, or pass the file with --values {component.name}=FILE"
            )
        return merged(base or {}, component.overrides, self._request.values.get(component.name, {}))

    def _chart(self, component: Component) -> Chart:
        source = self._request.charts.get(component.name, "")
        if isinstance(source, Copied):
            return source
        if component.name == POST:
            version = self._request.post_version or component.version or __version__
            if not (source := source or component.source):
                # No registry is the project's own, and a name that nobody has claimed could be claimed by anybody.
                raise DocumentError(
                    f"nothing says where the chart of {POST} comes from: name the repository that you trust with "
                    f"--chart {POST}=oci://…, or its directory, or give the recipe's component {POST} a source"
                )
            return Remote(source, component.chart, version)
        version = self._recipe.required(component, "version")
        return Remote(source or self._recipe.required(component, "source"), component.chart, version)

    def _timeout(self, given: Mapping) -> str:
        timeout = given.get("timeout", DEFAULT_TIMEOUT)
        if not isinstance(timeout, str):
            raise DocumentError(f"values of {POST}: timeout: a text such as 25m is expected, not {kind(timeout)}")
        return timeout

    def _trigger(self, operator: Component, given: Mapping) -> str:
        """Name what is deployed as the operator, so that any change of it makes a GitOps tool run the hook.

        The version alone would miss a new driver, which changes the operator's values only.
        """
        own = given.get("trigger")
        if own is not None and not isinstance(own, str):
            raise DocumentError(f"values of {POST}: trigger: a text is expected, not {kind(own)}: quote it")
        version = self._recipe.required(operator, "version")
        release = self.releases[0]
        return "-".join(part for part in (version, fingerprint(release.chart, release.values), own) if part)

    def _expectation(self, operator: Component) -> Mapping:
        expected: Mapping = {"chartVersion": operator.version}
        if driver := self._driver_version(operator):
            expected["driverVersion"] = driver
        return expected

    def _driver_version(self, operator: Component) -> str:
        """Give the driver version that the operator's policy will name; nothing where it names none."""
        values, name = self.releases[0].values, f"values of {operator.name}"
        version = found(values, ("driver", "version"), name)
        if version is None or found(values, ("driver", "enabled"), name) is False:
            return ""
        if found(values, ("driver", "nvidiaDriverCRD", "enabled"), name):
            return ""
        if not isinstance(version, str):
            raise DocumentError(f"{name}: driver.version: a text is expected, not {kind(version)}: quote it")
        return "" if version.startswith("sha256:") else version

    def _consumer(self, given: Mapping) -> Mapping:
        """Name the plugin's DaemonSet where the DRA driver's chart or its values give it an unusual name."""
        dra = self._recipe.enabled(DRA)
        if dra is None or found(given, ("consumer", "names"), f"values of {POST}"):
            return {}
        base = self._request.base_values.get(DRA) or {}
        values = merged(base, dra.overrides, self._request.values.get(DRA, {}))
        name = found(values, ("nameOverride",), f"values of {DRA}")
        if name is not None and not isinstance(name, str):
            raise DocumentError(f"values of {DRA}: nameOverride: a text is expected, not {kind(name)}: quote it")
        name = name or chart_name(self._chart(dra))
        if name in KNOWN_PLUGINS:
            return {}
        return {"consumer": {"names": [f"{name[:63].rstrip('-')}-kubelet-plugin"]}}
