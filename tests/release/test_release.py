"""A release: one version everywhere, and a chart that names the image of the repository that released it."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from bundler.values import seconds
from devcluster.build import binaries
from tests.chart.rendering import CHART, ROOT, Helm, Values
from tests.release.commands import CONSOLE, RELEASE, commands, documents, workflow
from tools import release
from tools.image import __main__ as image

REPOSITORY: Final = "Some-Org/fork"
DIGEST: Final = "sha256:" + "0123456789abcdef" * 4
OTHER_DIGEST: Final = f"sha256:{'b' * 64}"
METADATA: Final[dict[str, Any]] = yaml.safe_load((CHART / "Chart.yaml").read_text())
VERSION: Final = str(METADATA["version"])
PAGES: Final = f"https://github.com/{REPOSITORY}/blob/v{VERSION}"
CHANGELOG: Final = (ROOT / "CHANGELOG.md").read_text()
SECTION: Final = re.compile(r"^## (\d+\.\d+\.\d+) - (unreleased|\d{4}-\d{2}-\d{2})$", re.MULTILINE)
TARGETS: Final = re.compile(r"\]\(([^)]+)\)")


def _found(file: str, pattern: str) -> str:
    match = re.search(pattern, (ROOT / file).read_text(), re.MULTILINE)
    return match[1] if match else ""


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(METADATA["appVersion"], id="appVersion of the chart"),
        pytest.param(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"], id="pyproject.toml"),
        pytest.param(_found("hook/__init__.py", r'^__version__: Final = "(.*)"'), id="the program"),
        pytest.param(_found("Dockerfile", r"^ARG VERSION=(.*)$"), id="Dockerfile"),
        pytest.param(SECTION.findall(CHANGELOG)[0][0], id="first section of the changelog"),
    ],
)
def test_every_place_names_the_version_of_the_chart(version: str) -> None:
    """A release of one of them is a release of all."""
    assert version == VERSION


def test_no_page_denies_a_release() -> None:
    """Once the changelog has a date."""
    dated = any(date != "unreleased" for _, date in SECTION.findall(CHANGELOG))
    denying = [path for path in documents() if re.search(r"There\s+is\s+no\s+release\s+yet", path.read_text())]
    assert not dated or [path for path in denying if path.name != "CONTRIBUTING.md"] == []


@pytest.fixture(scope="module")
def package(helms: dict[str, Helm], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Package the chart as a repository's release does."""
    folder = tmp_path_factory.mktemp("package")
    release.prepare(REPOSITORY, DIGEST, folder / CHART.name)
    done = helms["helm4"].run("package", str(folder / CHART.name), "--destination", str(folder))
    assert done.returncode == 0, done.stderr
    return folder / f"gpu-operator-post-{VERSION}.tgz"


@pytest.mark.parametrize("version", ["helm3", "helm4"])
@pytest.mark.parametrize(
    ("values", "reference"),
    [
        ({}, f"ghcr.io/some-org/fork@{DIGEST}"),
        ({"global.imageRegistry": "mirror.example"}, f"mirror.example/some-org/fork@{DIGEST}"),
        ({"image.repository": "mine/fork"}, f"ghcr.io/mine/fork@{DIGEST}"),
        ({"image.tag": "mine"}, "ghcr.io/some-org/fork:mine"),
        ({"image.digest": OTHER_DIGEST}, f"ghcr.io/some-org/fork@{OTHER_DIGEST}"),
    ],
)
def test_packaged_chart_runs_the_released_image(
    helms: dict[str, Helm], package: Path, version: str, values: Values, reference: str
) -> None:
    """By its digest, so that the chart's signature covers the image; a user's own tag or digest overrides it."""
    assert helms[version].render(values, chart=package).container["image"] == reference


def test_packaged_chart_says_where_it_comes_from(helm: Helm, package: Path) -> None:
    """Home, sources, maintainers, icon and image, for people, Artifact Hub and tools that mirror images."""
    lint = helm.run("lint", "--strict", str(package))
    assert lint.returncode == 0, lint.stdout
    chart = yaml.safe_load(helm.run("show", "chart", str(package)).stdout)
    assert chart["home"] == f"https://github.com/{REPOSITORY}"
    assert chart["sources"] == [chart["home"]]
    assert chart["maintainers"] == [{"name": "Some-Org", "url": "https://github.com/Some-Org"}]
    assert chart["icon"] == f"https://raw.githubusercontent.com/{REPOSITORY}/v{VERSION}/{release.ICON}"
    assert (ROOT / release.ICON).is_file()
    (named,) = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    assert named["image"] == f"ghcr.io/some-org/fork:{VERSION}@{DIGEST}"
    ours = {key: value for key, value in METADATA.items() if key != "annotations"}
    assert METADATA["annotations"].items() <= chart["annotations"].items()
    assert ours.items() <= chart.items()
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    values["image"] |= {"registry": "ghcr.io", "repository": "some-org/fork"}
    assert yaml.safe_load(helm.run("show", "values", str(package)).stdout) == values


def _assert_installs(text: str) -> None:
    """Assert that one command installs the release, with values of its own and two minutes more than a run has."""
    found = commands("\n".join(CONSOLE.findall(text)))
    ((chart, options),) = ((words[4], words[5:]) for words in found if words[3:4] == ["gpu-operator-post"])
    assert chart == "oci://ghcr.io/some-org/charts/gpu-operator-post"
    assert "--reset-values" in options
    given = dict(pairwise(options))
    assert (given["--version"], given["-n"]) == (VERSION, "gpu-operator")
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert seconds(given["--timeout"]) == seconds(values["timeout"]) + 120


def test_packaged_readme(helm: Helm, package: Path) -> None:
    """It installs the released chart, and links to files of the tag by absolute addresses."""
    readme = helm.run("show", "readme", str(package)).stdout
    _assert_installs(readme)
    assert "registry.example" not in readme
    targets = TARGETS.findall(readme)
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    linked = [target.removeprefix(PAGES).partition("#")[0] for target in targets if target.startswith(PAGES)]
    assert "/docs/security.md" in linked
    assert [path for path in linked if not (ROOT / path.strip("/")).is_file()] == []


def test_the_base_of_the_image_does_not_move() -> None:
    """Its digest is written out, in a line that Dependabot reads; both stages use it by default."""
    assert image.default_base().startswith("docker.io/library/python@sha256:")
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert len(image.BASE.findall(dockerfile)) == 1
    arguments = dict(re.findall(r"^ARG (BASE_IMAGE|BUILD_IMAGE)=(.*)$", dockerfile, re.MULTILINE))
    assert arguments == {"BASE_IMAGE": "base", "BUILD_IMAGE": "${BASE_IMAGE}"}
    assert re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)[1:] == ["${BUILD_IMAGE}", "${BASE_IMAGE}"]


# Steps of the release workflow, run here.


def _outputs(job: str, step: str, folder: Path, **variables: str) -> str:
    """Run the script of a step of the release workflow, and return what it passes on."""
    (script,) = (each["run"] for each in workflow(RELEASE)["jobs"][job]["steps"] if each.get("id") == step)
    outputs = folder / "outputs"
    given = {"GITHUB_OUTPUT": str(outputs), "GITHUB_REF_NAME": f"v{VERSION}", "VERSION": VERSION}
    environment = {"PATH": os.defpath, **given, **variables}
    script = script.replace("helm push ", "helm push --plain-http ")  # to a registry of this machine
    subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=environment, check=True)
    return outputs.read_text()


def test_names_of_what_is_published(tmp_path: Path) -> None:
    """Registries know lower case only."""
    found = _outputs("names", "names", tmp_path, GITHUB_REPOSITORY=REPOSITORY, GITHUB_REPOSITORY_OWNER="Some-Org")
    assert found == f"version={VERSION}\nimage=ghcr.io/some-org/fork\ncharts=ghcr.io/some-org/charts\n"


def test_notes_name_changes_and_artifacts(tmp_path: Path) -> None:
    """The first section of the changelog alone, places and digests. Links lead to the tag."""
    (tmp_path / "CHANGELOG.md").write_text(f"{CHANGELOG}\n## 0.0.1 - 2025-01-31\n\n### Added\n- Something old.\n")
    where = {"IMAGE": "ghcr.io/some-org/fork", "CHARTS": "ghcr.io/some-org/charts", "PAGES": PAGES}
    notes = _outputs("publish", "notes", tmp_path, **where, IMAGE_DIGEST="sha256:a", CHART_DIGEST="sha256:b")
    assert notes.startswith("text<<END-OF-NOTES\n\n### ")
    assert "Something old" not in notes
    assert f"`ghcr.io/some-org/fork:{VERSION}@sha256:a`" in notes
    assert f"`oci://ghcr.io/some-org/charts/gpu-operator-post:{VERSION}@sha256:b`" in notes
    _assert_installs(notes)
    targets = TARGETS.findall(notes)
    assert f"{PAGES}/docs/security.md#verifying-a-release" in targets
    assert [target for target in targets if not target.startswith("https://")] == []


@pytest.fixture
def registry() -> Iterator[str]:
    """Serve an OCI registry on a free port of this machine."""
    command = [str(binaries.ensure(["crane"])["crane"]), "registry", "serve", "--address=127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        found = (re.search(r"serving on port (\d+)", line) for line in process.stdout)
        try:
            yield f"127.0.0.1:{next(port[1] for port in found if port)}"
        finally:
            process.terminate()


def test_the_digest_to_sign_is_that_of_the_registry(registry: str, helm: Helm, package: Path, tmp_path: Path) -> None:
    """The step that pushes the chart passes it on."""
    (tmp_path / "build").symlink_to(package.parent)
    path = f"{helm.binary.parent}:{os.defpath}"
    found = _outputs("publish", "chart", tmp_path, CHARTS=f"{registry}/charts", PATH=path, HOME=str(tmp_path))
    crane = str(binaries.ensure(["crane"])["crane"])
    command = [crane, "digest", "--insecure", f"{registry}/charts/gpu-operator-post:{VERSION}"]
    assert found == f"digest={subprocess.check_output(command, text=True).strip()}\n"
