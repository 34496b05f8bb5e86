"""One run of the program in a world: its real loop, with the world in place of API server, watches and clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, cast

from msgspec import structs

from hook.decide.reasons import Reason
from hook.errors import CONFLICT, NOT_FOUND, ApiError
from hook.kube import retry
from hook.kube.cache import Cache
from hook.kube.events import EventRecorder, ObjectReference
from hook.kube.own import Job
from hook.objects import Snapshot
from hook.run import clock
from hook.run.job import Outcome, Runner
from hook.settings import AffectedWorkloads
from tests.fixtures.objects import at, stamp
from tests.properties.observation import Watch, changed_nodes, moment_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from hook.decide.fleet import Fleet
    from hook.decide.result import Decision
    from hook.kube.client import Api
    from hook.kube.resources import Resource
    from hook.objects import DaemonSet
    from hook.objects.taints import Place
    from hook.settings import Settings
    from tests.properties.machine import Machine
    from tests.properties.observation import Observation
    from tests.properties.pods import PluginPod
    from tests.properties.world import World


class PausedError(Exception):
    """The run waits for something to change; it is asked again later."""


class Clock(clock.Clock):
    """The program's clock. It never sleeps."""

    def __init__(self, world: World) -> None:
        super().__init__(at(moment_of(world)))
        self.world = world

    def now(self) -> datetime:
        """Return the world's time."""
        return at(moment_of(self.world))

    def monotonic(self) -> float:
        """Return the world's time."""
        return moment_of(self.world)

    def sleep(self, _seconds: float) -> None:
        """Return at once: time passes when a history lets it."""


class WorldApi:
    """Stands for the API server: the one write that this strategy needs."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def send(self, verb: str, resource: Resource, name: str, body: dict[str, Any], _seconds: float) -> dict[str, Any]:
        """Delete a plugin's pod as a request asks for it, preconditions and all."""
        assert (verb, resource.plural) == ("delete", "pods")
        found = self._run.world.plugin(name)
        if found is None:
            raise ApiError(NOT_FOUND, name)
        machine, pod = found
        wanted = body.get("preconditions", {})
        true = {"uid": pod.uid, "resourceVersion": str(pod.changes)}
        if any(true[key] != value for key, value in wanted.items()):
            raise ApiError(CONFLICT, name)
        if not pod.deleting:
            self._run.on_restart(self._run, machine, pod)
            self._run.world.takes(pod)
        return {"metadata": {"name": name, "deletionTimestamp": stamp(moment_of(self._run.world))}}


class WorldCache(Cache):
    """A cache without an API server: it shows what one run's watches show, and a second, consistent read."""

    def __init__(self, run: Run, api: Api) -> None:
        super().__init__(api, run.settings, retry.Patience(retry.FOREVER))
        self._run = run
        self._seen = Snapshot()
        """What was shown last."""

    @property
    def synced(self) -> bool:
        """Everything is listed from the start."""
        return True

    def start(self) -> None:
        """All kinds are watched from the start."""

    def watch_plugins(self) -> tuple[DaemonSet, ...]:
        """Return no DaemonSet: Events have no subject here."""
        return ()

    def snapshot(self) -> Snapshot:
        """Return what the watches show."""
        return self._run.watch.snapshot()

    def observe(self) -> tuple[Snapshot, set[str]]:
        """Return what the watches show, and the nodes whose objects are not those of the last call."""
        before, self._seen = self._seen, self._run.watch.snapshot()
        return self._seen, changed_nodes(before, self._seen)

    def read_consistently(self, _left: float) -> Snapshot:
        """Return what is there now."""
        return Watch(self._run.observation).snapshot()

    def wait(self, _seconds: float) -> NoReturn:
        """Hand over to the history."""
        raise PausedError


class Run:
    """A process of the program. All that it knows dies with it."""

    def __init__(
        self, world: World, observation: Observation, settings: Settings, started: float, on_restart: Restarted
    ) -> None:
        self.world, self.observation, self.settings, self.on_restart = world, observation, settings, on_restart
        self.watch = Watch(observation)
        self.outcome: Outcome | None = None
        self.restarted: dict[tuple[str, int | None], int] = {}
        """By node, with the load that it had: when this run last restarted a plugin there."""
        self.down: dict[str, int] = {}
        """The same by node alone."""
        self.verified: set[tuple[str, str, int]] = set()
        """Plugin pods that this run has verified, with the driver pod and the count of its restarts."""
        self.saw_policy: int | None = None
        """When this run last looked while its watch showed a policy; before that, when it first looked."""
        self.served_at: dict[str, int] = {}
        """By node: when this run last looked while a plugin served there."""
        self.tainted: AbstractSet[Place] = set()
        """Devices that have a taint: those that the last decision wanted."""
        self.knew_everything = False
        """Whether its watches showed what is true when it last looked."""
        self.runs_well: set[str] = set()
        """The nodes whose plugin was provably fresh on a ready driver then."""
        self._began = False
        job = Job(ObjectReference("batch/v1", "Job", "gpu-operator", "hook", "job"), at(started))
        api = cast("Api", WorldApi(self))
        # The model has no claims, for which a run would wait at its end.
        settings = structs.replace(settings, affected_workloads=AffectedWorkloads(enabled=False))
        self._runner = Runner(
            api, WorldCache(self, api), settings, EventRecorder(api, "run", silent=True), job, None, Clock(world)
        )

    @property
    def decision(self) -> Decision | None:
        """Return what was decided last."""
        return self._runner.last

    @property
    def fleet(self) -> Fleet | None:
        """Return the fleet that this was decided about."""
        return self._runner._loop.fleet

    def look(self) -> None:
        """Go once through the program's loop; at the beginning, all that comes before it, too."""
        first, self._began = not self._began, True
        try:
            if first:
                self.outcome = self._runner.run()
            else:
                decision = self._runner._reconcile()
                self.outcome = Outcome(decision, self._runner._exit_code(decision))
        except PausedError:
            return


class Controller(Run):
    """A process of the controller: the same reconcile loop, and no end."""

    def __init__(
        self, world: World, observation: Observation, settings: Settings, started: float, on_restart: Restarted
    ) -> None:
        super().__init__(world, observation, settings, started, on_restart)
        self._rounds = self._runner._loop
        self.last: Decision | None = None
        self.well: dict[str, tuple[int, int | None]] = {}
        """By node: when it said last that all is well there, and under which load."""
        self.tries: dict[str, tuple[int, int, int | None]] = {}
        """By node: how many restarts did not help, when the last one was, and under which load."""

    @property
    def decision(self) -> Decision | None:
        """Return what was decided last."""
        return self.last

    def look(self) -> None:
        """Go once through the loop."""
        seen = self._rounds.observe()
        assert seen is not None
        self.last = self._rounds.decide(seen)
        well = verified_on(self.last)
        machines = self.world.machines
        self.well |= {name: (self.world.now, machines[name].load) for name in well if name in machines}
        self._rounds.act(self.last, 60.0)


def verified_on(decision: Decision) -> set[str]:
    """Return the nodes on which a plugin was verified, also on an outdated driver that is upgraded by hand."""
    return {
        one.node
        for one in decision.statuses
        if one.reason is Reason.VERIFIED or (one.reason is Reason.MANUAL_UPGRADE and one.fresh)
    }


if TYPE_CHECKING:
    Restarted = Callable[[Any, Machine, PluginPod], None]
