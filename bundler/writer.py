"""From a plan to all files of a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bundler import output, timing
from bundler.deployers import argocd, argocd_helm, flux, helm, helmfile, manifests

if TYPE_CHECKING:
    from collections.abc import Callable

    from bundler.output import Files
    from bundler.plan import Plan

DEPLOYERS: Final[dict[str, tuple[Callable[[Plan], Files], str]]] = {
    "helm": (helm.files, helm.USE),
    "helmfile": (helmfile.files, helmfile.USE),
    "flux": (flux.files, flux.USE),
    "argocd": (argocd.files, argocd.USE),
    argocd_helm.NAME: (argocd_helm.files, argocd_helm.USE),
}
"""How each deployer's files are made, and what its people must know."""
MANIFESTS: Final = "manifests"
NAMES: Final = (*DEPLOYERS, MANIFESTS)


def files(plan: Plan, deployer: str, helm_name: str) -> Files:
    """Give the files for a deployer, with a page that says how to use them."""
    if deployer == MANIFESTS:
        result, use = manifests.files(plan, helm_name), manifests.USE.format(outer=plan.outer)
    else:
        make, use = DEPLOYERS[deployer]
        result = make(plan)
    result.add(output.PAGE, _page(plan, deployer, use))
    if deployer == argocd_helm.NAME:
        # Last, because its version stands for all other files.
        argocd_helm.add_chart(result, plan)
    return result


def _page(plan: Plan, deployer: str, use: str) -> str:
    releases = [one for one in plan.releases if deployer != MANIFESTS or one is plan.post]
    lines = [
        f"# GPU stack for {deployer}",
        "",
        f"Written from `{plan.recipe}` {output.MARK}; do not edit, but write it again.",
        "",
        "| step | release | namespace |",
        "|---|---|---|",
        *(f"| {release.step} | {release.name} | {release.namespace} |" for release in releases),
        "",
    ]
    if plan.post is not None:
        inner, outer = timing.text(plan.timeout), timing.text(plan.outer)
        lines += [f"gpu-operator-post may take {inner}, so a deployer with a limit of its own gives it {outer}.", ""]
    lines += [use.rstrip(), ""]
    if plan.notes:
        lines += ["To note:", "", *(f"- {note}" for note in plan.notes), ""]
    return "\n".join(lines)
