"""The promises of the controller, held to the truth of a world.

Those of any restart, in ``promises.py``, hold as well.

(d) Restarts that do not make a plugin well come ever more seldom, and none takes down more than may be down.
(e) Whatever is stale is refreshed in the end, unless manual action is required; success is only reported when true.
"""

from __future__ import annotations

from hook.decide.result import Phase
from tests.properties import promises
from tests.properties.machine import Machine
from tests.properties.pods import SECOND, PluginPod
from tests.properties.program import Controller
from tests.properties.promises import WrongEndError, WrongRestartError, WrongTaintError


def patience(run: Controller) -> int:
    """Return how long a cluster at rest may take until nothing is stale: pause, restart, policy's report."""
    settings = run.settings
    pauses = settings.advanced.restart_backoff_max + settings.plugin_timeout + settings.advanced.policy_grace
    return int(pauses.total_seconds()) * SECOND + promises.CALM


# (d) Restarts.


def restart(run: Controller, machine: Machine, pod: PluginPod) -> None:
    """Hold a restart to what is true in its moment, and to those before it."""
    promises.restart(run, machine, pod)
    _is_not_too_soon(run, machine, pod)
    _leaves_enough(run, machine, pod)


def _counts(run: Controller, machine: Machine) -> bool:
    seen = machine.labelled and machine.reports and run.world.settled(machine)
    return seen and not promises.excluded(run.world, machine)


def _is_not_too_soon(run: Controller, machine: Machine, pod: PluginPod) -> None:
    """Ask for the pause since the last restart, unless a plugin was well since and the driver is another one."""
    now, before = run.world.now, run.tries.get(machine.name)
    if not run.watch.knows_the_drivers:
        run.tries.pop(machine.name, None)
        return
    if not pod.owner or (before is not None and pod.born <= before[1]):
        return  # It runs next to another one, or ran next to the one that was restarted then.
    run.tries[machine.name] = (1, now, machine.load)
    if before is None or before[1] <= run.world.plugin_set.made:
        return  # Under another DaemonSet the pauses begin anew.
    count, when, load = before
    if run.well.get(machine.name, (-1, None))[0] > when and load != machine.load:
        return
    settings = run.settings
    pause = min(settings.advanced.restart_backoff * 2 ** (count - 1), settings.advanced.restart_backoff_max)
    if now - when < pause.total_seconds() * SECOND:
        raise WrongRestartError(f"{pod.uid} restarted {now - when} tenths after the last try, the {count}th")
    run.tries[machine.name] = (count + 1, now, machine.load)


def _leaves_enough(run: Controller, machine: Machine, pod: PluginPod) -> None:
    """Ask that no more are down than may be, by what is true and was seen: a plugin that serves needs a place."""
    bound = run.settings.controller.max_unavailable if run.settings.is_controller else None
    if bound is None or bound.percent or pod.ready is None:
        return
    seen = {one.node for one in run.watch.snapshot().plugin_pods if one.live and one.ready} - run.down.keys()
    others = [one for one in run.world.machines.values() if one is not machine and one.name not in seen]
    down = [one for one in others if _counts(run, one) and not any(_serves(pod) for pod in one.plugins)]
    if len(down) >= bound.value:
        raise WrongRestartError(f"{pod.uid} restarted while {len(down)} are down already, with at most {bound}")


def _serves(pod: PluginPod) -> bool:
    return pod.ready is not None and not pod.deleting


# (e) Verdicts, and the end.


def looked(run: Controller) -> None:
    """Hold what is said of the moment to it, where everything was known."""
    if run.last is None or not run.watch.knows_everything:
        return
    if run.last.phase is Phase.DONE:
        promises.done(run.world)
    elif run.last.phase is Phase.SKIP:
        promises.skipped(run)
    elif run.last.phase is Phase.DEADLINE:
        raise WrongEndError("a run that never ends has no deadline")


def content(run: Controller) -> bool:
    """Whether there is nothing left to wait for."""
    return run.last is not None and run.last.phase is Phase.DONE and promises.calm(run.world)


def came_to_rest(run: Controller, *, repaired: bool) -> None:
    """Hold the end of a history to what can be: all is refreshed, and reported so."""
    if content(run) and run.tainted:
        raise WrongTaintError(f"at rest, but there are taints on {run.tainted}")
    if content(run) or any(one.set_back for one in run.world.machines.values()):
        return  # A driver that became ready before it started, by its clock, is waited for.
    if repaired:
        raise WrongEndError(f"not done after all that time: {run.last}")
    several = run.settings.max_parallel_restarts and len(promises.never_back(run.world)) > 1
    if several or not run.settings.controller.max_unavailable.percent:
        return  # Plugins that stay down keep all others waiting.
    for machine in run.world.machines.values():
        if _counts(run, machine) and promises.world_stale(machine):
            raise WrongEndError(f"{machine.name} was never refreshed, although no manual action is required")
