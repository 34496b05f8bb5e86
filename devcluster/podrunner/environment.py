"""A container's environment and arguments, as a kubelet makes them from the pod."""

from __future__ import annotations

import base64
import os
import re
from typing import TYPE_CHECKING

from devcluster.client import ApiError, path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devcluster.client import Api, Object

REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
"""``$(NAME)``, and ``$$`` that stands for one dollar sign."""

SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")

INHERITED = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "COVERAGE_PROCESS_START")
"""What stands for the image's own environment: enough for Python to run, and nothing of the user's."""

LOOPBACK = "127.0.0.1"

FIELDS = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
    "metadata.uid": ("metadata", "uid"),
    "spec.nodeName": ("spec", "nodeName"),
    "spec.serviceAccountName": ("spec", "serviceAccountName"),
}


class ConfigError(Exception):
    """The container asks for something that does not exist or that we cannot give."""


def inherited() -> dict[str, str]:
    """Return the part of our own environment that containers get."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ}


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace references to variables; one that is not defined stays as it is."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else variables.get(match[1], match[0])

    return REFERENCE.sub(value, text)


async def variables(api: Api, pod: Object, container: Object, base: Mapping[str, str]) -> dict[str, str]:
    """Return the container's variables on top of a base, in the order of their definition."""
    result = dict(base)
    for source in container.get("envFrom", []):
        result |= await _all_keys(api, pod, source)
    for entry in container.get("env", []):
        if "valueFrom" in entry:
            value = await _referenced(api, pod, entry["valueFrom"])
        else:
            value = expand(entry.get("value", ""), result)
        if value is not None:
            result[entry["name"]] = value
    return result


def field(pod: Object, name: str) -> str:
    """Read a field of the pod by the name that the downward API gives it."""
    if name in FIELDS:
        part, key = FIELDS[name]
        return str(pod[part].get(key, ""))
    if name in ("status.hostIP", "status.podIP", "status.hostIPs", "status.podIPs"):
        return LOOPBACK
    if match := SUBSCRIPT.fullmatch(name):
        return str(pod["metadata"].get(match[1], {}).get(match[2], ""))
    raise ConfigError(f"field {name} is not supported")


async def _referenced(api: Api, pod: Object, source: Object) -> str | None:
    """Read one value from the pod, a ConfigMap or a Secret; None for an optional one that is missing."""
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"])
    for kind, plural in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
        if reference := source.get(kind):
            data = await _data(api, pod, plural, reference)
            if reference["key"] in data:
                return data[reference["key"]]
            if reference.get("optional"):
                return None
            raise ConfigError(f'couldn\'t find key {reference["key"]} in {plural} "{reference["name"]}"')
    raise ConfigError(f"{', '.join(source)} is not supported")


async def _all_keys(api: Api, pod: Object, source: Object) -> dict[str, str]:
    """Read all values of an ``envFrom`` entry."""
    plural = "configmaps" if "configMapRef" in source else "secrets"
    reference = source.get("configMapRef") or source["secretRef"]
    prefix = source.get("prefix", "")
    return {prefix + key: value for key, value in (await _data(api, pod, plural, reference)).items()}


async def _data(api: Api, pod: Object, plural: str, reference: Object) -> dict[str, str]:
    """Read the data of a ConfigMap or Secret; an optional one that is missing is empty."""
    url_path = path("v1", plural, namespace=pod["metadata"]["namespace"], name=reference["name"])
    try:
        found = (await api.get(url_path)).get("data") or {}
    except ApiError as error:
        if error.reason == "NotFound" and reference.get("optional"):
            return {}
        raise ConfigError(error.message) from error
    if plural == "secrets":
        return {key: base64.b64decode(value).decode() for key, value in found.items()}
    return dict(found)
