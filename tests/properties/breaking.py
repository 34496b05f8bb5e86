"""Replace one function of the program by a broken one for a while, wherever the program has bound it."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import hook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

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


class Binding(NamedTuple):
    """One name under which a module or a class of the program holds a function."""

    owner: ModuleType | type
    name: str
    member: object
    """What the name is bound to: the function, or the property or class method that is made of it."""

    def with_function(self, function: Function) -> object:
        """Return what the name must be bound to, so that it holds another function."""
        made = type(self.member) if isinstance(self.member, (property, classmethod, staticmethod)) else None
        return made(function) if made is not None else function


def bindings() -> Iterator[Binding]:
    """Yield every name that a loaded module of the program, or a class that it defines, binds."""
    modules = [one for name, one in sys.modules.items() if name.partition(".")[0] == hook.__name__]
    for module in modules:
        classes = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
        owners: list[ModuleType | type] = [module, *classes]
        for owner in owners:
            yield from (Binding(owner, name, member) for name, member in vars(owner).items())


@contextmanager
def broken(mutant: Mutant) -> Iterator[None]:
    """Let the program run with a broken rule. A function that the program does not bind is refused."""
    original = _function(getattr(mutant.target, "__func__", mutant.target))

    @wraps(original)
    def replacement(*args: object, **kwargs: object) -> object:
        return mutant.rule(original, *args, **kwargs)

    found = [one for one in bindings() if _function(one.member) is original]
    if not found:
        raise LookupError(f"{mutant.name}: no module of the program binds {original.__qualname__}")
    with ExitStack() as replaced:
        for one in found:
            replaced.enter_context(mock.patch.object(one.owner, one.name, one.with_function(replacement)))
        yield


def _function(member: Any) -> Any:  # noqa: ANN401 - a module binds anything
    """Return the function that a property, class method or static method is made of; anything else as it is."""
    if isinstance(member, property):
        return member.fget
    return member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
