"""The files of each deployment tool, with a page that describes how to use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bundler.output import PAGE, template
from bundler.targets import argocd, argocd_helm, flux, helm, helmfile, manifests
from bundler.values import duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from bundler.output import Files
    from bundler.releases import Bundle

MANIFESTS: Final = "manifests"
TOOLS: Final[dict[str, Callable[[Bundle], Files]]] = {
    "helm": helm.files,
    "helmfile": helmfile.files,
    "flux": flux.files,
    "argocd": argocd.files,
    "argocd-helm": argocd_helm.files,
}
NAMES: Final = (*TOOLS, MANIFESTS)


def files(bundle: Bundle, tool: str, helm_name: str) -> Files:
    """Return the files for a deployment tool."""
    result = manifests.files(bundle, helm_name) if tool == MANIFESTS else TOOLS[tool](bundle)
    result[PAGE] = _page(bundle, tool)
    return result


def _page(bundle: Bundle, tool: str) -> str:
    releases = [release for release in bundle.releases if tool != MANIFESTS or release is bundle.post]
    rows = "\n".join(f"| {release.step} | {release.name} | {release.namespace} |" for release in releases)
    sections = [template("README.md", tool=tool, recipe=bundle.recipe, releases=rows)]
    if bundle.post is not None:
        inner, outer = duration(bundle.timeout_seconds), duration(bundle.limit_seconds)
        sections.append(f"gpu-operator-post may take {inner}. A deployment tool with a timeout waits {outer} for it.\n")
    namespace = (bundle.post or bundle.releases[0]).namespace
    sections.append(template(f"{tool}/README.md", limit=bundle.limit_seconds, namespace=namespace))
    if bundle.notes:
        sections.append("Notes:\n\n" + "".join(f"- {note}\n" for note in bundle.notes))
    return "\n".join(sections)
