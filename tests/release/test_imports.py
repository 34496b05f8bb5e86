"""No module imports itself through others, not even for types."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp


def test_no_module_imports_itself() -> None:
    """Data classes live in leaves, so that no type is a reason for a cycle: imports under TYPE_CHECKING count."""
    packages = ("hook", "bundler", "devcluster", "tools")
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert "hook.cli" in imports
    TopologicalSorter(imports).prepare()  # It raises CycleError, which names the modules.
