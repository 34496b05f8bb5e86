"""The table of driver stacks is complete, and the only place that knows one."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import hook
from hook.objects import drivers, names
from hook.objects.drivers import STACKS, StackName

HOOK: Final = Path(hook.__file__).parent
TABLE: Final = Path(drivers.__file__)
ROWS: Final = {name for name, value in vars(drivers).items() if value in STACKS.values()}


def test_each_row_is_complete() -> None:
    """Its labels are among those that are read, and its tag has a version."""
    for name, stack in STACKS.items():
        assert stack.name == name
        nodes, upgrade, prerequisites = stack.nodes, stack.upgrade, stack.prerequisites.values()
        of_nodes = [nodes.present, nodes.deploy, nodes.operands, nodes.wait, upgrade.state, upgrade.skip]
        of_nodes += [prerequisite.deploy_label for prerequisite in prerequisites]
        assert all(label.startswith(names.NODE_LABEL_PREFIXES) for label in of_nodes if label), name
        of_daemonsets = {stack.driver.label[0], *(prerequisite.label[0] for prerequisite in prerequisites)}
        assert of_daemonsets <= names.DAEMONSET_LABELS, name
        assert nodes.safe_load in ("", names.OFED_SAFE_LOAD_ANNOTATION), name
        assert re.compile(stack.driver.tag.format(version="1", kernel="")), name
        assert "{version}" in stack.driver.tag, name


def test_an_object_belongs_to_one_stack() -> None:
    """No two rows share a policy kind with its reader, a Lease, a label, a container or a plugin."""
    stacks = list(STACKS.values())
    kinds = [kind for stack in stacks for kind in (stack.policy, stack.pool) if kind is not None]
    for values in (
        *([getattr(kind, part) for kind in kinds] for part in ("read", "plural", "kind")),
        [stack.operator.lease for stack in stacks],
        [stack.operator.selector for stack in stacks],
        [stack.driver.label for stack in stacks],
        [stack.driver.container for stack in stacks],
        [stack.nodes.present for stack in stacks],
        [stack.upgrade.state for stack in stacks],
        [stack.upgrade.skip for stack in stacks],
        [name for stack in stacks for name in stack.plugin.names],
        [kind for stack in stacks for kind in stack.driver.owners],
    ):
        assert len(values) == len(set(values)), values


def test_no_other_module_names_a_stack() -> None:
    """Neither by its name in a text, nor by its row: the settings choose it."""
    for module in sorted(set(HOOK.rglob("*.py")) - {TABLE}):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in docstrings]
        assert [] == [node.value for node in constants if node.value in set(StackName)], module
        assert [] == [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in ROWS], module
