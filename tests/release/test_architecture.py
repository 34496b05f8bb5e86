"""``docs/dev/architecture.md`` names each module, and no module imports itself through others, not even for types."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from typing import Final

import grimp

from tests.chart.rendering import ROOT

PAGE: Final = ROOT / "docs" / "dev" / "architecture.md"
LINE: Final = re.compile(r"^\| `((?:hook|ctl|bundler)/\S+\.py)` \| \S.* \|$", re.MULTILINE)


def test_the_map_names_every_module() -> None:
    """A newcomer finds each subject in one look. Modules that only mark a package have no line."""
    paths = [path for package in ("hook", "ctl", "bundler") for path in (ROOT / package).rglob("*.py")]
    modules = [path for path in paths if path.name != "__init__.py" or "\ndef " in path.read_text()]
    assert sorted(LINE.findall(PAGE.read_text())) == sorted(str(path.relative_to(ROOT)) for path in modules)


def test_no_module_imports_itself() -> None:
    """Data classes live in leaves, so that no type is a reason for a cycle: imports under TYPE_CHECKING count."""
    packages = ("hook", "ctl", "bundler", "devcluster", "tools")
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert "hook.cli" in imports
    TopologicalSorter(imports).prepare()  # It raises CycleError, which names the modules.
