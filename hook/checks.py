"""Build settings from what users write, and refuse mistakes with the path of the setting and a sentence."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import inspect

from hook import config
from hook.config import ControllerSettings, Duration, Settings
from hook.errors import SettingsError
from hook.format import Bound, printable
from hook.objects.drivers import STACKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DURATION: Final = re.compile(r"(?=\d)(?:(\d{1,5})h)?(?:(\d{1,5})m)?(?:(\d{1,5})s)?", re.ASCII)
_BOUND: Final = re.compile(r"([0-9]{1,6})(%?)")
"""K8S ``intstr``, like ``maxUnavailable`` of a DaemonSet; no fleet has a million nodes."""
WHOLE: Final = 100
LONGEST_VALUE: Final = 80
"""Characters of a wrong value in a message."""


def settings_from(values: object, *, controller: bool = False) -> Settings:
    """Build settings from plain values. Raises SettingsError."""
    try:
        for path, text in _texts(values, ""):
            if not text.isprintable():
                raise SettingsError(f"{path or 'the settings'}: {_quoted(text)} has a character that cannot be printed")
        found = msgspec.convert(values, ControllerSettings if controller else Settings, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise SettingsError(_sentence(str(error), values)) from error
    except RecursionError as error:
        raise SettingsError("the settings: blocks or lists are nested too deeply") from error
    if problems := [*_what_cannot_work(found), *_what_has_no_effect(found)]:
        raise SettingsError("\n".join(problems))
    return found


def duration(value: object) -> Duration:
    """Read ``25m``, ``90s`` or ``1h30m``; refuse a number without a unit. Raises ValueError."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{_quoted(value)} is not a duration; use units, such as 25m, 90s or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return Duration(hours=hours, minutes=minutes, seconds=seconds)


def bound(value: object) -> Bound:
    """Read ``3`` or ``25%``. Raises ValueError."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    found = _BOUND.fullmatch(text)
    if found is None or (found[2] and int(found[1]) > WHOLE):
        raise ValueError(f"{_quoted(value)} is neither a number nor a percentage up to 100%, such as 3 or 25%")
    return Bound(f"{int(found[1])}{found[2]}")


def _read(kind: type[Any], value: object) -> object:
    return duration(value) if kind is Duration else bound(value)


def _texts(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Return each text in the values, also the keys, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                raise SettingsError(f"{path or 'the settings'}: {_quoted(key)} is not the name of a setting")
            yield path, key
            yield from _texts(part, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _texts(part, f"{path}[{number}]")


def _quoted(value: object) -> str:
    """Return a value as JSON."""
    return printable(json.dumps(value, default=str), LONGEST_VALUE)


_PART: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
_KINDS: Final = {
    "array": "a list",
    "bool": "true or false",
    "int": "a whole number",
    "object": "a block of settings",
    "str": "a text in quotes",
}
_PATTERNS: Final = {
    config.NAME: "a valid name of a Kubernetes object",
    config.NAMESPACE_OR_ANY: "a valid name of a namespace",
    config.NAME_OR_NONE: "a valid name of a Kubernetes object",
    config.LABEL_KEY: "a valid key of a label",
    config.LABEL_VALUE: "a valid value of a label",
}


def _sentence(message: str, values: object) -> str:
    """Return the decoder's message as the path of a setting, and what is wrong with it."""
    what, found, where = message.rpartition(" - at `")
    what, path = (what, where.rpartition("$")[2].strip(".`")) if found else (message, "")
    value = "an entry" if where.startswith("key") or "..." in path else _quoted(_at(values, path))
    path, name = path.replace("[...]", ""), what.partition("`")[2].partition("`")[0]
    if what.startswith("Object contains unknown field"):
        return f"{path}.{name}".lstrip(".") + f": no such setting{_suggestion(path, name)}"
    return f"{path or 'the settings'}: {_problem(what, name, value, path)}"


def _problem(what: str, kind: str, value: str, path: str) -> str:
    """Return what is wrong with a value."""
    if what.startswith("Invalid enum value"):
        return f"{value} is unknown; choose {_either(_choices(path))}"
    if ", got " in what and what.startswith("Expected `"):
        return f"{value} is not {_KINDS[kind]}"
    if (limit := re.fullmatch(r"Expected .* ([<>]=) (\d+)", what)) is not None:
        return f"{value} is {_beyond(kind, *limit.groups())}"
    pattern = next((pattern for pattern in _PATTERNS if repr(pattern) in what), "")
    return f"{value} is not {_PATTERNS[pattern]}" if pattern else what


def _beyond(kind: str, sign: str, limit: str) -> str:
    entries = " entry" if limit == "1" else " entries"
    unit = {"array": entries, "str": " characters"}.get(kind, "")
    size, bound = ("long" if unit else "large", "most") if sign == "<=" else ("short" if unit else "small", "least")
    return f"too {size}: at {bound} {limit}{unit}"


def _at(values: Any, path: str) -> object:  # noqa: ANN401 - plain values of any kind
    """Return the value at a path of the decoder."""
    for key, number in _PART.findall(path):
        values = values[key] if key else values[int(number)]
    return values


def _known(kind: inspect.Type, path: str = "") -> Iterator[tuple[str, inspect.Type]]:
    """Return each setting with its path, without the numbers of list items."""
    if isinstance(kind, inspect.Metadata):
        yield from _known(kind.type, path)
        return
    yield path, kind
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield from _known(field.type, f"{path}.{field.encode_name}".lstrip("."))
    elif isinstance(kind, inspect.VarTupleType):
        yield from _known(kind.item_type, path)


def _all_known() -> list[tuple[str, inspect.Type]]:
    return list(_known(inspect.type_info(Settings)))


def _suggestion(path: str, name: str) -> str:
    """Return the known setting whose name is nearest: of the same block, or else of any."""
    import difflib  # noqa: PLC0415 - only for a mistake

    block = re.sub(r"\[\d+\]", "", path)
    paths = dict.fromkeys(known for known, _kind in _all_known() if known)
    same = {known.rpartition(".")[2]: known for known in paths if known.rpartition(".")[0] == block}
    anywhere = {known.rpartition(".")[2]: known for known in reversed(paths)}
    for names in (same, anywhere):
        if near := difflib.get_close_matches(name, names, 1):
            return f"; did you mean {names[near[0]]}?"
    return f"; known are {', '.join(same)}"


def _choices(path: str) -> list[str]:
    kinds = dict(_all_known())
    kind = kinds[re.sub(r"\[\d+\]", "", path)]
    return [choice.value for choice in kind.cls] if isinstance(kind, inspect.EnumType) else []


def _either(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"


def _what_cannot_work(settings: Settings) -> Iterator[str]:
    """Return why nothing would be restarted, or too often."""
    for name in ("timeout", "plugin_timeout"):
        if not getattr(settings, name):
            yield f"{_camel(name)}: must be longer than 0s"
    if not settings.controller.max_unavailable.value:
        yield "controller.maxUnavailable: 0 prevents every restart"
    if not settings.advanced.restart_backoff:
        yield "advanced.restartBackoff: must be longer than 0s"
    if settings.is_controller and settings.dry_run:
        yield "dryRun: the controller has no dry run; use status, or run with dryRun"
    for number, client in enumerate(settings.driver_clients):
        by_name = bool(client.namespace and client.name)
        if by_name == bool(client.labels) or bool(client.namespace) != bool(client.name):
            yield f"driverClients[{number}]: set either namespace and name, or labels"


def _what_has_no_effect(settings: Settings) -> Iterator[str]:
    """Return settings that a run would ignore, because users rely on them."""
    stack = STACKS[settings.stack]
    for number, name in enumerate(settings.refresh_after):
        if name not in stack.prerequisites:
            known = f"; choose from {', '.join(sorted(stack.prerequisites))}" if stack.prerequisites else ""
            yield f"refreshAfter[{number}]: {_quoted(name)} does not belong to the stack {stack.name}{known}"
    if settings.expect.chart_version and not stack.policy.carries_chart:
        yield f"expect.chartVersion: a {stack.policy.kind} does not name the chart that it comes from"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
