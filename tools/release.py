"""Check versions for a release, write its notes, and package the chart as users pull it.

    python -m tools.release check [--tag v1.2.3]   every file names one version; with a tag: that one, which is dated,
                                                   and no document denies that there is a release
    python -m tools.release names OWNER/NAME       where image and chart are published, as NAME=VALUE lines
    python -m tools.release chart OWNER/NAME …     package the chart with the names of that repository and its image
    python -m tools.release push FILE oci://…      push a packaged chart and print its digest as a NAME=VALUE line
    python -m tools.release notes OWNER/NAME …     the newest section of CHANGELOG.md, and how to verify the release

The sources name no owner: a release is published under the name of the repository that it runs in.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import yaml

from devcluster.build import binaries

ROOT: Final = Path(__file__).parents[1]
CHART: Final = Path("charts/gpu-operator-post")
ICON: Final = Path("docs/icon.svg")
REGISTRY: Final = "ghcr.io"

HEAD: Final = re.compile(r"^## (?P<version>\d+\.\d+\.\d+) - (?P<date>unreleased|\d{4}-\d{2}-\d{2})$", re.MULTILINE)
"""The newest section of the changelog always names the version that the sources carry."""

DIGEST: Final = re.compile(r"^Digest:\s*(sha256:[0-9a-f]{64})$", re.MULTILINE)
"""What ``helm push`` says last."""

UNRELEASED: Final = re.compile(r"There\s+is\s+no\s+release\s+yet")
"""Marks the sentences of documents that the first release makes wrong."""

IMAGE_DIGEST: Final = "gpu-operator-post/image-digest"
"""Annotation of the packaged chart, by which its templates name the image that was released with it."""

NOTES: Final = """\
{changes}

## Artifacts

| What | Where | Digest |
|---|---|---|
| Image (amd64, arm64) | `{image}:{version}` | `{image_digest}` |
| Chart | `oci://{charts}/{name}`, version {version} | `{chart_digest}` |

Install the GPU operator or upgrade it, and then:

```console
{install}
```

The release workflow of {url} signed both, and the chart names the image by its digest:

```console
for artifact in {image}:{version} {charts}/{name}:{version}; do
  cosign verify "$artifact" \\
    --certificate-oidc-issuer https://token.actions.githubusercontent.com \\
    --certificate-identity {url}/.github/workflows/release.yaml@refs/tags/v{version}
done
```

[Verifying a release]({pages}/docs/security.md#verifying-a-release) lists further checks.
"""

INSTALL: Final = """\
helm upgrade --install gpu-operator-post oci://{charts}/{name} --version {version} \\
  -n gpu-operator --reset-values --timeout 27m"""
"""The timeout is that of the chart's default values and two minutes for pulling the image and starting the pod."""

README_INSTALL: Final = """\
```console
helm upgrade --install gpu-operator nvidia/gpu-operator -n gpu-operator --version v26.7.0 -f values.yaml
{install} \\
  --set-string expect.chartVersion=v26.7.0
```

The chart names the image of its release by digest, so its signature covers both:
[how to verify it]({pages}/docs/security.md#verifying-a-release)."""

SOURCES: Final = re.compile(r"<!-- sources: .*?<!-- end of sources -->", re.DOTALL)
"""How to install a chart that names no image, in the chart's README."""

EXPLAINED: Final = re.compile(r"(?:^  # .*\n)+(?=  repository: )", re.MULTILINE)
"""The comment above `image.repository`."""

RELEASED_REPOSITORY: Final = "  # -- Repository in the registry: of the image that was released with this chart.\n"

RELATIVE: Final = re.compile(r"\]\((?![a-z]+:|#)")
"""Where a link of the changelog names a file of the repository."""
UPWARD: Final = re.compile(r"(?<=\]\()\.\./\.\./")
"""Where a link of the chart's README leaves the chart for the root of the repository."""


@dataclass(frozen=True, slots=True)
class Names:
    """Where a GitHub repository publishes."""

    repository: str

    @property
    def url(self) -> str:
        """Where the sources are."""
        return f"https://github.com/{self.repository}"

    @property
    def image(self) -> str:
        """Registries know lower case only, GitHub does not mind."""
        return f"{REGISTRY}/{self.repository.lower()}"

    @property
    def owner(self) -> str:
        """The account that publishes."""
        return self.repository.partition("/")[0]

    @property
    def charts(self) -> str:
        """The folder of charts; Helm appends the chart's own name."""
        return f"{REGISTRY}/{self.owner.lower()}/charts"

    def pages(self, version: str) -> str:
        """Return where a browser shows the files of a release."""
        return f"{self.url}/blob/v{version}"

    def icon(self, version: str) -> str:
        """Return where a browser loads the icon of a release."""
        return f"https://raw.githubusercontent.com/{self.repository}/v{version}/{ICON}"

    def install(self, version: str) -> str:
        """Return the command that installs a release."""
        return INSTALL.format(charts=self.charts, name=CHART.name, version=version)


def versions(root: Path) -> dict[str, str]:
    """Return the version that each place names; an empty text where it names none."""
    chart = yaml.safe_load((root / CHART / "Chart.yaml").read_text())
    project = tomllib.loads((root / "pyproject.toml").read_text())
    head = HEAD.search((root / "CHANGELOG.md").read_text())
    return {
        "Chart.yaml, version": str(chart.get("version", "")),
        "Chart.yaml, appVersion": str(chart.get("appVersion", "")),
        "pyproject.toml, version": project["project"]["version"],
        "hook/__init__.py, __version__": _found(root / "hook/__init__.py", r'__version__: Final = "(.*)"'),
        "Dockerfile, ARG VERSION": _found(root / "Dockerfile", r"ARG VERSION=(.*)"),
        "CHANGELOG.md, first section": head["version"] if head else "",
    }


def problems(root: Path, tag: str = "") -> list[str]:
    """Return what keeps these sources from being released; without a tag, only what must hold at any time."""
    named = versions(root)
    wanted = tag.removeprefix("v") if tag else named["Chart.yaml, version"]
    found = [f"{place}: {version or 'none'}, not {wanted}" for place, version in named.items() if version != wanted]
    head = HEAD.search((root / "CHANGELOG.md").read_text())
    if tag and head and head["date"] == "unreleased":
        found.append(f'CHANGELOG.md, first section: has no date yet; write "## {wanted} - YYYY-MM-DD"')
    pages = sorted((*root.glob("README.md"), *root.glob("docs/**/*.md"))) if tag else []
    wrong = (str(page.relative_to(root)) for page in pages if UNRELEASED.search(page.read_text()))
    return [*found, *(f'{page}: delete the sentences with "There is no release yet"' for page in wrong)]


def changes(root: Path, pages: str) -> str:
    """Return the newest section of the changelog, without its title; its links lead to the `pages` of a tag."""
    text = (root / "CHANGELOG.md").read_text()
    head = HEAD.search(text)
    if head is None:
        raise click.ClickException("CHANGELOG.md has no section of the form: ## 1.2.3 - 2026-01-31")
    newest = re.split(r"^## ", text[head.end() :], maxsplit=1, flags=re.MULTILINE)[0].strip()
    return RELATIVE.sub(f"]({pages}/", newest)


def stage(source: Path, target: Path, names: Names, image_digest: str) -> None:
    """Copy the chart and write into it where it and its image come from; its signature then stands for both."""
    shutil.copytree(source, target)
    _name_image(target / "values.yaml", names)
    chart: dict[str, Any] = yaml.safe_load((target / "Chart.yaml").read_text())
    version = chart["version"]
    chart |= {"home": names.url, "icon": names.icon(version), "sources": [names.url]}
    chart |= {"maintainers": [{"name": names.owner, "url": f"https://github.com/{names.owner}"}]}
    digest = f"@{image_digest}" if image_digest else ""
    images = [{"name": chart["name"], "image": f"{names.image}:{chart['appVersion']}{digest}"}]
    chart["annotations"] |= {"artifacthub.io/images": yaml.safe_dump(images)}
    if image_digest:
        chart["annotations"] |= {IMAGE_DIGEST: image_digest}
    (target / "Chart.yaml").write_text(yaml.safe_dump(chart, sort_keys=False))
    _run("helm-docs", f"--chart-search-root={target}", "--sort-values-order=file", "--log-level=warning")
    _release_readme(target / "README.md", names, version)


def _release_readme(readme: Path, names: Names, version: str) -> None:
    """Install the released chart, and link to the pages of its tag: the README leaves the repository with the chart."""
    pages = names.pages(version)
    text = README_INSTALL.format(install=names.install(version), pages=pages)
    replaced, count = SOURCES.subn(lambda _: text, readme.read_text())
    if count != 1:
        raise click.ClickException(f"{readme.name} has {count} places for the command that installs the chart, not one")
    readme.write_text(UPWARD.sub(f"{pages}/", replaced))


def _name_image(values: Path, names: Names) -> None:
    """Set the image's registry and repository in place: the comments are the chart's documentation."""
    registry, _, repository = names.image.partition("/")
    text = _set_in_image(values.read_text(), "registry", registry)
    text = _set_in_image(text, "repository", repository)
    # The sources explain here why they name no image.
    values.write_text(EXPLAINED.sub(RELEASED_REPOSITORY, text))


def _set_in_image(text: str, key: str, value: str) -> str:
    text, count = re.subn(rf"(^image:\n(?:  .*\n)*?  {key}:) .*$", rf"\1 {value}", text, flags=re.MULTILINE)
    if count != 1:
        raise click.ClickException(f"the values have no image.{key} to set")
    return text


def _found(path: Path, pattern: str) -> str:
    match = re.search(f"^{pattern}$", path.read_text(), re.MULTILINE)
    return match[1] if match else ""


def _run(program: str, *arguments: str) -> str:
    """Run a pinned program; what it says goes to the log, in which people look for the reason of a failure."""
    done = subprocess.run(
        [binaries.ensure([program])[program], *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    click.echo(done.stdout, err=True, nl=False)
    if done.returncode != 0:
        raise click.ClickException(f"{program} {arguments[0]} failed")
    return done.stdout


@click.group()
def main() -> None:
    """Prepare a release."""


@main.command()
@click.option("--tag", default="", help="Tag that is being released, such as v1.2.3.")
def check(tag: str) -> None:
    """Fail unless every file names the same version and, with a tag, all documents know of the release."""
    if found := problems(ROOT, tag):
        raise click.ClickException("not ready for a release:\n" + "\n".join(f"  {line}" for line in found))


@main.command()
@click.argument("repository")
def names(repository: str) -> None:
    """Print where this repository publishes, in the form that GitHub takes as a step's outputs."""
    where = Names(repository)
    version = versions(ROOT)["Chart.yaml, version"]
    click.echo(f"version={version}\nimage={where.image}\ncharts={where.charts}")


@main.command()
@click.argument("repository")
@click.option("--image-digest", default="", help="The released image's; without it the chart names a tag, to try it.")
@click.option("--destination", type=click.Path(path_type=Path, file_okay=False), default=ROOT / "build")
def chart(repository: str, image_digest: str, destination: Path) -> None:
    """Package the chart with the names of this repository."""
    if image_digest and not re.fullmatch(r"sha256:[0-9a-f]{64}", image_digest):
        raise click.ClickException(f"{image_digest!r} is no digest")
    with tempfile.TemporaryDirectory() as folder:
        staged = Path(folder) / CHART.name
        stage(ROOT / CHART, staged, Names(repository), image_digest)
        _run("helm4", "package", str(staged), "--destination", str(destination))


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("registry")
@click.option("--plain-http", is_flag=True, help="For a registry on this machine.")
def push(file: str, registry: str, plain_http: bool) -> None:
    """Push a packaged chart and print its digest, by which it is signed."""
    said = _run("helm4", "push", file, registry, *(["--plain-http"] if plain_http else []))
    digest = DIGEST.search(said)
    if digest is None:
        raise click.ClickException("helm push did not say the digest")
    click.echo(f"digest={digest[1]}")


@main.command()
@click.argument("repository")
@click.option("--image-digest", required=True)
@click.option("--chart-digest", required=True)
def notes(repository: str, image_digest: str, chart_digest: str) -> None:
    """Print the notes of the release."""
    where = Names(repository)
    version = versions(ROOT)["Chart.yaml, version"]
    text = NOTES.format(
        changes=changes(ROOT, where.pages(version)),
        image=where.image,
        charts=where.charts,
        url=where.url,
        pages=where.pages(version),
        install=where.install(version),
        name=CHART.name,
        version=version,
        image_digest=image_digest,
        chart_digest=chart_digest,
    )
    click.echo(text, nl=False)


if __name__ == "__main__":
    main()
