"""Events on the deployer's objects, on a real API server, by the chart's own account: on those that are named alone."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from devcluster.access import ApiError
from devcluster.client import path
from hook.config import EventTarget
from hook.decide.reasons import Reason
from hook.kube.client import connect
from hook.kube.events import COMPONENT, EventRecorder, TargetResolver
from tests.chart.admission_scene import DRA, OTHER, account_of_chart, apply
from tests.chart.admission_trial import EVENTS, OWN, assert_no_warnings, event, judge, until
from tests.e2e.identity import kubeconfig_of

if TYPE_CHECKING:
    from devcluster.cluster import Cluster
    from tests.chart.admission_scene import Account, Answer
    from tests.chart.rendering import Values

pytestmark = pytest.mark.e2e

GROUP: Final = "argoproj.io"
APPLICATIONS: Final = path(f"{GROUP}/v1beta7", "applications", namespace=OTHER)
"""A version that the program does not know: the setting names it."""
CONFLICT: Final = 409
BESIDE: Final = path("v1", "events", namespace=OTHER)
NAMED: Final[Values] = {"apiVersion": f"{GROUP}/v1beta7", "kind": "Application", "namespace": OTHER, "name": "named"}
ACCOUNTS: Final[dict[str, Values]] = {
    "herald": {"eventTargets": [NAMED], "rbac.scope": "namespace", "rbac.namespaces": [DRA]},
    "herald-everywhere": {"eventTargets": [NAMED, {**NAMED, "namespace": "nowhere"}]},
}
"""One whose Role beside the object is all that lets it write Events there, and one that may anywhere: its release is
installed although it also names an object in a namespace that is not there."""
NOTE: Final = "node gpu-1 needs manual action"


@pytest.fixture(scope="module")
def applications(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Have a kind that nobody compiled in, and two objects of it, by their names."""
    names = {"plural": "applications", "singular": "application", "kind": "Application", "listKind": "ApplicationList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1beta7", "served": True, "storage": True, "schema": schema}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"applications.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    apply(cluster, [definition])
    until(lambda: _served(cluster), "the kind is served")
    wanted: list[dict[str, Any]] = [
        {"apiVersion": f"{GROUP}/v1beta7", "kind": "Application", "metadata": {"name": name, "namespace": OTHER}}
        for name in ("named", "other")
    ]
    return {str(each["metadata"]["name"]): _made(cluster, each) for each in wanted}


@pytest.fixture(scope="module")
def accounts(cluster: Cluster, applications: dict[str, dict[str, Any]]) -> dict[str, Account]:
    """Have accounts of the chart, once guard and roles are in effect."""
    assert applications
    made = {name: account_of_chart(cluster, name, values) for name, values in ACCOUNTS.items()}
    for account in made.values():
        until(partial(_guarded, account), "the guard is in effect")
        until(partial(_permitted, account), "the Role is in effect")
    return made


def _guarded(account: Account) -> bool:
    return account.create(EVENTS, event("try", kind="Node")).refused_by_guard


def _permitted(account: Account) -> bool:
    return account.get(f"{APPLICATIONS}/named").code == 200


def _served(cluster: Cluster) -> bool:
    try:
        cluster.list(APPLICATIONS)
    except ApiError:
        return False
    return True


def _made(cluster: Cluster, wanted: dict[str, Any]) -> dict[str, Any]:
    """Create an object, unless an earlier try of a test has."""
    try:
        cluster.create(APPLICATIONS, wanted)
    except ApiError as error:
        if error.code != CONFLICT:
            raise
    return cluster.get(f"{APPLICATIONS}/{wanted['metadata']['name']}")


def _about(found: dict[str, Any], namespace: str = OTHER, **more: str) -> dict[str, Any]:
    """Describe an event as the program writes it."""
    regarding: dict[str, Any] = {key: found[key] for key in ("apiVersion", "kind")}
    regarding |= {"name": found["metadata"]["name"], "uid": found["metadata"]["uid"], "namespace": namespace, **more}
    return {"metadata": {"name": "a", "namespace": namespace}, "involvedObject": regarding, "reason": "Test", **OWN}


def _told(cluster: Cluster, found: dict[str, Any]) -> list[str]:
    """Give what is told on an object, selected as `kubectl describe` and Argo CD select it."""
    events = cluster.list(BESIDE, fieldSelector=f"involvedObject.uid={found['metadata']['uid']}")
    return [str(each["message"]) for each in events if each["source"]["component"] == COMPONENT]


def _tell_end(cluster: Cluster, name: str, account: Account, which: str) -> None:
    """Tell the end of a run as the program does, as an account of the chart."""
    api = connect(str(kubeconfig_of(cluster, name, account.token)), "", "")
    recorder = EventRecorder(api, uuid.uuid4().hex, silent=False)
    recorder.flush()
    about = TargetResolver(api, EventTarget(f"{GROUP}/v1beta7", "Application", OTHER, which))
    recorder.event(about, Reason.STALLED, NOTE, warning=True)
    recorder.shutdown(60.0)


@pytest.mark.parametrize("name", ACCOUNTS)
def test_the_end_is_told_on_the_named_object_and_on_no_other(
    cluster: Cluster, accounts: dict[str, Account], applications: dict[str, dict[str, Any]], name: str
) -> None:
    """Whoever describes it reads it; another one cannot even be read."""
    before = _told(cluster, applications["named"])
    _tell_end(cluster, name, accounts[name], "named")
    until(lambda: [*before, NOTE] == _told(cluster, applications["named"]), "the end is told")
    described = cluster.kubectl("describe", f"applications.{GROUP}", "named", "-n", OTHER).stdout
    assert NOTE in described
    _tell_end(cluster, name, accounts[name], "other")
    assert [] == _told(cluster, applications["other"])
    assert 403 == accounts[name].get(f"{APPLICATIONS}/other").code


def test_which_events_are_allowed_beside_it(
    cluster: Cluster, accounts: dict[str, Account], applications: dict[str, dict[str, Any]], subtests: pytest.Subtests
) -> None:
    """Its own, on the object of this API version, kind, namespace and name."""
    named, other = applications["named"], applications["other"]
    theirs = {"source": {"component": "kubelet"}}
    allowed: dict[str, Answer] = {}
    refused: dict[str, Answer] = {}
    for name, account in accounts.items():
        allowed[f"{name}: on the object"] = account.create(BESIDE, _about(named))
        refused |= {
            f"{name}: on another name": account.create(BESIDE, _about(other)),
            f"{name}: on another group": account.create(BESIDE, _about(named, apiVersion="example.com/v1")),
            f"{name}: on another kind": account.create(BESIDE, _about(named, kind="ApplicationSet")),
            f"{name}: on no group": account.create(BESIDE, _about(named, apiVersion="v1")),
            f"{name}: on another namespace": account.create(EVENTS, _about(named, DRA)),
            f"{name}: of another component": account.create(BESIDE, {**_about(named), **theirs}),
        }
    judge(subtests, allowed, refused)
    with subtests.test("the expressions fit the kinds that they judge"):
        assert_no_warnings(cluster, list(accounts))
