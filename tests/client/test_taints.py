"""Device taint rules on a real API server: what a process writes, adopts and removes, and that nothing waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Final

import pytest
from msgspec.structs import replace

from hook.errors import ApiError, LeaseLostError
from hook.kube import informer
from hook.kube import taints as kube
from hook.kube.client import Api
from hook.kube.events import ObjectReference
from hook.kube.informer import OutOfSync
from hook.kube.own import Job, job_again
from hook.kube.resources import CLUSTER_ROLES, DEVICE_TAINT_RULES, JOBS, Resource
from hook.kube.taints import Release, TaintRules, find_rules
from hook.run import taints
from hook.run.taints import NOT_SERVED, TaintKeeper, as_json, as_lines
from hook.settings import DeviceTaints, Settings
from tests.client.apiserver import ApiServer, booted, create
from tests.client.server import PATIENCE, Said, serving, until
from tests.fixtures.cluster import LATER, Cluster, cluster, stale
from tests.fixtures.objects import Object

ON: Final = Settings(device_taints=DeviceTaints(enabled=True))
JOB: Final = Release("gpu-operator", "post", "job")
CONTROLLER: Final = JOB._replace(component="controller")
OTHER: Final = JOB._replace(name="other")
UNKNOWN: Final = Said(404, b"404 page not found\n", {"content-type": "text/plain"})
USERS: Final = "users"
NAMESPACE: Final = "gpu-operator"
RETRIED, LAST = "retried", "last"
"""Jobs whose pod is tried again, and is not."""
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace")
BINDINGS: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Boot an API server with the ClusterRoles that own the rules, and with Jobs."""
    with booted(tmp_path_factory.mktemp("apiserver")) as server:
        for release in (JOB, CONTROLLER, OTHER):
            create(server.api(), CLUSTER_ROLES, release.role, rules=[])
        create(server.api(), NAMESPACES, NAMESPACE)
        pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}
        for name, limit in ((RETRIED, 3), (LAST, 0)):
            create(server.api(), JOBS.select(NAMESPACE), name, spec={"backoffLimit": limit, "template": pod})
        yield server


@pytest.fixture
def api(server: ApiServer) -> Iterator[Api]:
    """Return a client of the administrator of a cluster without rules."""
    api = server.api()
    yield api
    for rule in _rules(api):
        api.send("delete", DEVICE_TAINT_RULES, rule["metadata"]["name"])


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writes have as much time as a busy machine needs, and wait for none before the next ones."""
    monkeypatch.setattr(taints, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(taints, "RECONCILE_SECONDS", PATIENCE)
    monkeypatch.setattr(taints, "REMOVE_SECONDS", PATIENCE)
    monkeypatch.setattr(kube, "WRITE_SECONDS", PATIENCE)


def _rules(api: Api) -> list[Object]:
    found: list[Object] = api.send("get", DEVICE_TAINT_RULES)["items"]
    return found


def _pools(api: Api, release: Release | None = None) -> list[str]:
    """Return the pools that a rule is about, of a process or of all, each once."""
    labels = {} if release is None else {**release.labels, "app.kubernetes.io/component": release.component}
    mine = [rule for rule in _rules(api) if labels.items() <= rule["metadata"].get("labels", {}).items()]
    return sorted({rule["spec"]["deviceSelector"]["pool"] for rule in mine})


def _keeper(api: Api, release: Release = JOB, settings: Settings = ON) -> TaintKeeper:
    """Start to keep rules, and return once the rules of before are known."""
    keeper = TaintKeeper(api, settings, release)
    keeper.start()
    if keeper._rules is not None:
        until(lambda: keeper._rules is not None and keeper._rules.synced, "the rules are read")
    return keeper


def _reconcile(keeper: TaintKeeper, found: Cluster) -> None:
    decision, memory = found.decide()
    assert memory.evaluation is not None
    keeper.reconcile(decision, memory.evaluation.fleet)


def _some_stale(*nodes: str) -> Cluster:
    """Return the nodes a, b and c, on some of which the plugin is stale."""
    return cluster("a", "b", "c").put("plugin-pod", *stale(*nodes).of("plugin-pod"))


def test_rules_are_those_that_a_decision_wants(api: Api) -> None:
    """Missing ones are created, once, and superfluous ones deleted."""
    keeper = _keeper(api)
    _reconcile(keeper, _some_stale("a", "b"))
    assert _pools(api) == ["a", "b"]
    # The watch may not have shown them yet.
    _reconcile(keeper, _some_stale("a", "b"))
    assert len(_rules(api)) == 4
    until(lambda: keeper.oldest is not None, "the watch shows them")
    until(lambda: len(keeper._rules.listed()) == 4 if keeper._rules else False, "the watch shows all of them")
    _reconcile(keeper, _some_stale("b", "c"))
    assert _pools(api) == ["b", "c"]


def test_a_rule_says_what_it_is_for(api: Api) -> None:
    """It selects the devices of a node and of one DRA driver, and belongs to the ClusterRole of its release."""
    _reconcile(_keeper(api), _some_stale("a"))
    rules = {rule["spec"]["deviceSelector"]["driver"]: rule for rule in _rules(api)}
    assert sorted(rules) == ["compute-domain.nvidia.com", "gpu.nvidia.com"]
    rule = rules["gpu.nvidia.com"]
    taint = {key: rule["spec"]["taint"][key] for key in ("key", "value", "effect")}
    assert taint == {"key": "gpu-operator-post/unverified", "value": "PluginStale", "effect": "NoSchedule"}
    assert rule["spec"]["deviceSelector"] == {"driver": "gpu.nvidia.com", "pool": "a"}
    (owner,) = rule["metadata"]["ownerReferences"]
    role = api.send("get", CLUSTER_ROLES, JOB.role)
    assert owner == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "name": "gpu-operator:post:device-taints:job",
        "uid": role["metadata"]["uid"],
    }


@pytest.mark.parametrize("name", ["rack-1/a", "n" * 253], ids=["slash", "long"])
def test_a_pool_of_any_name_gets_a_rule(api: Api, name: str) -> None:
    """A pool may have slashes in its name, and is longer than the name of a rule may be."""
    found = _some_stale("a").change("slice", {"spec": {"pool": {"name": name}}}, "0-gpu.nvidia.com-a")
    _reconcile(_keeper(api), found)
    assert _pools(api) == [name]


def test_a_process_adopts_what_the_one_before_left(api: Api) -> None:
    """Its rules that are still wanted stay as they are. Those that are not are deleted."""
    _reconcile(_keeper(api), _some_stale("a", "b"))
    before = {rule["metadata"]["uid"] for rule in _rules(api) if rule["spec"]["deviceSelector"]["pool"] == "b"}
    _reconcile(_keeper(api), _some_stale("b"))
    assert {rule["metadata"]["uid"] for rule in _rules(api)} == before


def test_the_rules_of_others_stay(api: Api) -> None:
    """Those of a user, of another release, and of the controller of the same one."""
    spec: Object = {"deviceSelector": {"pool": "mine"}, "taint": {"key": "mine", "effect": "NoSchedule"}}
    create(api, DEVICE_TAINT_RULES, USERS, spec=spec)
    for each in (OTHER, CONTROLLER):
        _reconcile(_keeper(api, each), _some_stale("c"))
    keeper = _keeper(api)
    _reconcile(keeper, _some_stale("a"))
    keeper.remove(PATIENCE)
    assert (_pools(api, OTHER), _pools(api, CONTROLLER), _pools(api, JOB)) == (["c"], ["c"], [])
    assert USERS in [rule["metadata"]["name"] for rule in _rules(api)]


def test_the_end_removes_rules_that_no_watch_has_shown(api: Api) -> None:
    """A run may end in the moment in which it creates them."""
    keeper = _keeper(api)
    assert keeper._rules is not None
    keeper._rules.stop()
    _reconcile(keeper, _some_stale("a", "b", "c"))
    keeper.remove(PATIENCE)
    assert _rules(api) == []


@pytest.mark.parametrize("settings", [Settings(), replace(ON, dry_run=True)], ids=["not enabled", "dry run"])
def test_nothing_is_written_unless_the_settings_ask(api: Api, settings: Settings) -> None:
    """Also a dry run writes nothing."""
    keeper = _keeper(api, settings=settings)
    _reconcile(keeper, _some_stale("a"))
    keeper.remove(PATIENCE)
    assert (_rules(api), keeper.oldest) == ([], None)


def _grant(api: Api, name: str, *verbs: str, user: str = "newcomer") -> None:
    """Grant verbs on rules and their owner to a user."""
    rules = [
        {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": verbs}
        for kind in (DEVICE_TAINT_RULES, CLUSTER_ROLES)
    ]
    create(api, CLUSTER_ROLES, name, rules=rules)
    subject = {"apiGroup": CLUSTER_ROLES.group, "kind": "User", "name": user}
    role = {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": name}
    create(api, BINDINGS, name, roleRef=role, subjects=[subject])


def test_a_missing_permission_stops_nothing(
    server: ApiServer, api: Api, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither to read nor to write: each is reported once, and the rules follow when it is granted."""
    monkeypatch.setattr(informer, "LASTING_SECONDS", 0.0)
    keeper = TaintKeeper(server.api("newcomer"), ON, JOB)
    keeper.start()

    def warned() -> list[str]:
        """Reconcile once more, and return the warnings so far."""
        _reconcile(keeper, _some_stale("a"))
        warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
        return [warning.partition("device taint rules")[0].strip() for warning in warnings]

    until(lambda: warned() == [""], "it may not read")
    _grant(api, "reader", "list", "watch")
    until(lambda: warned() == ["", "cannot write"], "it may not write")
    assert _rules(api) == []
    _grant(api, "writer", "create", "delete", "get")
    until(lambda: len(_rules(api)) == 2 or not warned(), "the rules follow")
    assert warned() == ["", "cannot write"]


def test_each_outage_is_reported_once(
    api: Api, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that follows another, with nothing to write between them."""
    keeper = _keeper(api)
    for lost in (True, True, False, True):
        problem = OutOfSync("devicetaintrules", 0.0, "connection refused") if lost else None
        monkeypatch.setattr(TaintRules, "problem", problem)
        _reconcile(keeper, cluster("a"))
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 2
    assert all(warning.startswith(taints.UNKNOWN) for warning in warnings)


def test_devices_are_admitted_again_while_no_rule_can_be_created(server: ApiServer, api: Api) -> None:
    """A node that is verified does not wait for another one, whose rule is refused."""
    _reconcile(_keeper(api), _some_stale("a"))
    _grant(api, "remover", "list", "watch", "delete", user="remover")
    keeper = _keeper(server.api("remover"))

    def is_admitted() -> bool:
        _reconcile(keeper, _some_stale("b"))
        return _pools(api) == []

    until(is_admitted, "the rules of a are deleted")


def test_a_rule_that_is_refused_holds_up_no_other(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server, or a policy, may refuse a pool. This is another trouble than an outage, which ends the writes."""
    monkeypatch.setattr(taints, "SIDE_BY_SIDE", 1)
    found = _some_stale("a", "b").change("slice", {"spec": {"pool": {"name": "Invalid_"}}}, "0-gpu.nvidia.com-a")
    _reconcile(_keeper(api), found)
    assert _pools(api) == ["b"]


def test_only_what_was_written_is_logged(
    api: Api, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a rule that is there already, nor one for which no time is left."""
    caplog.set_level("INFO", "hook.run.taints")
    keeper = _keeper(api)
    _reconcile(keeper, _some_stale("a"))
    twin = _keeper(api)
    assert twin._rules is not None
    monkeypatch.setattr(twin._rules, "listed", list)
    _reconcile(twin, _some_stale("a"))
    monkeypatch.setattr(taints, "RECONCILE_SECONDS", -1.0)
    _reconcile(twin, _some_stale("b", "c"))
    (line,) = caplog.messages
    assert line.startswith("new claims are kept away from a ")


def _slow(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each write take ten minutes, by the clock of a keeper, and one follow the other."""
    late = [0.0]

    def fence(_resource: Resource) -> None:
        late[0] += 600

    api.fence = fence
    monkeypatch.setattr(taints, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + late[0]))
    monkeypatch.setattr(taints, "SIDE_BY_SIDE", 1)


def test_rules_that_are_left_at_the_end_are_reported(
    api: Api, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server may be too slow for those of a large fleet. Given the time, they are all deleted."""
    keeper = _keeper(api)
    _reconcile(keeper, _some_stale("a", "b", "c"))
    _slow(api, monkeypatch)
    keeper.remove(1000)
    assert len(_rules(api)) == 4
    assert "cannot delete 4 device taint rules: the time is up. The next run" in caplog.text
    keeper.remove(9000)
    assert _rules(api) == []


@pytest.mark.parametrize(
    ("name", "stopped", "left"),
    [
        pytest.param(RETRIED, False, 6, id="another-pod-follows"),
        pytest.param(RETRIED, True, 6, id="another-pod-follows-after-a-signal"),
        pytest.param(LAST, False, 0, id="last-pod"),
        pytest.param(LAST, True, 4, id="last-pod-after-a-signal"),
        pytest.param("", False, 0, id="no-job"),
    ],
)
def test_the_rules_of_a_run_stay_for_another_pod_of_its_job(
    api: Api, monkeypatch: pytest.MonkeyPatch, name: str, stopped: bool, left: int
) -> None:
    """Otherwise they are deleted. Half of the time that is left is enough for that, but not a moment after a signal."""
    keeper = _keeper(api)
    _reconcile(keeper, _some_stale("a", "b", "c"))
    monkeypatch.setattr(taints, "REMOVE_SECONDS", 1000)
    _slow(api, monkeypatch)
    job = Job(ObjectReference("batch/v1", "Job", NAMESPACE, name, ""), None) if name else None
    keeper.end(job, 9000, stopped=stopped)
    assert len(_rules(api)) == left


def test_the_look_at_the_job_takes_no_time_of_the_kubelet(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server may be slow after a signal. Then the rules stay, but the process ends in time."""
    keeper = _keeper(api)
    _reconcile(keeper, _some_stale("a"))
    late = [0.0]

    def slowly(api: Api, job: Job) -> Job | None:
        late[0] += PATIENCE
        return job_again(api, job)

    monkeypatch.setattr(taints, "job_again", slowly)
    monkeypatch.setattr(taints, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + late[0]))
    keeper.end(Job(ObjectReference("batch/v1", "Job", NAMESPACE, LAST, ""), None), 9000, stopped=True)
    assert _pools(api) == ["a"]


def test_the_end_outlasts_an_api_server_that_restarts(api: Api) -> None:
    """Unless a signal leaves no time. No other process would delete the rules."""
    keeper = _keeper(api)
    _reconcile(keeper, _some_stale("a"))
    answers = iter([ApiError(503, "restarting")] * 3)

    def fence(_resource: Resource) -> None:
        if (error := next(answers, None)) is not None:
            raise error

    api.fence = fence
    keeper.remove(PATIENCE)
    assert _rules(api) == []


def test_without_its_owner_no_rule_is_written(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """The garbage collector could not delete it. This is reported once."""
    keeper = _keeper(api, JOB._replace(name="without-role"))
    for _again in range(3):
        _reconcile(keeper, _some_stale("a"))
    assert _rules(api) == []
    (warning,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("cannot write device taint rules, trying again: ")
    assert "without-role:device-taints" in warning


def test_a_lost_lease_ends_the_process(api: Api) -> None:
    """What fences all other writes fences rules."""

    def fence(_resource: Resource) -> None:
        raise LeaseLostError("gone")

    keeper = _keeper(api, CONTROLLER)
    api.fence = fence
    with pytest.raises(LeaseLostError):
        _reconcile(keeper, _some_stale("a"))


def test_a_cluster_without_the_kind_gets_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """As Kubernetes before 1.37 is. Nothing is written, not at the end either, and ``status`` shows nothing."""
    with serving(UNKNOWN) as server:
        keeper = _keeper(server.api)
        for _again in range(3):
            _reconcile(keeper, _some_stale("a"))
        keeper.remove(PATIENCE)
        assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [NOT_SERVED]
        assert server.writes == []
        assert find_rules(server.api) == []


def test_status_shows_the_rules_of_all_releases(api: Api) -> None:
    """With their age, for people and for programs."""
    for release in (JOB, OTHER):
        _reconcile(_keeper(api, release), _some_stale("a"))
    found = find_rules(api)
    assert not isinstance(found, ApiError)
    created = found[0].created
    assert created is not None
    lines = as_lines(found, created)
    assert (len(lines), "PluginStale  0s" in lines[2]) == (2 + 4, True)
    shown = as_json(found)
    assert shown is not None
    assert {(each["pool"], each["driver"], each["reason"]) for each in shown} == {
        ("a", "gpu.nvidia.com", "PluginStale"),
        ("a", "compute-domain.nvidia.com", "PluginStale"),
    }


def test_status_works_without_the_permission_to_list_rules(server: ApiServer) -> None:
    """It says why they are not known, at once."""
    found = find_rules(server.api("stranger"))
    assert isinstance(found, ApiError)
    assert as_json(found) is None
    assert as_lines(found, LATER)[0].startswith("device taint rules are not known: permission missing: list")
    assert as_lines([], LATER) == []
