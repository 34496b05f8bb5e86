"""Parse the flag that names event targets: objects of the deployment tool."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hook.errors import SettingsError
from hook.settings import Regarded

if TYPE_CHECKING:
    from collections.abc import Iterable

_LABEL: Final = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(?:\.{_LABEL})*"
_REGARDED: Final = re.compile(
    rf"(?P<resource>{_LABEL})\.(?P<group>{_SUBDOMAIN})/(?P<namespace>{_LABEL})/(?P<name>{_SUBDOMAIN})"
)
"""K8S ``apimachinery/pkg/util/validation``: DNS-1123 labels, and subdomains, which consist of them."""
LONGEST: Final = 253
"""Same source."""
MOST: Final = 4
"""A deployment tool has one such object per release, and perhaps a parent. Each one delays the end of a run."""


def all_regarded(texts: Iterable[str]) -> tuple[Regarded, ...]:
    """Parse the values of the flag, without duplicates."""
    found = tuple(dict.fromkeys(map(_regarded, texts)))
    if len(found) > MOST:
        raise SettingsError(f"--regarding names {len(found)} objects, at most {MOST} are allowed")
    return found


def _regarded(text: str) -> Regarded:
    """Parse one value: the plural of the kind with the group, the namespace, and the name."""
    found = _REGARDED.fullmatch(text)
    if found is None or any(len(part) > LONGEST for part in text.split("/")):
        raise SettingsError(
            f"--regarding {text!r} is not RESOURCE.GROUP/NAMESPACE/NAME, such as "
            "helmreleases.helm.toolkit.fluxcd.io/flux-system/gpu-operator-post"
        )
    return Regarded(**found.groupdict())
