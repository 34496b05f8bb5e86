"""Device taint rules of a release: listed by their labels, created and deleted one by one.

Each belongs to a ClusterRole of the release, one for the Job and one for the controller. The garbage collector deletes
the rules with it: when the release is uninstalled, by whatever tool, or when Job, controller or the setting is turned
off.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hook.errors import CONFLICT, NOT_FOUND, ApiError
from hook.kube import retry
from hook.kube.informer import Informer, ListWatch, list_views
from hook.kube.resources import CLUSTER_ROLES, DEVICE_TAINT_RULES
from hook.objects import Malformed, names
from hook.objects.decoding import section
from hook.objects.taints import TaintRule, read_taint_rule, spec_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hook.kube.client import Api
    from hook.kube.informer import OutOfSync
    from hook.kube.resources import Resource
    from hook.objects.taints import Place

WRITE_SECONDS: Final = 2.0
"""Timeout of one request. A restart may wait for it."""
LONGEST_POOL: Final = 200
"""Characters of a pool in the name of its rule, which may have 253."""
HASH_LENGTH: Final = 12


class Release(NamedTuple):
    """The part of a release that rules belong to. A run ends and a controller does not, so each has its own."""

    namespace: str
    name: str
    """Name of its objects."""
    component: str
    """``job`` or ``controller``."""

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of the rules of both components."""
        return {
            **names.OWN_LABELS,
            names.RELEASE_NAMESPACE_LABEL: self.namespace,
            names.RELEASE_LABEL: self.name,
        }

    @property
    def role(self) -> str:
        """Return the name of the ClusterRole that owns the rules."""
        return f"{self.namespace}:{self.name}:device-taints:{self.component}"


class TaintRules:
    """The rules of a release, as the API server has them."""

    def __init__(self, api: Api, release: Release) -> None:
        self._api, self._release = api, release
        self._list_watch = ListWatch(_labelled(release.labels), read_taint_rule)
        # Nothing depends on the rules. A missing permission must not look like an outage, and may be added.
        self._informer = Informer(api, self._list_watch, retry.CONTROLLER)

    def start(self) -> None:
        """List and watch the rules."""
        self._informer.start()

    def stop(self) -> None:
        """Stop that."""
        self._informer.stop()

    @property
    def served(self) -> bool:
        """Return whether the API server has the kind."""
        return not self._informer.absent

    @property
    def problem(self) -> ApiError | OutOfSync | None:
        """Return why the rules may be out of date."""
        return self._informer.problem or self._informer.out_of_sync

    @property
    def synced(self) -> bool:
        """Return whether the rules were listed."""
        return self._informer.synced

    def listed(self) -> list[TaintRule]:
        """Return the rules, as the watch last showed them."""
        return _rules(self._informer.views())

    def read_again(self, end: float) -> list[TaintRule]:
        """List the rules now, because the watch may not show the last ones that were created. Raises ApiError."""
        return _rules(self._informer.read_again(end)[0])

    def own(self, rules: Iterable[TaintRule]) -> list[TaintRule]:
        """Return those of this process, or of one before it."""
        return [rule for rule in rules if rule.component == self._release.component]

    def owner(self) -> Mapping[str, str]:
        """Return the reference to the ClusterRole that owns the rules. Raises ApiError."""
        found = self._api.send("get", CLUSTER_ROLES, self._release.role, seconds=WRITE_SECONDS)
        uid = str(section(found, "metadata").get("uid"))
        return {
            "apiVersion": CLUSTER_ROLES.api_version,
            "kind": CLUSTER_ROLES.kind,
            "name": self._release.role,
            "uid": uid,
        }

    def create(self, place: Place, reason: str, owner: Mapping[str, str]) -> bool:
        """Create the rule of a place. Return whether it is new. Raises ApiError."""
        labels = {**self._release.labels, names.COMPONENT_LABEL: self._release.component}
        metadata = {"name": self._name(place), "labels": labels, "ownerReferences": [owner]}
        kind = {"apiVersion": DEVICE_TAINT_RULES.api_version, "kind": DEVICE_TAINT_RULES.kind}
        return self._write("create", "", CONFLICT, {**kind, "metadata": metadata, "spec": spec_of(place, reason)})

    def delete(self, rule: TaintRule) -> bool:
        """Delete a rule. Return whether it existed. Raises ApiError."""
        return self._write("delete", rule.name, NOT_FOUND)

    def _write(self, verb: str, name: str, done: int, body: Mapping[str, Any] | None = None) -> bool:
        try:
            self._api.send(verb, DEVICE_TAINT_RULES, name, body, WRITE_SECONDS)
        except ApiError as error:
            if error.status != done:
                raise
            return False
        return True

    def _name(self, place: Place) -> str:
        """Return the name of the rule of a place, which is the same each time. A pool may have slashes."""
        text = "\n".join((*self._release, *place))
        pool = place.pool[:LONGEST_POOL].replace("/", "-").rstrip(".-")
        return f"{pool}-{sha256(text.encode()).hexdigest()[:HASH_LENGTH]}"


def find_rules(api: Api) -> list[TaintRule] | ApiError:
    """Return the rules of all releases for ``status``, or why they are not known."""
    try:
        found = list_views(api, ListWatch(_labelled(names.OWN_LABELS), read_taint_rule), retry.NO_RETRY)
    except ApiError as error:
        return error
    return sorted(_rules(found.views.values()), key=lambda rule: rule.name) if found is not None else []


def _labelled(labels: Mapping[str, str]) -> Resource:
    return DEVICE_TAINT_RULES.select(labels=",".join(f"{key}={value}" for key, value in labels.items()))


def _rules(views: Iterable[TaintRule | Malformed]) -> list[TaintRule]:
    return [view for view in views if not isinstance(view, Malformed)]
