"""What several deployers need."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from bundler.errors import InputError
from bundler.recipe import DRA, POST
from bundler.text import to_yaml
from bundler.values import found

if TYPE_CHECKING:
    from bundler.documents import Mapping
    from bundler.plan import Git, Plan, Release

Object = dict[str, Any]
"""A Kubernetes object, or a document of a deployer."""
REGARDING: Final = "regarding"
"""The value that names objects on which the run tells how it failed."""


def told_on(plan: Plan, resource: str, namespace: str) -> Plan:
    """Have the run tell a failure on the very object that deploys it, unless the values say where, or nowhere.

    Not where permissions are to be kept to some namespaces: that would be one more, which may be missing or forbidden.
    """
    return replace(plan, releases=tuple(_told_on(release, resource, namespace) for release in plan.releases))


def _told_on(release: Release, resource: str, namespace: str) -> Release:
    if release.name != POST or REGARDING in release.given:
        return release
    if found(release.given, ("rbac", "scope"), f"values of {POST}") == "namespace":
        return release
    object_of_ours: Mapping = {"resource": resource, "namespace": namespace, "name": release.name}
    return replace(release, derived={**release.derived, REGARDING: [object_of_ours]})


def derived_note(plan: Plan, release: Release) -> str:
    """Say which values are derived, for those who read the file before the documentation."""
    if not release.derived:
        return f"Values of {release.name}, from {plan.recipe} and what was given to the bundle."
    what = {
        DRA: "podAnnotations re-roll the pods whenever the GPU operator's chart version changes",
        POST: "trigger changes with everything that is deployed as gpu-operator; the run waits for what expect names",
    }
    told = "; failures are told on what regarding names" if REGARDING in release.derived else ""
    return f"Derived from {plan.recipe}: {what[release.name]}{told}. Change the recipe, and write the bundle again."


def values_file(plan: Plan, release: Release) -> str:
    """Write the values of a release."""
    return to_yaml(release.values, derived_note(plan, release))


def git_of(plan: Plan, why: str) -> Git:
    """Give the repository that the bundle will be in; without it some things cannot be written."""
    if plan.git is None:
        raise InputError(f"--git-url is missing: {why}")
    return plan.git
