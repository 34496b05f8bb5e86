"""A release: one version everywhere, and a chart that names the image of the repository that released it."""

from __future__ import annotations

import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from bundler.values import seconds
from tests.chart.rendering import ROOT, Helm, Values
from tests.release.commands import CONSOLE, commands
from tools import release
from tools.image import __main__ as image

FILES = ("pyproject.toml", "hook/__init__.py", "Dockerfile", "CHANGELOG.md", str(release.CHART / "Chart.yaml"))
DIGEST = "sha256:" + "0123456789abcdef" * 4
VERSION = release.versions(ROOT)["Chart.yaml, version"]
FORGOTTEN = [
    ("Chart.yaml, version", "charts/gpu-operator-post/Chart.yaml", r"^version: .*$", "version: 9.9.9"),
    ("Chart.yaml, appVersion", "charts/gpu-operator-post/Chart.yaml", r"^appVersion: .*$", 'appVersion: "9.9.9"'),
    ("pyproject.toml, version", "pyproject.toml", r"^version = .*$", 'version = "9.9.9"'),
    ("hook/__init__.py, __version__", "hook/__init__.py", r'= ".*"$', '= "9.9.9"'),
    ("Dockerfile, ARG VERSION", "Dockerfile", r"^ARG VERSION=.*$", "ARG VERSION=9.9.9"),
    ("CHANGELOG.md, first section", "CHANGELOG.md", r"^## \S+ - ", "## 9.9.9 - "),
]
"""Each place that names a version, and how a maintainer could forget it."""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Copy the files that name a version."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def _edit(path: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, path.read_text(), count=1, flags=re.MULTILINE)
    assert count == 1, f"{path.name} does not hold {pattern}"
    path.write_text(text)


def test_a_forgotten_place_is_reported(sources: Path) -> None:
    """Each place is read, and the one that disagrees is reported; a release has a date, and the tag its version."""
    _edit(sources / "CHANGELOG.md", r"^(## \S+) - .*$", r"\1 - unreleased")
    assert release.problems(sources) == []
    (found,) = release.problems(sources, f"v{VERSION}")
    assert f"## {VERSION} - YYYY-MM-DD" in found
    _edit(sources / "CHANGELOG.md", "unreleased", "2026-01-31")
    assert release.problems(sources, f"v{VERSION}") == []
    assert [case[0] for case in FORGOTTEN] == list(release.versions(ROOT))
    for place, file, pattern, replacement in FORGOTTEN:
        text = (sources / file).read_text()
        _edit(sources / file, pattern, replacement)
        assert release.problems(sources, f"v{VERSION}") == [f"{place}: 9.9.9, not {VERSION}"]
        (sources / file).write_text(text)
    (sources / "README.md").write_text("There is no\nrelease yet.")
    wrong = 'README.md: delete the sentences with "There is no release yet"'
    assert (release.problems(sources), release.problems(sources, f"v{VERSION}")) == ([], [wrong])
    assert CliRunner().invoke(release.main, ["check"]).exit_code == 0
    refused = CliRunner().invoke(release.main, ["check", "--tag", "v9.9.9"])
    missing = [place for place in release.versions(ROOT) if f"{place}: {VERSION}, not 9.9.9" not in refused.output]
    assert (refused.exit_code, missing) == (1, [])


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Package the chart as a repository's release does."""
    folder = tmp_path_factory.mktemp("package")
    arguments = ["chart", "Some-Org/fork", f"--image-digest={DIGEST}", f"--destination={folder}"]
    done = CliRunner().invoke(release.main, arguments)
    assert done.exit_code == 0, done.output
    return folder / f"gpu-operator-post-{VERSION}.tgz"


def test_packaged_chart_runs_the_released_image(helms: dict[str, Helm], package: Path) -> None:
    """By its digest, so that the chart's signature covers the image; a user's own tag or digest overrides it."""
    digest = f"sha256:{'b' * 64}"
    cases: tuple[tuple[Values, str], ...] = (
        ({}, f"ghcr.io/some-org/fork@{DIGEST}"),
        ({"global.imageRegistry": "mirror.example"}, f"mirror.example/some-org/fork@{DIGEST}"),
        ({"image.repository": "mine/fork"}, f"ghcr.io/mine/fork@{DIGEST}"),
        ({"image.tag": "mine"}, "ghcr.io/some-org/fork:mine"),
        ({"image.digest": digest}, f"ghcr.io/some-org/fork@{digest}"),
    )
    for name, helm in helms.items():
        for values, reference in cases:
            assert helm.render(values, chart=package).container["image"] == reference, f"{name}: {values}"
        lint = helm.run("lint", "--strict", str(package))
        assert lint.returncode == 0, lint.stdout


def test_packaged_chart_says_where_it_comes_from(helm: Helm, package: Path) -> None:
    """Home, sources, maintainers, icon and image, for people, Artifact Hub and tools that mirror images."""
    chart = yaml.safe_load(helm.run("show", "chart", str(package)).stdout)
    assert chart["home"] == "https://github.com/Some-Org/fork"
    assert chart["sources"] == [chart["home"]]
    assert chart["maintainers"] == [{"name": "Some-Org", "url": "https://github.com/Some-Org"}]
    assert chart["icon"] == f"https://raw.githubusercontent.com/Some-Org/fork/v{VERSION}/{release.ICON}"
    assert (ROOT / release.ICON).is_file()
    (named,) = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    assert named["image"] == f"ghcr.io/some-org/fork:{VERSION}@{DIGEST}"
    ours = yaml.safe_load((ROOT / release.CHART / "Chart.yaml").read_text())
    assert ours.pop("annotations").items() <= chart["annotations"].items()
    assert ours.items() <= chart.items()
    values = yaml.safe_load((ROOT / release.CHART / "values.yaml").read_text())
    values["image"] |= {"registry": "ghcr.io", "repository": "some-org/fork"}
    assert yaml.safe_load(helm.run("show", "values", str(package)).stdout) == values


def test_packaged_readme(helm: Helm, package: Path) -> None:
    """It installs the released chart with time for the Job, and links to files of the tag by absolute addresses."""
    readme = helm.run("show", "readme", str(package)).stdout
    _assert_installs(readme)
    wrong = (f" {release.CHART}", "chart of the sources", "names no image", "no registry", "make image")
    assert [words for words in wrong if words in readme] == []
    targets = re.findall(r"\]\(([^)]+)\)", readme)
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    pages = f"https://github.com/Some-Org/fork/blob/v{VERSION}/"
    linked = [target.removeprefix(pages).partition("#")[0] for target in targets if target.startswith(pages)]
    assert "docs/security.md" in linked
    assert [path for path in linked if not (ROOT / path).is_file()] == []


def _assert_installs(text: str) -> None:
    """Assert that one command installs the release, into its namespace, with values of its own and enough time."""
    found = commands("\n".join(CONSOLE.findall(text)))
    start = ["helm", "upgrade", "--install", "gpu-operator-post"]
    ((chart, options),) = ((words[4], words[5:]) for words in found if words[:4] == start)
    assert chart == "oci://ghcr.io/some-org/charts/gpu-operator-post"
    given = dict(pairwise(options))
    assert given["--version"] == VERSION
    assert given["-n"] == "gpu-operator"
    assert "--reset-values" in options
    values = yaml.safe_load((ROOT / release.CHART / "values.yaml").read_text())
    assert seconds(given["--timeout"]) == seconds(values["timeout"]) + 120


def test_the_base_of_the_image_does_not_move() -> None:
    """Its digest is written out, in a line that Dependabot reads; both stages use it by default."""
    assert image.default_base().startswith("docker.io/library/python@sha256:")
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert len(image.BASE.findall(dockerfile)) == 1
    arguments = dict(re.findall(r"^ARG (BASE_IMAGE|BUILD_IMAGE)=(.*)$", dockerfile, re.MULTILINE))
    assert arguments == {"BASE_IMAGE": "base", "BUILD_IMAGE": "${BASE_IMAGE}"}
    assert re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)[1:] == ["${BUILD_IMAGE}", "${BASE_IMAGE}"]


def test_changes_are_those_of_the_newest_section(sources: Path) -> None:
    """Older sections were the notes of older releases. Links lead to the tag, for readers outside of the repository."""
    newest = release.changes(sources, "https://pages")
    with (sources / "CHANGELOG.md").open("a") as text:
        text.write("\n## 0.0.1 - 2025-01-31\n\n### Added\n- Something old.\n")
    assert release.changes(sources, "https://pages") == newest
    assert newest.startswith("### ")
    targets = re.findall(r"\]\(([^)]+)\)", newest)
    assert any(target.startswith("https://pages/docs/") for target in targets)
    assert [target for target in targets if not target.startswith("https://")] == []


def test_notes_name_what_was_published() -> None:
    """Changes, places and digests: enough to pull and to pin. `test_verifying.py` runs the commands that verify."""
    arguments = ["Some-Org/fork", "--image-digest=sha256:aaaa", "--chart-digest=sha256:bbbb"]
    notes = CliRunner().invoke(release.main, ["notes", *arguments]).output
    assert notes.startswith(release.changes(ROOT, f"https://github.com/Some-Org/fork/blob/v{VERSION}"))
    assert f"`ghcr.io/some-org/fork:{VERSION}` | `sha256:aaaa` |" in notes
    assert f"`oci://ghcr.io/some-org/charts/gpu-operator-post`, version {VERSION} | `sha256:bbbb` |" in notes
    _assert_installs(notes)
    assert f"(https://github.com/Some-Org/fork/blob/v{VERSION}/docs/security.md#verifying-a-release)" in notes
