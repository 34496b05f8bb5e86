"""The settings of the program as the chart needs them: path, description, JSON schema and default of each one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hook.checks import settings_from
from hook.config import DEFAULTS, Duration, Settings
from hook.format import Bound

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema = dict[str, Any]
Path = tuple[str, ...]
SCHEMAS: Final[dict[type, Schema]] = {
    # _validate.tpl refuses what is not a duration, with a sentence.
    Duration: {},
    Bound: {
        "type": ["integer", "string"],
        "minimum": 0,
        "maximum": 999999,
        "pattern": "^([0-9]{1,6}|[0-9]{1,2}%|100%)$",
    },
}
"""Schemas of the types that the program reads itself. A keyword for numbers has no effect on texts, and vice versa."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting."""

    path: Path
    description: str
    schema: Schema

    def is_default(self, value: object) -> bool:
        """Return whether a value means what the program's default means."""
        tree = value
        for key in reversed(self.path):
            tree = {key: tree}
        return settings_from(tree) == DEFAULTS


def settings() -> tuple[dict[Path, Setting], Schema]:
    """Return the settings by path, and the definitions to which their schemas refer."""
    found = dict(_leaves(Settings))
    schemas, definitions = msgspec.json.schema_components(
        found.values(), schema_hook=SCHEMAS.__getitem__, ref_template="#/$defs/{name}"
    )
    for schema in (*schemas, *definitions.values()):
        schema.pop("title", None)
    choices = {f"#/$defs/{name}": found["enum"] for name, found in definitions.items() if "enum" in found}
    result = {}
    for path, schema in zip(found, schemas, strict=True):
        if schema.get("$ref") in choices:
            schema["enum"] = choices[schema.pop("$ref")]
        result[path] = Setting(path, schema.pop("description", ""), schema)
    return result, {name: found for name, found in definitions.items() if "enum" not in found}


def _leaves(block: type[msgspec.Struct], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the type of each setting in a block and in the blocks below."""
    for field in msgspec.structs.fields(block):
        here = (*path, field.encode_name)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _leaves(field.type, here)
        else:
            yield here, field.type
