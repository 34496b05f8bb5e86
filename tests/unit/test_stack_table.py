"""The table of driver stacks is whole, and the only place that knows one."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import hook
from hook.config import Settings
from hook.decide.explain import remedy
from hook.decide.reasons import Reason
from hook.objects import drivers, names
from hook.objects.drivers import STACKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hook.objects.drivers import PolicyKind, Stack

HOOK: Final = Path(hook.__file__).parent
TABLE: Final = Path(drivers.__file__)
ROWS: Final = {name for name, value in vars(drivers).items() if value in STACKS.values()}
DEFAULT: Final = Path(inspect.getfile(Settings))
"""Names the stack that is served where nobody names one."""
LEFTOVER: Final = re.compile(r"\{(?!NAME|[a-z]+,)[a-z_]*\}")


def kinds(stack: Stack) -> Iterator[PolicyKind]:
    """Give the kinds of policy of a stack."""
    yield stack.policy
    if stack.pool is not None:
        yield stack.pool


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_a_row_refers_to_rows_that_exist(stack: Stack) -> None:
    """The stack that comes first is another one, and waits for nobody itself."""
    assert stack is STACKS[stack.name]
    if stack.after:
        assert STACKS[stack.after] is not stack
        assert not STACKS[stack.after].after


def test_every_kind_of_policy_has_a_reader_of_its_own() -> None:
    """What one says must not be read as if it were another."""
    found = [kind for stack in STACKS.values() for kind in kinds(stack)]
    for part in ("read", "plural", "kind"):
        assert len(found) == len({getattr(kind, part) for kind in found})


def test_no_two_rows_share_what_tells_them_apart() -> None:
    """Leases, driver labels, state labels and consumers: an object belongs to one stack."""
    stacks = list(STACKS.values())
    for told in (
        [one.operator.lease for one in stacks],
        [one.operator.selector for one in stacks],
        [one.driver.label for one in stacks],
        [one.driver.container for one in stacks],
        [one.nodes.present for one in stacks],
        [one.upgrade.state for one in stacks],
        [one.upgrade.skip for one in stacks],
        [name for one in stacks for name in one.plugin.names],
        [owner for one in stacks for owner in one.driver.owners],
    ):
        assert len(told) == len(set(told))


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_every_label_of_a_row_survives_being_read(stack: Stack) -> None:
    """Nodes and DaemonSets are cut down to a few labels: those of the table must be among them."""
    of_nodes = (stack.nodes.present, stack.nodes.deploy, stack.nodes.operands, stack.nodes.wait, stack.upgrade.state,
                stack.upgrade.skip, *(one.deploy_label for one in stack.prerequisites.values()))  # fmt: skip
    assert all(label.startswith(names.NODE_LABEL_PREFIXES) for label in of_nodes if label)
    assert {stack.driver.label[0], *(one.label[0] for one in stack.prerequisites.values())} <= names.DAEMONSET_LABELS
    assert stack.nodes.safe_load in ("", names.OFED_SAFE_LOAD_ANNOTATION)


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("reason", Reason)
def test_every_explanation_is_whole_for_every_stack(stack: Stack, reason: Reason) -> None:
    """With what it is about, and without."""
    for subject in ("ns/pod", ""):
        told = remedy(reason, "node-0", subject, stack)
        assert told.endswith((".", *"abcdefghijklmnopqrstuvwxyz0123456789", "A", "E", "T", "-", "/")), told
        assert LEFTOVER.search(told) is None


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_a_drivers_tag_is_a_pattern_with_a_version(stack: Stack) -> None:
    """What ``intent`` fills in, and nothing else."""
    assert re.compile(stack.driver.tag.format(version="1", kernel=""))
    assert "{version}" in stack.driver.tag


def modules() -> list[Path]:
    """List every module of the program but the table."""
    return [file for file in sorted(HOOK.rglob("*.py")) if file != TABLE]


def _docstrings(tree: ast.AST) -> set[ast.expr]:
    return {one.value for one in ast.walk(tree) if isinstance(one, ast.Expr)}


@pytest.mark.parametrize("module", modules(), ids=lambda file: str(file.relative_to(HOOK)))
def test_no_other_module_names_a_stack(module: Path) -> None:
    """Neither by its name in a text, but for the default, nor by its row, but where none is given."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    told = _docstrings(tree)
    texts = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and one not in told]
    allowed = list(Settings().drivers) if module == DEFAULT else []
    assert allowed == [text for text in texts if isinstance(text, str) and text in STACKS]
    rows = {one for one in ast.walk(tree) if isinstance(one, ast.Name) and one.id in ROWS}
    assert not [one.id for one in rows - set(_fallbacks(tree))]


def _fallbacks(tree: ast.AST) -> Iterator[ast.expr | None]:
    """Give what an argument, or a look-up in a table, is where nobody gave one."""
    for one in ast.walk(tree):
        if isinstance(one, ast.FunctionDef):
            yield from (*one.args.defaults, *one.args.kw_defaults)
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "get":
            yield from one.args[1:]
