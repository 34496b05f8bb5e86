"""The program with one change each, so that what the program saves without the change can be measured.

Each variant changes one name of the program's own modules before it starts; everything else is the program as it is.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hook.kube import client
from hook.kube.informer import Informer
from hook.objects import decoding

if TYPE_CHECKING:
    from collections.abc import Callable

AS_IT_IS: Final = "as it is"
PAGES: Final = (25, 100, 250, 500)
"""Objects per page, in addition to the program's own number."""


def _read(loads: Callable[[bytes], Any]) -> Callable[[type[Any], object], Any]:
    """Return a function that reads objects and decodes every field first."""

    def read(shape: type[Any], source: object) -> Any:  # noqa: ANN401 - of that shape
        whole = loads(bytes(source)) if isinstance(source, bytes | msgspec.Raw) else source
        return msgspec.convert(whole, shape)

    return read


DECODERS: Final[dict[str, Callable[[type[Any], object], Any]]] = {
    "json, every field": _read(json.loads),
    "msgspec, every field": _read(msgspec.json.decode),
}
"""How an object may be decoded, in addition to how the program does it."""
ONCE: Final = "every kind listed once"
"""Without the second list that confirms the end (docs/dev/decisions/0013)."""
LIBRARY: Final = "the client library loaded besides"
NAMES: Final = (AS_IT_IS, *(f"pages of {size}" for size in PAGES), *DECODERS, ONCE, LIBRARY)


def change(name: str) -> None:
    """Make this process' program another one."""
    if name in DECODERS:
        vars(decoding)["read"] = DECODERS[name]
    elif name == ONCE:
        setattr(Informer, "read_again", lambda informer, _end: (informer.views(), informer.absent))  # noqa: B010
    elif name == LIBRARY:
        import_module("kubernetes.client")
    elif name != AS_IT_IS:
        vars(client)["PAGE_SIZE"] = int(name.rpartition(" ")[2])
