"""Replace one function of the program by a broken one for a while, wherever the program has bound it."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any
from unittest import mock

import hook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.properties.promises import BrokenPromiseError

    Function = Callable[..., Any]


@dataclass(frozen=True)
class Mutant:
    """One broken rule, and the family of histories that keeps running into it."""

    name: str
    breaks: type[BrokenPromiseError]
    """The promise that it breaks at least."""
    family: str
    target: object
    """The function, method or property that states the rule."""
    rule: Function
    """The broken rule: takes the original function, then the arguments of the call."""


@contextmanager
def broken(mutant: Mutant) -> Iterator[None]:
    """Let the program run with a broken rule. A function that the program does not bind is refused."""
    original = _function(getattr(mutant.target, "__func__", mutant.target))

    @wraps(original)
    def replacement(*args: object, **kwargs: object) -> object:
        return mutant.rule(original, *args, **kwargs)

    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == hook.__name__]
    owners: list[object] = list(modules)
    for module in modules:
        owners += [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    bound = [(owner, *item) for owner in owners for item in vars(owner).items() if _function(item[1]) is original]
    assert bound, f"{mutant.name}: no module of the program binds {original.__qualname__}"
    with ExitStack() as replaced:
        for owner, name, member in bound:
            kind = type(member) if isinstance(member, (property, classmethod, staticmethod)) else None
            replaced.enter_context(mock.patch.object(owner, name, kind(replacement) if kind else replacement))
        yield


def _function(member: Any) -> Any:  # noqa: ANN401 - a module binds anything
    if isinstance(member, property):
        return member.fget
    return member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
