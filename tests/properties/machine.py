"""A node with a GPU: the truth of its driver and its plugin, which the API shows only the consequences of.

A driver that is loaded, or whose root is mounted anew, is a *load*: a number that grows. A container of
a plugin holds the load of the moment in which it started; it is stale when the node's load is another one.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from tests.properties.pods import SECOND, DriverPod, Main, Pace, PluginPod, Side

OF_BEFORE: Final = -1
"""The load of a container that took the root of a driver which had ended already."""
RETRY: Final = SECOND
"""Until something that could not happen yet is tried again."""
BACK_OFF: Final = 60 * SECOND
"""Between two starts of a container that cannot work."""
QUIET, FAILED = "upgrade-done", "upgrade-failed"


class Machine:
    """A node: its kernel, its kubelet with a clock of its own, its labels."""

    _loads = count(1)

    def __init__(self, name: str, skew: int, pace: Pace, side: Side = Side.NONE) -> None:
        self.name, self.skew, self.pace, self.probed = name, skew, pace, side is Side.PROBED
        self.load: int | None = None
        self.version = 0
        self.remains = False
        """The root of a driver that ended is still mounted."""
        self.drivers: list[DriverPod] = []
        self.plugins: list[PluginPod] = []
        self.published: int | None = None
        """The driver version in its ResourceSlice, which outlives the plugin that wrote it."""
        self.label, self.labelled, self.skipped = QUIET, True, False
        self.reports, self.reports_since, self.dark_since = True, 0, 0
        self.driver_broken = self.plugin_broken = False
        """No driver can be loaded here; no plugin becomes ready."""
        self.bare_since = 0
        """When it last lost its labels."""
        self.set_back: int | None = None
        """When its clock was last set back."""
        self.changes = 1

    # What is true.

    @property
    def pods(self) -> list[DriverPod | PluginPod]:
        """Everything that runs here."""
        return [*self.drivers, *self.plugins]

    @property
    def works(self) -> bool:
        """Whether something answers a plugin that asks for a driver."""
        return self.load is not None or self.remains

    def stale(self, pod: PluginPod) -> bool:
        """Whether a container of a plugin holds a driver that is gone."""
        return any(main.load is not None and main.load != self.load for main in pod.mains)

    @property
    def serves(self) -> bool:
        """Whether a plugin that is there to stay is ready, on the driver that is loaded."""
        staying = [pod for pod in self.plugins if not pod.deleting]
        return any(pod.ready is not None for pod in staying) and not any(self.stale(pod) for pod in staying)

    @property
    def clock_misled(self) -> bool:
        """Whether its clock was set back between the starts that would have to be compared."""
        if self.set_back is None:
            return False
        began = [pod.began for pod in self.drivers] + [main.began for pod in self.plugins for main in pod.mains]
        waited = [pod.waited_at for pod in self.plugins if pod.waited_at is not None]
        return min((*began, *waited), default=self.set_back) <= self.set_back

    # What happens by itself.

    def next_moment(self) -> int | None:
        """Return when something happens here next. On a node that is lost, nothing does."""
        pods = self.pods if self.reports else ()
        sides = (pod.side_due for pod in self.drivers) if self.reports else ()
        return min((due for due in (*(pod.due for pod in pods), *sides) if due is not None), default=None)

    def act(self, now: int) -> None:
        """Do what is due."""
        for driver in list(self.drivers):
            if driver.due is not None and driver.due <= now:
                driver.changes += self._driver_acts(driver, now)
            if driver.side_due is not None and driver.side_due <= now:
                driver.side_due, driver.changes = None, driver.changes + 1
                self._rises(driver, now)
        for plugin in list(self.plugins):
            if plugin.due is not None and plugin.due <= now:
                plugin.changes += self._plugin_acts(plugin, now)

    def stamp(self, now: int) -> int:
        """Return the second that this node's kubelet writes."""
        return (now + self.skew) // SECOND

    def _driver_acts(self, pod: DriverPod, now: int) -> bool:
        """Let a driver pod go one step on. Says whether that shows."""
        if pod.deleting:
            self.drivers.remove(pod)
        elif pod.unloaded is None and self.drivers[0] is not pod:
            # Next to another driver pod there is no room to unload anything.
            pod.due = now + RETRY
            return False
        elif pod.unloaded is None:
            self.load, self.remains = None, False
            pod.unloaded, pod.due = self.stamp(now), now + self.pace.install
            pod.started, pod.began = self.stamp(now), now
            if pod.side is not None:
                pod.side.started = self.stamp(now)
        elif not pod.loaded:
            self._install(pod, now)
        else:
            pod.noticed, pod.due = True, None
            self._rises(pod, now)
        return True

    def _rises(self, pod: DriverPod, now: int) -> None:
        if pod.noticed and pod.side_due is None and pod.ready is None:
            pod.ready = self.stamp(now)

    def _install(self, pod: DriverPod, now: int) -> None:
        if self.driver_broken:
            pod.failing, pod.due = True, now + BACK_OFF
            pod.restarts, pod.ended, pod.started = pod.restarts + 1, self.stamp(now), None
        elif pod.failing:
            pod.failing, pod.due = False, now + self.pace.install
            pod.started, pod.began = self.stamp(now), now
        else:
            self.load, self.version, self.remains = next(self._loads), pod.version, False
            pod.loaded, pod.due = True, now + self.pace.notice

    def _plugin_acts(self, pod: PluginPod, now: int) -> bool:
        """Let a plugin's pod go one step on. Says whether that shows."""
        if pod.deleting:
            self.plugins.remove(pod)
        elif pod.waited is None and not self.works:
            pod.due = now + self.pace.poll
            return False
        elif pod.waited is None:
            pod.waited, pod.waited_at, pod.due = self.stamp(now), now, now + self.pace.begin
        elif not pod.running:
            for main in pod.mains:
                self._start(main, now)
            pod.due = now + (self.pace.rises if pod.running else RETRY)
        elif self.plugin_broken:
            pod.due = now + RETRY
            return False
        else:
            pod.ready, pod.ever_ready, pod.due = self.stamp(now), True, None
            self.published = pod.mains[1].version
        return True

    def _start(self, main: Main, now: int) -> None:
        """Start a container, which takes the driver that it finds, or ends at once."""
        if main.started is not None:
            return
        if not self.works:
            main.restarts, main.ended = main.restarts + 1, self.stamp(now)
            return
        main.started, main.began, main.version = self.stamp(now), now, self.version
        main.load = OF_BEFORE if self.load is None else self.load

    # Accidents.

    def reboots(self, now: int) -> None:
        """Run every container anew, in the same pods."""
        self.load, self.remains = None, False
        for driver in self.drivers:
            if driver.started is not None:
                driver.ended, driver.restarts = self.stamp(now), driver.restarts + 1
            driver.unloaded = driver.started = driver.ready = driver.side_due = None
            driver.loaded = driver.failing = driver.noticed = False
            if driver.side is not None:
                self._end(driver.side, now)
            driver.due, driver.changes = now + self.pace.unload, driver.changes + 1
        for plugin in self.plugins:
            for main in plugin.mains:
                self._end(main, now)
            plugin.waited = plugin.waited_at = plugin.ready = None
            plugin.due, plugin.changes = now + self.pace.poll, plugin.changes + 1

    def driver_crashes(self, now: int) -> None:
        """Start the driver container anew in its pod: no init container runs, the old root may still be there."""
        for pod in self.drivers:
            if pod.loaded and not pod.deleting:
                pod.ended, pod.restarts, pod.changes = self.stamp(now), pod.restarts + 1, pod.changes + 1
                pod.started, pod.began, pod.loaded, pod.ready = self.stamp(now), now, False, None
                pod.noticed = False
                pod.due = now + self.pace.install
                self.load, self.remains = None, True

    def side_crashes(self, now: int, how: int) -> None:
        """Restart the side container of the driver pod, while the driver container runs on."""
        # Without a readiness probe the kubelet may never see it down.
        for pod in self.drivers:
            if pod.side is not None and pod.side.started is not None and not pod.deleting:
                self._end(pod.side, now)
                pod.side.started, pod.changes = self.stamp(now), pod.changes + 1
                if self.probed or how % 2:
                    pod.ready, pod.side_due = None, now + self.pace.rises

    def plugin_crashes(self, now: int, which: int) -> None:
        """End one container of a plugin, or each of them; the kubelet starts it anew in place."""
        for pod in self.plugins:
            if pod.running and not pod.deleting:
                for main in pod.mains if which % 3 == 0 else pod.mains[which % 3 - 1 :][:1]:
                    self._end(main, now)
                pod.ready, pod.due, pod.changes = None, now + self.pace.begin, pod.changes + 1

    def _end(self, main: Main, now: int) -> None:
        if main.started is not None:
            main.ended, main.restarts = self.stamp(now), main.restarts + 1
        main.started = main.load = None

    def goes_dark(self, now: int) -> None:
        """Lose the kubelet; the node controller marks the node and its pods."""
        if self.reports:
            self.reports, self.reports_since, self.dark_since = False, now // SECOND, now
            self._changed()

    def comes_back(self, now: int) -> None:
        """Let the kubelet report again: nothing restarted, but what was due is late."""
        if not self.reports:
            self.reports, self.reports_since = True, self.stamp(now)
            for pod in self.pods:
                pod.due = None if pod.due is None else max(pod.due, now + 1)
            for driver in self.drivers:
                driver.side_due = None if driver.side_due is None else max(driver.side_due, now + 1)
            self._changed()

    def labels_vanish(self, now: int) -> None:
        """Lose its labels, or get them back."""
        self.labelled, self.changes, self.bare_since = not self.labelled, self.changes + 1, now

    def is_skipped(self) -> None:
        """Get the label that excludes it, or lose it."""
        self.skipped, self.changes = not self.skipped, self.changes + 1

    def clock_jumps(self, now: int, tenths: int) -> None:
        """Set its clock, forward or back."""
        self.skew += tenths
        self.set_back = now if tenths < 0 else self.set_back

    def times_move(self, now: int) -> None:
        """Report other times of a driver that keeps running, as a kubelet or an API server that errs."""
        for pod in self.drivers:
            if pod.ready is not None and not pod.deleting:
                pod.started = pod.ready = self.stamp(now)
                pod.changes += 1

    def _changed(self) -> None:
        self.changes += 1
        for pod in self.pods:
            pod.changes += 1
