"""Make a bundle: from a recipe and the flags of ``bundle`` to all files for a deployment tool."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bundler import argocd, argocd_helm, documents, flux, helm, manifests, output
from bundler.documents import InputError
from bundler.plan import Copied, Git, Plan, Request, duration
from bundler.recipe import is_source
from bundler.values import merged

if TYPE_CHECKING:
    from collections.abc import Callable

    from bundler.documents import Mapping
    from bundler.output import Files
    from bundler.recipe import Recipe

TOOLS: Final[dict[str, tuple[Callable[[Plan], Files], str]]] = {
    "helm": (helm.helm, helm.HELM),
    "helmfile": (helm.helmfile, helm.HELMFILE),
    "flux": (flux.files, flux.USE),
    "argocd": (argocd.files, argocd.USE),
    argocd_helm.NAME: (argocd_helm.files, argocd_helm.USE),
}
"""How the files of each deployment tool are made, and what its users must know."""
MANIFESTS: Final = "manifests"
NAMES: Final = (*TOOLS, MANIFESTS)
_GIT: Final = re.compile(r"[A-Za-z0-9./~_][A-Za-z0-9.:@/~_+%=\[\]-]*")
"""Addresses, branches and folders, without what templates, YAML or shells would understand."""


def request(recipe: Recipe, tool: str, flags: dict[str, Any]) -> Request:
    """Read the files that the flags name."""
    given: dict[str, Mapping] = {}
    for component, file in flags["values"]:
        given[component] = merged(given.get(component, {}), documents.read(Path(file)))
    return Request(
        timeout=flags["timeout"],
        # Plain manifests are for bundlers that strip hook annotations.
        hook=flags["hook"] and tool != MANIFESTS,
        key=flags["key"],
        values=given,
        base_values=_base_values(recipe, flags["data"]),
        charts={component: _chart(component, source) for component, source in flags["charts"]},
        post_version=flags["post_version"],
        git=_git(flags["git_url"], flags["git_revision"], flags["git_path"]),
    )


def _base_values(recipe: Recipe, data: Path | None) -> dict[str, Mapping]:
    """Read the recipe's values files, which must not lead out of their directory."""
    result: dict[str, Mapping] = {}
    for component in recipe.components:
        if data is None or not component.values_file or not component.enabled:
            continue
        file = (data / component.values_file).resolve()
        if not file.is_relative_to(data.resolve()):
            path = documents.at(component.path, "valuesFile")
            raise InputError(f"{recipe.name}: {path}: {component.values_file!r} leads out of {data}")
        result[component.name] = documents.read(file)
    return result


def _chart(component: str, source: str) -> str | Copied:
    if is_source(source):
        return source.rstrip("/")
    if not (Path(source) / "Chart.yaml").is_file():
        raise InputError(
            f"--chart {component}={source}: neither a repository (oci://, https://) nor a chart's directory"
        )
    return Copied(output.tree(Path(source)))


def _git(url: str, revision: str, path: str) -> Git | None:
    if not url:
        return None
    parts = Path(path).parts
    if Path(path).is_absolute() or ".." in parts:
        raise InputError(f"--git-path {path}: it must stay in the repository")
    for flag, text in (("--git-url", url), ("--git-revision", revision), ("--git-path", path or ".")):
        if _GIT.fullmatch(text) is None:
            raise InputError(f"{flag} {text!r}: it cannot be written into the files of every deployment tool")
    return Git(url, revision, "/".join(parts))


def files(plan: Plan, tool: str, helm_name: str) -> Files:
    """Return the files for a deployment tool, with a page that describes how to use them."""
    if tool == MANIFESTS:
        result, use = manifests.files(plan, helm_name), manifests.USE.format(outer=plan.outer)
    else:
        make, use = TOOLS[tool]
        result = make(plan)
    result.add(output.PAGE, _page(plan, tool, use))
    if tool == argocd_helm.NAME:
        # Last, because its version stands for all other files.
        argocd_helm.add_chart(result, plan)
    return result


def _page(plan: Plan, tool: str, use: str) -> str:
    releases = [release for release in plan.releases if tool != MANIFESTS or release is plan.post]
    lines = [
        f"# GPU stack for {tool}",
        "",
        f"Written from `{plan.recipe}` {output.MARK}; do not edit, but write it again.",
        "",
        "| step | release | namespace |",
        "|---|---|---|",
        *(f"| {release.step} | {release.name} | {release.namespace} |" for release in releases),
        "",
    ]
    if plan.post is not None:
        inner, outer = duration(plan.timeout), duration(plan.outer)
        lines += [f"gpu-operator-post may take {inner}, so a deployer with a limit of its own gives it {outer}.", ""]
    lines += [use.rstrip(), ""]
    if plan.notes:
        lines += ["To note:", "", *(f"- {note}" for note in plan.notes), ""]
    return "\n".join(lines)
