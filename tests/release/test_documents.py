"""Documents: their links work, the tests that they name exist, and what can be pasted from them is valid."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from hook.cli import EXIT_INTERRUPTED, EXIT_OTHER, EXIT_USAGE
from hook.decide.result import NodeState, Phase
from hook.run.job import RESULTS
from tests.chart.rendering import CHART, ROOT, Helm
from tests.release.commands import documents

REFUSALS: Final = (
    "DRA driver gpu.nvidia.com is not registered",
    "prepare devices failed: failed to initialize NVML: Driver/library version mismatch",
    'invalid CDI Spec: failed add device "gpu-0": invalid device, empty device edits',
)
"""What a kubelet answers where no plugin runs, or a stale one."""
LINK: Final = re.compile(r"\]\((?!https?://|mailto:|\.\./\.\./actions/)([^)\s]+)\)")
"""Links to files. Those to GitHub's own pages of the repository have a test of their own."""
YAML: Final = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS: Final = (
    r"kubectl|helm|helmfile|flux|argocd|chainsaw|docker|buildah|make|time|git|npm|pipx?|bash|(?:[\w./-]*/)?python3?|"
    r"gpu-operator-post-bundler|\.{1,2}/\S+"
)
IN_A_CELL: Final = re.compile(rf"(?<=`)(?:[A-Z_]+=\S+ )*(?:{PROGRAMS}) [^\s`]+ [^`]+(?=`)")
"""A command of three words or more. One of two, such as `make test`, is a name."""
ROW: Final = re.compile(r"^\|.*", re.MULTILINE)
FLOW: Final = re.compile(r"(?<!{){(?!{)[^{}\n]+:[^{}\n]+,.*")
"""Two keys in braces that are not those of a template."""
VALUE: Final = re.compile(r"`([a-z][A-Za-z]+(?:\.(?!yaml`|py`)[A-Za-z]+)+)(?::[^`]*)?`")
"""A value of the chart in a text, with what it is set to or without. The name of a file is none."""
PROOF: Final = re.compile(r"\[`(test_\w+)`\]\(([^)\s#]+\.py)\)")
TESTING: Final = ROOT / "docs" / "dev" / "testing.md"
PAGES: Final = {"README": "README.md", "CHANGELOG": "CHANGELOG.md", "chart": "charts/gpu-operator-post/README.md"}
"""Those that are not below docs."""
FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SAMPLE: Final = re.compile(r"^<!-- sample: [\w-]+ -->\n\Z", re.MULTILINE)
ONE_OF_SEVERAL: Final = re.compile(r"(?:logs|port-forward) (?:deployment|deploy)/\S+")
"""Commands that pick any pod of a Deployment. With several replicas it may be a standby, which knows nothing."""
SIMULATED: Final = ROOT / "devcluster" / "charts"
NOTES: Final = ROOT / "charts" / "gpu-operator-post" / "templates" / "NOTES.txt"


def _anchors(path: Path) -> Iterator[str]:
    """Yield the anchors that GitHub makes of a document's headings."""
    for title in re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text()), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_the_table_of_changes_names_what_exists() -> None:
    """Each file is in one of these folders, and each generator is a module. No module of decide is missing."""
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Where a change goes\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([\w./-]+)`", table))
    chart = "charts/gpu-operator-post"
    folders = (".", "hook/decide", "tests/unit/decide", chart, f"{chart}/templates")
    modules = {name for name in named if re.fullmatch(r"(tools|tests)(\.\w+)+", name)}
    assert modules > {"tools.reasons"}
    assert [name for name in modules if not (ROOT / f"{name.replace('.', '/')}.py").is_file()] == []
    paths = {name for name in named - modules if "/" in name or name.endswith((".py", ".yaml", ".json", ".tpl"))}
    assert [name for name in paths if not any((ROOT / folder / name).exists() for folder in folders)] == []
    decide = {path.name for path in (ROOT / "hook" / "decide").glob("*.py")} - {"__init__.py"}
    assert decide <= {Path(name).name for name in paths}


def test_links_lead_to_a_file_and_a_heading() -> None:
    """Links of all documents, apart from those to other sites."""
    broken = []
    for path in documents():
        for link in LINK.findall(FENCE.sub("", path.read_text())):
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if not target.exists() or (anchor and anchor not in _anchors(target)):
                broken.append(f"{path}: {link}")
    assert broken == []


def test_words_on_the_screen_are_headings() -> None:
    """A search finds what the kubelet answers, what deployment tools print, and each exit code."""
    text = FENCE.sub("", (ROOT / "docs" / "troubleshooting.md").read_text())
    titles = re.findall(r"^### (.*)$", text, re.MULTILINE)
    for message in REFUSALS:
        assert [title for title in titles if title.strip("`") in message], message
    for words in ("FailedPrepareDynamicResources", "timed out waiting for the condition", "post-upgrade hooks failed"):
        assert f"`{words}`" in titles
    codes = {*RESULTS, EXIT_OTHER, EXIT_USAGE, EXIT_INTERRUPTED, 128 + signal.SIGKILL, 128 + signal.SIGTERM}
    assert {title for title in titles if title.startswith("Exit code")} == {f"Exit code {code}" for code in codes}


@pytest.mark.parametrize(("section", "states"), [("Of a node", NodeState), ("Of a run", Phase)])
def test_the_page_of_states_explains_each_state(section: str, states: type[StrEnum]) -> None:
    """And no other."""
    page = (ROOT / "docs" / "reference" / "states.md").read_text()
    text = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(states)


def test_named_tests_exist() -> None:
    """Each test that a document offers as proof is in that file, under that name."""
    named = [(path, name, file) for path in documents() for name, file in PROOF.findall(path.read_text())]
    assert [each for each in named if f"def {each[1]}(" not in (each[0].parent / each[2]).read_text()] == []


def test_each_promise_is_stated_and_tested() -> None:
    """Each row of the table links a test, and the pages that it names contain each name in code of the promise."""
    table = TESTING.read_text().partition("## Promises and their tests")[2].partition("## Mutation tests")[0]
    rows = [line[2:-2].split(" | ") for line in table.splitlines() if line.startswith("| ") and "| Test |" not in line]
    assert len(rows) > 90
    assert [promise for promise, _pages, tests in rows if not PROOF.search(tests)] == []
    for promise, pages, _tests in rows:
        names = re.findall(r"[A-Za-z][A-Za-z/ ]*[A-Za-z]", pages.replace("no page", ""))
        files = [PAGES.get(name, f"docs/{name.replace(' ', '-')}.md") for name in names]
        stated = "".join((ROOT / file).read_text() for file in files)
        assert [name for name in re.findall(r"`([\w.]+)", promise) if name not in stated] == [], promise


def test_commands_can_be_copied() -> None:
    """A command with arguments stands in a block of its own: nothing copies it from a cell of a table."""
    rows = [(path.name, row) for path in documents() for row in ROW.findall(FENCE.sub("", path.read_text()))]
    assert len(rows) > len(documents())
    assert [f"{name}: {found}" for name, row in rows for found in IN_A_CELL.findall(row)] == []


def _flow_mappings(text: str) -> Iterator[int]:
    """Yield the line of each mapping that is written as `{a: b}`."""
    for document in yaml.compose_all(text, Loader=yaml.SafeLoader):
        nodes: list[Any] = [document]
        for node in nodes:
            if isinstance(node, yaml.MappingNode):
                nodes += [child for entry in node.value for child in entry]
                if node.flow_style and node.value:
                    yield node.start_mark.line + 1
            elif isinstance(node, yaml.SequenceNode):
                nodes += node.value


def _snippets() -> Iterator[tuple[str, str]]:
    """Yield each YAML that users read, copy or edit: blocks of documents, and files of the chart and of examples."""
    for path in documents():
        yield from ((path.name, block) for block in YAML.findall(path.read_text()))
    for folder in (CHART, SIMULATED, ROOT / "examples", ROOT / "bundler"):
        paths = (path for path in folder.rglob("*.yaml") if path.parent.name != "templates")
        yield from ((str(path.relative_to(ROOT)), path.read_text()) for path in paths)


def test_yaml_is_written_in_block_style() -> None:
    """A line can be added and compared, as with the YAML that people write. Templates are no YAML before rendering."""
    found = [f"{name}: {line}" for name, text in _snippets() for line in _flow_mappings(text)]
    templates = [*CHART.glob("templates/*"), *SIMULATED.glob("*/templates/*")]
    found += [f"{path.name}: {line[0]}" for path in templates for line in FLOW.finditer(path.read_text())]
    assert found == []


def test_commands_read_the_leader() -> None:
    """They select the pods by label, or name the one that is meant: a Deployment's name leads to any replica."""
    texts = {path: path.read_text() for path in (*documents(), NOTES)}
    assert {path: found for path, text in texts.items() if (found := ONE_OF_SEVERAL.findall(text))} == {}


def test_output_is_never_typed_by_hand() -> None:
    """For users, a block without a language follows the mark of a sample, which tools/samples.py fills."""
    users = (path for path in documents() if ROOT / "docs" / "dev" not in path.parents and "examples" not in path.parts)
    typed = [
        f"{path}: {block[0]}"
        for path in users
        for block in FENCE.finditer(path.read_text())
        if block[0].startswith("```\n") and not SAMPLE.search(path.read_text()[: block.start()])
    ]
    assert typed == []


def test_the_security_page_names_each_library() -> None:
    """What the image installs is in its table, and nothing else."""
    table = (ROOT / "docs" / "security.md").read_text().partition("| Library | Use |\n")[2].partition("\n\n")[0]
    installed = re.findall(r"^([a-z][a-z0-9-]*)", (ROOT / "requirements" / "runtime.txt").read_text(), re.MULTILINE)
    assert sorted(re.findall(r"`([a-z0-9-]+)`", table)) == sorted(installed)


def test_every_page_is_in_the_index() -> None:
    """docs/README.md links each page below docs, apart from single decisions."""
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert [page for page in pages if f"({page})" not in index and not page.startswith("dev/decisions/")] == [
        "README.md"
    ]


def _values(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the values of our chart in a file of values, a helmfile, a HelmRelease or an Application."""
    if "expect" in document:
        return [document]
    releases = [each for each in document.get("releases", ()) if each["name"] == "gpu-operator-post"]
    spec = document.get("spec", {})
    found = [value for release in releases for value in release["values"]]
    return [*found, *filter(None, (spec.get("values"), spec.get("source", {}).get("helm", {}).get("valuesObject")))]


def _paths(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the path of each value."""
    for key, value in values.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _paths(value, f"{prefix}{key}.")


def test_pages_name_values_that_exist() -> None:
    """A value that was removed is in no page for users. What is below `resources` has other owners."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    known = {*_paths(values), "resources.gpus.enabled"}
    pages = [path for path in documents() if ROOT / "docs" / "dev" not in path.parents and path.name != "CHANGELOG.md"]
    named = [(path.name, found) for path in pages for found in VALUE.findall(path.read_text())]
    assert len(named) > len(pages)
    assert [(page, name) for page, name in named if name.partition(".")[0] in values and name not in known] == []


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/getting-started.md",
        *(f"docs/install/{tool}.md" for tool in ("helm", "helmfile", "flux", "argocd")),
    ],
)
def test_pasted_values_are_valid(page: str, helm: Helm) -> None:
    """The chart accepts the values of each block, and the versions are those of the chart."""
    text = (ROOT / page).read_text()
    documents = [document for block in YAML.findall(text) for document in yaml.safe_load_all(block)]
    values = [each for document in documents for each in _values(document)]
    assert values
    for each in values:
        assert helm.render(each).config["expect"] == {"driverVersion": "", **each["expect"]}
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
    assert set(re.findall(r"(?:version:?|targetRevision:|tag:) (\d+\.\d+\.\d+)", text)) == {version}
