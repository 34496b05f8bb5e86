"""The JSON schema of the program's settings, for the schema of the chart's values and for its README."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import inspect

from hook.config import Duration, Settings
from hook.format import Bound, as_text

Schema = dict[str, Any]
DURATION: Final[Schema] = {"type": "string", "pattern": "^([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?$", "minLength": 2}
BOUND: Final[Schema] = {
    "type": ["integer", "string"],
    "minimum": 0,
    "maximum": 999_999,
    "pattern": "^([0-9]{1,6}|([0-9]{1,2}|100)%)$",
}
CUSTOM: Final = {Duration: DURATION, Bound: BOUND}
PLAIN: Final = {inspect.BoolType: "boolean", inspect.IntType: "integer", inspect.StrType: "string"}
LIMITS: Final = {"ge": "minimum", "le": "maximum", "pattern": "pattern"}
LENGTHS: Final = {"string": "Length", "array": "Items", "object": "Properties"}


def schema() -> Schema:
    """Return the schema of all settings: types, bounds, choices, defaults and descriptions, without references."""
    return _schema(inspect.type_info(Settings))


def _schema(kind: inspect.Type) -> Schema:
    if isinstance(kind, inspect.Metadata):
        return {**_schema(kind.type), **(kind.extra_json_schema or {})}
    if isinstance(kind, inspect.StructType):
        return _block(kind)
    if isinstance(kind, inspect.EnumType):
        return {"type": "string", "enum": [choice.value for choice in kind.cls]}
    if isinstance(kind, inspect.UnionType):
        return {"anyOf": [_schema(option) for option in kind.types]}
    if isinstance(kind, inspect.CustomType):
        return dict(CUSTOM[kind.cls])
    found: Schema = {"type": "array" if isinstance(kind, inspect.VarTupleType) else "object"}
    if type(kind) in PLAIN:
        found = {"type": PLAIN[type(kind)]}
    elif isinstance(kind, inspect.VarTupleType):
        found["items"] = _schema(kind.item_type)
    elif isinstance(kind, inspect.DictType):
        found |= {"propertyNames": _schema(kind.key_type), "additionalProperties": _schema(kind.value_type)}
    return found | _bounds(kind, found["type"])


def _bounds(kind: inspect.Type, name: str) -> Schema:
    """Return the bounds of a plain type."""
    bounds = {word: getattr(kind, field, None) for field, word in LIMITS.items()}
    for size in ("min", "max"):
        bounds[f"{size}{LENGTHS.get(name, '')}"] = getattr(kind, f"{size}_length", None)
    return {word: bound for word, bound in bounds.items() if bound is not None}


def _block(kind: inspect.StructType) -> Schema:
    """Return the schema of a block of settings."""
    properties = {}
    for field in kind.fields:
        properties[field.encode_name] = found = _schema(field.type)
        if not field.required and "properties" not in found:
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            found["default"] = msgspec.to_builtins(default, enc_hook=_text)
    required = [field.encode_name for field in kind.fields if field.required]
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _text(value: object) -> str:
    return as_text(value) if isinstance(value, Duration) else str(value)
