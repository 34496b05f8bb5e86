"""The workflows call what exists, pin what they use, and may do no more than they must."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from devcluster.build import programs
from tests.chart.rendering import CHART, ROOT
from tests.release.commands import RELEASE, WORKFLOWS, commands, defined_verbs, scripts, steps, verbs, workflow

TEST, IMAGE, NIGHTLY = (ROOT / ".github" / "workflows" / f"{name}.yaml" for name in ("test", "image", "nightly"))


def test_every_target_that_is_called_exists() -> None:
    """In workflows, in CI and in commands of documents."""
    called = {place: verbs(script) for place, script in scripts()}
    unknown = {place: missing for place, found in called.items() if (missing := set(found) - defined_verbs())}
    assert unknown == {}
    assert all(called[place] for place in ("test.yaml", "image.yaml", "release.yaml", ".ci/run", "README.md"))


def test_every_check_runs_for_a_change() -> None:
    """What a developer can check, CI checks as well; what takes long or rarely changes, every night."""
    called = {verb for path in (TEST, IMAGE) for step in steps(path) for verb in verbs(step.get("run", ""))}
    wanted = {"lint", "type", "chart", "image", "scan"}
    tests = {verb for verb in defined_verbs() if verb.startswith("test")}
    parts_of_test = {"test-quick", "test-unit"}
    nightly = {verb for step in steps(NIGHTLY) for verb in verbs(step.get("run", ""))}
    assert nightly == {"test-simulator", "test-nightly", "mutants", "model"}
    assert (wanted | tests) - parts_of_test - called - nightly == set()


def test_only_publishing_may_write() -> None:
    """A pull request's jobs only read, what builds cannot sign, and what may change the repository runs none of it."""
    writes = {
        path.stem: {
            name: sorted(what for what, how in job["permissions"].items() if how == "write")
            for name, job in workflow(path)["jobs"].items()
            if "write" in job["permissions"].values()
        }
        for path in WORKFLOWS
    }
    assert writes == {
        **{name: {} for name in ("test", "image", "nvml-mock", "released", "nightly")},
        "scorecard": {"analysis": ["id-token"]},
        "release": {
            "image": ["packages"],
            "publish": ["attestations", "id-token", "packages"],
            "announce": ["contents"],
            "publish-site": ["contents"],
        },
    }
    changing = [step for name in ("announce", "publish-site") for step in workflow(RELEASE)["jobs"][name]["steps"]]
    assert {step["uses"].partition("@")[0] for step in changing if "uses" in step} == {"actions/cache/restore"}
    started = {words[0] for step in changing for words in commands(step.get("run", "")) if words}
    assert started == {"gh", "git"}


def test_every_job_is_required() -> None:
    """One job stands for all in the branch's rules; a job that it does not wait for would not count."""
    jobs = dict(workflow(TEST)["jobs"])
    last = jobs.pop("required-checks-pass")
    assert sorted(last["needs"]) == sorted(jobs)
    assert last["if"] == "always()"


def test_a_release_passes_every_check_first() -> None:
    """Tests before the image is built, by digest; both architectures start and are scanned before it gets its name."""
    jobs = workflow(RELEASE)["jobs"]
    assert jobs["tests"]["uses"].endswith("/test.yaml")
    assert workflow(TEST)["jobs"]["image"]["uses"].endswith("/image.yaml")
    assert {"names", "tests"} <= set(jobs["image"]["needs"])
    started, _, scanned = jobs["image"]["steps"][-3:]
    assert "make scan" in scanned["run"]
    for step in (started, scanned):
        assert "for platform in linux/amd64 linux/arm64" in step["run"]
        assert "$IMAGE@$DIGEST" in step["run"]
    (build,) = (step["with"] for step in steps(RELEASE) if "build-push-action" in step.get("uses", ""))
    repository = "${{ github.server_url }}/${{ github.repository }}"
    # The sources name no owner: a name that is not claimed yet could be claimed by anyone.
    source, page = (f"org.opencontainers.image.{name}=" for name in ("source", "documentation"))
    assert build["labels"].splitlines() == [source + repository, f"{page}{repository}#readme"]
    assert "github.com" not in (ROOT / "Dockerfile").read_text()
    assert (build["provenance"], build["sbom"], "tags" in build) == ("mode=max", True, False)
    assert "push-by-digest=true" in build["outputs"]
    assert "docker run" in started["run"]
    assert {"names", "image"} <= set(jobs["publish"]["needs"])
    order = [step.get("name", step.get("uses", "").partition("@")[0]) for step in jobs["publish"]["steps"]]
    assert order.index("Sign the image") < order.index("actions/attest") < order.index("Tag the image")
    assert order.index("Tag the image") < order.index("Push the chart") < order.index("Sign the chart")


def test_only_what_was_merged_is_released() -> None:
    """Checked first, with the full history. The signed chart has the digest of the build, which cannot be moved."""
    checkout, merged = workflow(RELEASE)["jobs"]["names"]["steps"][:2]
    assert checkout["with"]["fetch-depth"] == 0
    assert merged["run"] == 'git merge-base --is-ancestor "$GITHUB_SHA" origin/main'
    publish = workflow(RELEASE)["jobs"]["publish"]
    assert publish["env"]["IMAGE_DIGEST"] == "${{ needs.image.outputs.digest }}"
    (packaging,) = (step["run"] for step in publish["steps"] if "make release-chart" in step.get("run", ""))
    assert 'IMAGE_DIGEST="$IMAGE_DIGEST"' in packaging


def test_supported_pythons_are_tested() -> None:
    """From the oldest that the package admits, and among them the one in the image."""
    pythons = workflow(TEST)["jobs"]["test"]["strategy"]["matrix"]["python"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={pythons[0]}"
    minors = [int(python.partition(".")[2]) for python in pythons]
    assert minors == list(range(minors[0], minors[0] + len(minors)))
    image = re.search(r"python:(\d+\.\d+)", (ROOT / "Dockerfile").read_text())
    assert image is not None
    assert image[1] in pythons


def test_supported_clusters_are_tested() -> None:
    """Each minor from the oldest that the chart admits; by digest, of the version that its name says."""
    matrix: list[dict[str, Any]] = workflow(IMAGE)["jobs"]["cluster"]["strategy"]["matrix"]["kubernetes"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["kubeVersion"].startswith(f">={matrix[0]['version']}.")
    minors = [int(one["version"].removeprefix("1.")) for one in matrix]
    assert minors == list(range(minors[0], minors[0] + len(minors)))
    assert programs.KUBERNETES.startswith(f"v{matrix[-1]['version']}.")
    for one in matrix:
        version = re.escape(one["version"])
        assert re.fullmatch(rf"kindest/node:v{version}\.\d+@sha256:[0-9a-f]{{64}}", one["image"])


def test_everything_that_is_pinned_is_kept_up_to_date() -> None:
    """Dependabot watches each Go module, each list of requirements, the image's base and the actions, a week late."""
    # Not versions that workflows pass on: CONTRIBUTING.md names them.
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    assert all(update["cooldown"]["default-days"] >= 7 for update in updates)
    watched: dict[str, set[Path]] = {}
    for update in updates:
        for folder in update.get("directories", [update.get("directory")]):
            pattern = folder.strip("/")
            watched.setdefault(update["package-ecosystem"], set()).update(ROOT.glob(pattern) if pattern else [ROOT])
    tools = ROOT / "devcluster" / "tools"
    assert {path.parent for path in tools.rglob("go.mod")} <= watched["gomod"]
    required = [*ROOT.glob("requirements/*.txt"), *tools.rglob("requirements.txt")]
    assert {path.parent for path in required} == watched["pip"]
    assert watched["docker"] == watched["github-actions"] == {ROOT}
