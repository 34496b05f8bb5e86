"""Programs of one Go module and the same flags are built by one command, so that linking and compiling overlap."""

from __future__ import annotations

import io
import subprocess
from typing import TYPE_CHECKING

import pytest

from devcluster import gobuild

if TYPE_CHECKING:
    from pathlib import Path


def test_each_program_ends_up_in_its_own_folder(tmp_path: Path) -> None:
    """Two alike are built together, one with other flags by itself; a failure of one leaves neither."""
    source = tmp_path / "source"
    jobs = []
    for name, word in (("first", "same"), ("second", "same"), ("third", "other")):
        (source / "cmd" / name).mkdir(parents=True)
        (source / "cmd" / name / "main.go").write_text(
            f'package main\n\nvar word string\n\nfunc main() {{ println("{name}", word) }}\n'
        )
        target = tmp_path / "cache" / "bin" / f"{name}-v1" / name
        package = f"example.invalid/hello/cmd/{name}"
        jobs.append(gobuild.Job(f"{name} v1", source, package, f"-X main.word={word}", target))
    (source / "go.mod").write_text("module example.invalid/hello\n\ngo 1.26.0\n")
    broken = source / "cmd" / "second" / "broken.go"
    broken.write_text("package main\n\nvar _ = undefinedThing\n")
    with pytest.raises(gobuild.BuildError, match="building first v1, second v1 failed"):
        gobuild.build_all(jobs, tmp_path / "cache", io.StringIO())
    assert [job.name for job in jobs if job.target.exists()] == []
    broken.unlink()
    out = io.StringIO()
    gobuild.build_all(jobs, tmp_path / "cache", out)
    assert "building first v1, second v1 (1 to 2 of 3)" in out.getvalue()
    assert "building third v1 (3 of 3)" in out.getvalue()
    said = [subprocess.run([job.target], capture_output=True, text=True, check=True).stderr for job in jobs]
    assert said == ["first same\n", "second same\n", "third other\n"]
    assert list((tmp_path / "cache" / "bin").glob(".unfinished*")) == []
