"""The simulator's tests run where the simulator changed, where that cannot be known, and where they are asked for."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.simulator.changes import FORCE, why_skip

if TYPE_CHECKING:
    from pathlib import Path


def git(checkout: Path, *arguments: str) -> None:
    """Run git as a committer."""
    person = ("-c", "user.name=n", "-c", "user.email=e@example.invalid", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(checkout), *person, *arguments], check=True, capture_output=True)


def test_when_the_simulators_tests_run(tmp_path: Path) -> None:
    """A reason to skip only where neither a commit nor the working tree changed it since the merge base.

    On a checkout of the upstream branch itself the last commit counts; without a parent the tests run.
    """
    for folder in ("devcluster", "tests/simulator", "hook"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "old.py").touch()

    def commit(folder: str) -> None:
        (tmp_path / folder / "old.py").write_text(str(len(found)))
        git(tmp_path, "commit", "--all", f"--message={folder}")

    def push() -> None:
        git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")

    found = {"no repository": why_skip(tmp_path, {})}
    git(tmp_path, "init", "--initial-branch=topic")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message=first")
    found["no upstream"] = why_skip(tmp_path, {})
    push()
    found["pushed, without a parent"] = why_skip(tmp_path, {})
    commit("hook")
    skipped = {"another folder changed": why_skip(tmp_path, {})}
    found["forced"] = why_skip(tmp_path, {FORCE: "1"})
    push()
    skipped["another folder changed, pushed"] = why_skip(tmp_path, {})
    commit("devcluster")
    found["changed in a commit"] = why_skip(tmp_path, {})
    push()
    found["changed in a commit, pushed"] = why_skip(tmp_path, {})
    commit("hook")
    skipped["another commit after it"] = why_skip(tmp_path, {})
    (tmp_path / "devcluster" / "old.py").write_text("1")
    found["changed in the working tree"] = why_skip(tmp_path, {})
    git(tmp_path, "reset", "--hard")
    (tmp_path / "tests" / "simulator" / "new.py").touch()
    found["a new file"] = why_skip(tmp_path, {})
    assert found == dict.fromkeys(found, "")
    for name, reason in skipped.items():
        assert f"{FORCE}=1" in reason, name
