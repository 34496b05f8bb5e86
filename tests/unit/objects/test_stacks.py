"""The table of driver stacks is complete, and the only place that knows one."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

import hook
from hook.objects import names, stacks
from hook.objects.stacks import STACKS, Label, Stack, StackName

HOOK: Final = Path(hook.__file__).parent
TABLE: Final = Path(stacks.__file__)
ROWS: Final = {name for name, value in vars(stacks).items() if value in STACKS.values()}
EACH: Final = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


@EACH
def test_the_labels_of_a_stack_are_read(stack: Stack) -> None:
    """They are under the prefixes of node labels."""
    nodes, upgrade, prerequisites = stack.nodes, stack.upgrade, stack.prerequisites.values()
    of_nodes = [nodes.present, nodes.deploy, nodes.operands, nodes.workload, nodes.wait, nodes.pool]
    of_nodes += [upgrade.state, upgrade.skip, *(prerequisite.deploy_label for prerequisite in prerequisites)]
    assert all(label.startswith(names.NODE_LABEL_PREFIXES) for label in of_nodes if label)
    assert nodes.safe_load in ("", names.OFED_SAFE_LOAD_ANNOTATION)


@EACH
def test_the_tag_of_an_image_has_a_version(stack: Stack) -> None:
    """It is a regular expression."""
    assert re.compile(stack.driver.tag.format(version="1", kernel=""))
    assert "{version}" in stack.driver.tag


def test_an_object_belongs_to_one_stack() -> None:
    """No two stacks share a kind of policy, a Lease, a label, a container or a plugin."""
    every = list(STACKS.values())
    kinds = [kind for stack in every for kind in (stack.policy, stack.pool) if kind is not None]
    for values in (
        *([getattr(kind, part) for kind in kinds] for part in ("plural", "kind")),
        [stack.operator.lease for stack in every],
        [stack.operator.selector for stack in every],
        [stack.driver.label for stack in every],
        [stack.driver.container for stack in every],
        [stack.nodes.present for stack in every],
        [stack.upgrade.state for stack in every],
        [stack.upgrade.skip for stack in every],
        [name for stack in every for name in stack.plugin.names],
        [kind for stack in every for kind in stack.driver.owners],
    ):
        assert len(values) == len(set(values)), values


@pytest.mark.parametrize(("label", "selector"), [(Label("app", "x"), "app=x"), (Label("driver", ""), "driver")])
def test_a_label_selects_its_objects(label: Label, selector: str) -> None:
    """A label with an empty value is selected by its key."""
    assert selector == label.selector


def test_no_other_module_names_a_stack() -> None:
    """Neither by its name in a text, nor by its row: the settings choose it."""
    for module in sorted(set(HOOK.rglob("*.py")) - {TABLE}):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in docstrings]
        assert [] == [node.value for node in constants if node.value in set(StackName)], module
        assert [] == [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in ROWS], module
