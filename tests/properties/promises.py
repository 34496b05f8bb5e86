"""The program's promises, held to the truth of a world.

(a) When it reports Done, no plugin is stale, every node is refreshed, and no second render is to come.
(b) It restarts no plugin whose node is not settled, none that is provably fresh, and under one load of the driver none
    twice, and none that it has verified.
(c) It ends in time, with the exit code and the reason that fit what is true.
(f) Device taints: no decision leaves a stale plugin to new claims, and none begins to taint what runs well.

What is provable, and what is excluded, is written down here a second time, in the world's own terms.
"""

from __future__ import annotations

from typing import Final

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, NodeStatus, Phase, headline
from hook.decide.run import deadline as due_at
from hook.decide.taints import wanted
from hook.objects import Snapshot
from hook.objects.stacks import GPU_OPERATOR
from hook.objects.taints import Place
from hook.run import report
from hook.run.job import Outcome
from tests.fixtures.objects import at
from tests.properties.machine import FAILED, QUIET, Machine
from tests.properties.observation import moment_of
from tests.properties.pods import SECOND, DriverPod, PluginPod
from tests.properties.program import Run, verified_on
from tests.properties.world import World

LOST_AFTER: Final = 300 * SECOND
"""A node that is lost for so long is excluded (``Settings.node_timeout``)."""
CALM: Final = 200 * SECOND
"""Everything that is waited for on a cluster at rest: quiet times, a plugin that came back, a policy's report."""
TROUBLE: Final = CALM + (300 + 300 + 300) * SECOND
"""On top: a plugin that does not come up, others that do not move meanwhile, a node that is lost meanwhile."""
EXIT_CODES: Final = {Phase.DONE: 0, Phase.SKIP: 0, Phase.FAIL: 3, Phase.DEADLINE: 124}


class BrokenPromiseError(AssertionError):
    """The program did what it never may."""


class DoneTooEarlyError(BrokenPromiseError):
    """Promise (a)."""


class WrongRestartError(BrokenPromiseError):
    """Promise (b)."""


class WrongTaintError(BrokenPromiseError):
    """Promise (f)."""


class WrongEndError(BrokenPromiseError):
    """Promise (c)."""


# (a) Done.


def done(world: World) -> None:
    """Hold *done* to what is true at the moment of the second read."""
    if world.to_be_rendered:
        raise DoneTooEarlyError(f"done, but the operator renders {world.wanted} yet")
    for machine in world.machines.values():
        if excluded(world, machine):
            continue
        if any(world_stale(machine)):
            raise DoneTooEarlyError(f"done, but the plugin on {machine.name} is stale")
        if not machine.labelled:
            continue  # No plugin holds a driver there, and nothing shows that there is a GPU.
        if not world.at_work(machine):
            raise DoneTooEarlyError(f"done, but {machine.name} is about to be reloaded")
        if not machine.serves:
            raise DoneTooEarlyError(f"done, but no plugin serves {machine.name}")


def skipped(run: Run) -> None:
    """Hold *nothing to protect* to what is true: no node shows a GPU, by a label, a driver or a running plugin."""
    # Where the policy is gone, no driver is left, or none came back within the grace and nothing is stale.
    world = run.world
    if world.policy is None:
        _without_policy(run)
        return
    for machine in world.machines.values():
        holds_driver = any(main.load is not None for pod in machine.plugins for main in pod.mains)
        if machine.labelled or machine.drivers or holds_driver:
            raise DoneTooEarlyError(f"skipped, but {machine.name} is to be served")


def _without_policy(run: Run) -> None:
    machines = [one for one in run.world.machines.values() if any(not pod.deleting for pod in one.drivers)]
    gone = run.world.now - (run.saw_policy or 0)
    if machines and gone < run.settings.advanced.policy_grace.total_seconds() * SECOND:
        raise DoneTooEarlyError(f"skipped {gone} tenths after the policy was gone, with drivers in place")
    for machine in machines:
        if run.world.settled(machine) and not excluded(run.world, machine) and world_stale(machine):
            raise DoneTooEarlyError(f"skipped without a policy, but the plugin on {machine.name} is stale")


def world_stale(machine: Machine) -> list[PluginPod]:
    """List the plugins of a node that are there to stay, and hold a driver that is gone."""
    return [pod for pod in machine.plugins if not pod.deleting and machine.stale(pod)]


def excluded(world: World, machine: Machine) -> bool:
    """Whether a node is not promised anything: skipped, lost or without a GPU for long, its clock set back."""
    lost = not machine.reports and world.now - machine.dark_since >= LOST_AFTER - SECOND
    without = not machine.labelled and not machine.drivers
    bare = without and world.now - machine.bare_since >= LOST_AFTER - SECOND
    return (machine.labelled and machine.skipped) or lost or bare or machine.clock_misled


# (b) Restarts.


def restart(run: Run, machine: Machine, pod: PluginPod) -> None:
    """Hold a restart to what is true in its moment; to what was known, where the watches of drivers are behind."""
    if not run.watch.knows_the_drivers:
        if not seemed_settled(run.watch.snapshot(), machine.name):
            raise WrongRestartError(f"{pod.uid} restarted although {machine.name} did not even seem settled")
        return
    if not run.world.at_work(machine):
        raise WrongRestartError(f"{pod.uid} restarted while {machine.name} is not settled")
    if machine.skipped and machine.labelled:
        raise WrongRestartError(f"{pod.uid} restarted although {machine.name} is excluded")
    if not machine.stale(pod) and provably_fresh(machine, pod) and not machine.clock_misled:
        raise WrongRestartError(f"{pod.uid} restarted although it is provably fresh")
    _is_the_first(run, machine, pod)
    limit = run.settings.max_parallel_restarts
    ours = {name for name, when in run.down.items() if when > run.world.plugin_set.made} - {machine.name}
    down = [one for one in run.world.machines.values() if one.name in ours and _still_down(run.world, one)]
    patience = run.settings.plugin_timeout.total_seconds() * SECOND
    back = min(1, sum(run.world.now - run.down[one.name] >= patience for one in down))
    if limit and len(down) - back >= limit:
        raise WrongRestartError(f"{pod.uid} restarted while {down[0].name} is down already, with at most {limit}")
    run.down[machine.name] = run.world.now
    if pod.owner:  # No pod comes in the place of an orphan: the DaemonSet has its own already, or makes it anyway.
        run.restarted[machine.name, machine.load] = run.world.now


def _is_the_first(run: Run, machine: Machine, pod: PluginPod) -> None:
    """Ask that no pod is restarted which came of a restart under this load, or was verified under it."""
    before = run.restarted.get((machine.name, machine.load))
    if before is not None and before < pod.born and before > run.world.plugin_set.made:
        raise WrongRestartError(f"{pod.uid} restarted once more under the same driver")
    drivers = [one for one in machine.drivers if (pod.uid, one.uid, one.restarts) in run.verified]
    if drivers:
        raise WrongRestartError(f"{pod.uid} restarted although it was verified under this run of {drivers[0].uid}")


def looks(run: Run) -> None:
    """Note what a run is about to see."""
    if run.watch.held["policies"] or run.saw_policy is None:
        run.saw_policy = run.world.now
    run.knew_everything = run.watch.knows_everything
    run.runs_well = {one.name for one in run.world.machines.values() if _runs_well(one)}


def looked(run: Run) -> None:
    """Note what a run has verified, where all that it knew was true."""
    found = verified_on(run.decision) if run.decision is not None else set()
    verified: set[tuple[str, str, int]] = set()
    for machine in (run.world.machines[name] for name in found if name in run.world.machines):
        drivers = [pod for pod in machine.drivers if not pod.deleting]
        plugins = [pod for pod in machine.plugins if not pod.deleting and not machine.stale(pod)]
        verified |= {(pod.uid, one.uid, one.restarts) for pod in plugins for one in drivers}
    if not verified <= run.verified and run.watch.knows_everything:
        run.verified |= verified


# (f) Device taints.


def tainted(run: Run) -> str:
    """Write the taints that a decision wants. Return what is wrong with them, where everything was known; or ""."""
    fleet, decision = run.fleet, run.decision
    if fleet is None or decision is None:
        return ""
    before, run.tainted = run.tainted, wanted(decision, fleet, run.tainted).keys()
    if not run.knew_everything or decision.phase is Phase.SKIP:
        return ""
    for machine in run.world.machines.values():
        place = Place("gpu.nvidia.com", machine.name)
        if not machine.labelled or not machine.reports or excluded(run.world, machine):
            continue
        if place not in run.tainted and world_stale(machine):
            return f"new claims meet the stale plugin of {machine.name}"
        if place in run.tainted - before and machine.name in run.runs_well:
            return f"{machine.name} is tainted although its plugin runs on the driver that is loaded"
    return ""


def _runs_well(machine: Machine) -> bool:
    drivers = [pod for pod in machine.drivers if not pod.deleting]
    ready = len(drivers) == 1 and drivers[0].ready is not None
    plugins = [pod for pod in machine.plugins if not pod.deleting]
    return ready and all(provably_fresh(machine, pod) for pod in plugins) and not machine.clock_misled


def seemed_settled(seen: Snapshot, node: str) -> bool:
    """Whether one live driver pod was seen, ready, of the newest revision of a DaemonSet that shows the intent."""
    pods = [pod for pod in seen.driver_pods if pod.node == node and not pod.deleting]
    owners = [one for one in seen.daemonsets if pods and one.uid == pods[0].owner_uid]
    revisions = [one for one in seen.revisions if owners and one.owner_uid == owners[0].uid]
    if len(pods) != 1 or not pods[0].ready or not owners or not revisions:
        return False
    newest = max(revisions, key=lambda one: one.revision)
    kept = bool(seen.policies and seen.policies[0].manual) and not owners[0].rolling
    if pods[0].hash != newest.hash:
        return kept
    version = f":{seen.policies[0].driver.version}-" if seen.policies else ""
    shown = any(version in image for image in owners[0].images.values())
    return owners[0].observed and shown


def _still_down(world: World, machine: Machine) -> bool:
    back = any(pod.ready is not None and not pod.deleting for pod in machine.plugins) or bool(world_stale(machine))
    return not back and machine.reports and machine.labelled and not machine.skipped and world.settled(machine)


def provably_fresh(machine: Machine, plugin: PluginPod) -> bool:
    """Whether whole seconds prove that a plugin started on the driver that is loaded; all else is doubt."""
    drivers = [pod for pod in machine.drivers if not pod.deleting]
    if len(drivers) != 1 or not plugin.running:
        return False
    driver = drivers[0]
    first = min(main.started for main in plugin.mains if main.started is not None)
    return _by_start_up(driver, plugin) or (driver.ready is not None and first > driver.ready)


def _by_start_up(driver: DriverPod, plugin: PluginPod) -> bool:
    if driver.started is None or driver.unloaded is None or plugin.waited is None:
        return False
    nothing_old = driver.restarts == 0 if driver.ended is None else driver.unloaded > driver.ended
    return plugin.waited > driver.started and nothing_old


# (c) The end.


def still_going(run: Run, started: float) -> None:
    """Assert that a run that continues has time left."""
    deadline = due_at(run.settings, at(started))
    if run.outcome is None and at(moment_of(run.world)) >= deadline:
        raise WrongEndError("it continues although its time is up")


def ending(run: Run, outcome: Outcome, started: float) -> None:
    """Hold an end to what is true: its verdict, its exit code, and its messages."""
    decision, world = outcome.decision, run.world
    if outcome.exit_code != EXIT_CODES.get(decision.phase):
        raise WrongEndError(f"{decision.phase} ends with exit code {outcome.exit_code}")
    if not (decision.reason and decision.message and headline(decision)):
        raise WrongEndError(f"{decision.phase} without a reason")
    if decision.unhappy and not report.advice(decision, GPU_OPERATOR):
        raise WrongEndError(f"{decision.phase} has no advice")
    if decision.phase is Phase.DONE:
        done(world)
    elif decision.phase is Phase.SKIP:
        skipped(run)
    elif decision.phase is Phase.DEADLINE and at(moment_of(world)) < due_at(run.settings, at(started)):
        raise WrongEndError(f"{decision.reason} said before the time was up")
    elif decision.phase is Phase.FAIL:
        _failed(run, [judged for judged in decision.statuses if judged.state is NodeState.FAILED])


def _failed(run: Run, failed: list[NodeStatus]) -> None:
    """Hold a failure to what is true: manual action is needed, and all others were refreshed first."""
    for judged in failed:
        if not _needs_a_person(run, judged):
            raise WrongEndError(f"failed without need on {judged.node}: {judged.reason} ({judged.message})")
    if run.settings.max_parallel_restarts and len(never_back(run.world)) > 1:
        return  # One plugin that stays down gives its place back; several may keep all others waiting.
    others = [one for one in run.world.machines.values() if one.name not in {judged.node for judged in failed}]
    for machine in others:
        if machine.labelled and not excluded(run.world, machine) and _to_be_served(run.world, machine):
            raise WrongEndError(f"failed, but {machine.name} was about to be served")


def never_back(world: World) -> list[Machine]:
    """List the nodes on which no plugin becomes ready."""
    return [one for one in world.machines.values() if one.plugin_broken]


def _to_be_served(world: World, machine: Machine) -> bool:
    """Whether a stale plugin waits for nothing, or for a driver that is on its way."""
    if not machine.reports or machine.driver_broken or len(machine.drivers) != 1 or world.to_be_rendered:
        return False
    driver = machine.drivers[0]
    current = not driver.deleting and driver.template == world.newest and not driver.failing
    return current and (driver.ready is None or any(world_stale(machine)))


def _needs_a_person(run: Run, judged: NodeStatus) -> bool:
    """Return whether a node has been in trouble for longer than the patience with it."""
    machine, settings = run.world.machines[judged.node], run.settings
    if judged.reason is Reason.UPGRADE_FAILED:
        return machine.label == FAILED
    if judged.reason is Reason.DRIVER_FAILING:
        return any(pod.failing or pod.restarts for pod in machine.drivers)
    unserved = run.world.now - run.served_at.get(machine.name, 0)
    return unserved >= settings.plugin_timeout.total_seconds() * SECOND and judged.patience is None


def calm(world: World) -> bool:
    """Return whether nothing is left to do, apart from excluded nodes."""
    # Where a whole fleet of several nodes lost its labels, node-feature-discovery is down, and the run waits for it.
    if len(world.machines) > 1 and not any(one.labelled for one in world.machines.values()):
        return False
    machines = [one for one in world.machines.values() if not excluded(world, one)]
    ready = all(pod.ready is not None for one in machines for pod in one.drivers)
    at_rest = (world.at_work(one) and one.serves and one.label == QUIET for one in machines)
    return not world.to_be_rendered and ready and all(at_rest)


def came_to_rest(run: Run, outcome: Outcome, started: float, since: int, calm_since: int | None) -> None:
    """Hold the end of a run in a cluster at rest: what can be done was done, and trouble was reported as such."""
    deadline = due_at(run.settings, at(started))
    if outcome.decision.phase is not Phase.DEADLINE or any(one.set_back for one in run.world.machines.values()):
        return  # A driver that became ready before it started, by its clock, is waited for.
    if calm_since is not None and at((calm_since + CALM) / SECOND) < deadline:
        raise WrongEndError(f"time up although all was done: {outcome.decision.message}")
    machines = [one for one in run.world.machines.values() if one.labelled and not excluded(run.world, one)]
    several = run.settings.max_parallel_restarts and len(never_back(run.world)) > 1
    stale = [one for one in machines if run.world.settled(one) and world_stale(one) and not several]
    if stale and at((since + TROUBLE) / SECOND) < deadline:
        raise WrongEndError(f"time up although the plugin on {stale[0].name} is stale: {outcome.decision.message}")
    broken = [one for one in machines if one.plugin_broken and not one.serves]
    if broken and at((since + TROUBLE) / SECOND) < deadline:
        raise WrongEndError(f"time up although {broken[0].name} needs manual action: {outcome.decision.message}")
