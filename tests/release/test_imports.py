"""No module imports itself through others, not even for types."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import grimp

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def cycle(*packages: str) -> list[str]:
    """Return the modules of one import cycle, in order, or none. Imports under TYPE_CHECKING count."""
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_module_imports_itself() -> None:
    """Data classes live in leaves, so that no type is a reason for a cycle."""
    assert cycle("hook", "bundler", "devcluster", "tools") == []


def test_a_cycle_through_types_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check fails for two modules of which one needs the other only for its annotations."""
    package = tmp_path / "circular"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "first.py").write_text("from circular.second import Second\n")
    (package / "second.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from circular.first import First\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert set(cycle("circular")) == {"circular.first", "circular.second"}
