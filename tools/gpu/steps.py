"""The steps: what NVIDIA's plugin and this program do on this machine's driver, and on one that does not match.

    python -m tools.gpu.steps FOLDER --bundle FOLDER [--mock]

`tools/gpu/run` calls it. The exit code says how many steps failed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from devcluster.boot import etcd
from devcluster.boot.layout import CHECKOUT
from tools.gpu import container, driverroot, objects
from tools.gpu.plane import MERGE, Plane
from tools.gpu.plugin import Place, Plugin
from tools.gpu.record import Record, Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.gpu.driverroot import Root

SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PLUGIN_PODS: Final = f"/api/v1/namespaces/{objects.DRA}/pods"
DRIVER_POD: Final = f"/api/v1/namespaces/{objects.OPERATOR}/pods/{objects.DRIVER_POD}"
POLICIES: Final = "/apis/nvidia.com/v1/clusterpolicies"
DEFINITION: Final = CHECKOUT / "devcluster/charts/gpu-operator/crds/clusterpolicies.yaml"
MOCK_VERSION, OTHER_MOCK_VERSION = "580.126.20", "580.105.08"
START_SECONDS: Final = 30.0
"""For a plugin to publish its devices, or to end."""
RUN_SECONDS: Final = 100.0
LOOK_SECONDS: Final = 5.0
"""How long a plugin that publishes nothing is looked at."""


class Run:
    """All steps on one machine. Later ones use what earlier ones set up."""

    def __init__(self, work: Path, bundle: Path, *, mock: bool) -> None:
        self._work, self._bundle, self._mock = work, bundle, mock
        self._plane = Plane(work / "plane", bundle / "bin")
        self._mounted = driverroot.Mounted(work / "nvidia", mock=mock)
        self._place = Place(bundle / "bin", work, self._mounted, self._plane.kubeconfig)
        self._plugin: Plugin | None = None
        self._real: Root | None = None
        self._other: Root | None = None
        self._driver = objects.Span(time.time(), time.time())
        self._claims = 0

    def machine(self, report: Report) -> str:
        """Step 1: the machine, its driver, and roots of this driver and of another one."""
        for command in ("uname -a", "cat /etc/os-release", "cat /proc/driver/nvidia/version", "ldconfig -p"):
            report.run(*command.split())
        report.run("sh", "-c", "ls -l /dev/nvidia* /dev/nvidia-caps; cat /proc/devices; grep -i nvidia /proc/modules")
        report.run("sh", "-c", "grep -iE 'nvidia|cuda' /proc/mounts; ls -l /usr/local/nvidia /usr/local/nvidia/*")
        report.run("sh", "-c", "for each in kubelet containerd runc crun nvidia-ctk; do command -v $each; done")
        began = time.time()
        if self._mock:
            self._real = driverroot.of_mock(self._work / "root", MOCK_VERSION)
            self._other = driverroot.of_mock(self._work / "other", OTHER_MOCK_VERSION)
            driverroot.load_mock((self._real, self._other), MOCK_VERSION)
        else:
            began = _booted()
            report.run("nvidia-smi", seconds=60)
            report.run("nvidia-smi", "-q", seconds=60)
            self._real = driverroot.of_this_machine(self._work / "root")
            self._other = driverroot.of_files(self._work / "other", self._bundle / "other")
        self._driver = objects.Span(began, time.time())
        self._mounted.show(self._real)
        report.run("find", str(self._mounted.path), "-xdev", "-ls")
        return f"driver {self._real.version}; the other libraries are of {self._other.version}"

    def published(self, report: Report) -> str:
        """Step 2: NVIDIA's plugin on this driver, and the ResourceSlice that it publishes."""
        version = self._root().version
        self._plane.state.private.mkdir(parents=True)
        self._plane.boot()
        for name in objects.NAMESPACES:
            self._plane.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self._plane.define(DEFINITION)
        policy = self._plane.ask("POST", POLICIES, objects.policy(version))
        status = {"status": {"namespace": objects.OPERATOR, "state": "ready"}}
        self._plane.ask("PATCH", f"{POLICIES}/{objects.POLICY}/status", status, MERGE)
        etcd.put(self._plane.state, objects.base(version, self._driver, policy["metadata"]["uid"]))
        self._start(report, "plugin-1")
        report.note("ResourceSlices", _spelled(self._slices()))
        return f"the ResourceSlice names {', '.join(self._versions()) or 'no version'}"

    def claim(self, report: Report) -> str:
        """Step 3: a claim is prepared and unprepared."""
        return self._prepare(report, self._running(), "a claim")

    def program(self, report: Report) -> str:
        """Step 4: `status` and `run`; then the driver's container restarts, and `run` restarts the plugin."""
        self._hook(report, "status")
        self._hook(report, "status", "-o", "json")
        first = self._hook(report, "run", "--timeout", "90s")  # it waits 60 s for the operator to settle
        restarted = objects.Span(time.time(), time.time() + 1)
        self._plane.ask("DELETE", DRIVER_POD, {"gracePeriodSeconds": 0})
        etcd.put(self._plane.state, [objects.driver_pod(restarted, restarts=1)])
        time.sleep(2)  # the times of objects have no fractions of a second
        self._hook(report, "status")
        second = self._refresh(report)
        self._hook(report, "status")
        report.note("ResourceSlices", _spelled(self._slices()))
        report.note("Events", _spelled(self._plane.items("/api/v1/events")))
        return f"run ended with {first}; after a restart of the driver's container with {second}"

    def _refresh(self, report: Report) -> int:
        """Let `run` delete the plugin's pod, do what its kubelet and its DaemonSet do, and return the exit code."""
        command = self._command("run", "--timeout", "80s")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            _wait(lambda: self._deleted() or process.poll() is not None, START_SECONDS)
            deleted = self._deleted()
            if deleted:
                self._stop()
                for name in deleted:
                    self._plane.ask("DELETE", f"{PLUGIN_PODS}/{name}", {"gracePeriodSeconds": 0})
                self._start(report, "plugin-2")
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
        report.note(f"{' '.join(command[1:])} (exit code {process.returncode})", said)
        return process.returncode

    def mismatch(self, report: Report) -> str:
        """Step 5: NVIDIA's plugin and its start-up script where the libraries do not match the module."""
        self._stop()
        self._mounted.show(self._root())
        _, right, said = self._place.check()
        report.note(f"NVIDIA's start-up script on the matching libraries (exit code {right})", said)
        self._mounted.show(self._others())
        _, wrong, said = self._place.check()
        report.note(f"NVIDIA's start-up script on the other libraries (exit code {wrong}; -9: it went on)", said)
        smi, library = (
            self._mounted.path / "usr/bin/nvidia-smi",
            self._mounted.path / driverroot.LIBRARIES / "libnvidia-ml.so.1",
        )
        report.run("env", f"LD_PRELOAD={library}", str(smi))
        for each in self._slices():
            self._plane.ask("DELETE", f"{SLICES}/{each['metadata']['name']}")
        self._plugin = plugin = Plugin(self._place)
        ended = _wait(lambda: plugin.ended is not None or self._versions(), START_SECONDS)
        time.sleep(0 if ended else LOOK_SECONDS)
        report.note("The plugin's exit code (none: it runs)", str(plugin.ended))
        report.note("Its log", plugin.log.read_text(errors="replace"))
        report.note("Its socket", str(plugin.socket.exists()))
        report.note("Its ResourceSlices", _spelled(self._slices()))
        self._stop()
        return f"exit codes: script {right} and {wrong}, plugin {plugin.ended}"

    def replaced(self, report: Report) -> str:
        """Step 6: a plugin whose root is replaced below it, with and without a claim before."""
        found = []
        cases = (("another driver's", self._others(), False), ("another driver's", self._others(), True))
        for whose, root, warm in (*cases, ("the same driver's", self._root(), False)):
            case = f"{whose} root, {'after a claim' if warm else 'no claim before'}"
            self._mounted.show(self._root())
            plugin = self._start(report, None)
            if warm:
                self._prepare(report, plugin, f"{case}: before")
            self._mounted.show(root)
            report.note(f"{case}: what the plugin sees", plugin.sees("ls", "-lR", "/driver-root/dev"))
            report.note(f"{case}: what the node sees", _listed(self._mounted.path / "usr"))
            found.append(f"{case}: {self._prepare(report, plugin, case)}")
            report.note(f"{case}: the ResourceSlices", ", ".join(self._versions()))
            report.note(f"{case}: the plugin's log", plugin.log.read_text(errors="replace"))
            self._stop()
        return "; ".join(found)

    def pod(self, report: Report) -> str:
        """Step 7: whether a kubelet and containerd run here. No pod with a claim was written for them yet."""
        runs = {name: bool(_pids(name)) for name in ("kubelet", "containerd")}
        report.note("Processes of this machine", _spelled(runs))
        if not all(runs.values()):
            return "skipped: no kubelet with containerd runs on this machine"
        return "not done: a kubelet runs here, and no pod with a claim was started on it"

    def close(self) -> None:
        """End what runs and take the roots away."""
        self._stop()
        self._plane.end()
        self._mounted.close()

    def _start(self, report: Report, pod: str | None) -> Plugin:
        """Start the plugin as its pod does: first the check of the driver. Wait until it publishes its devices."""
        check, code, said = self._place.check()
        report.note(f"NVIDIA's start-up script (exit code {code})", said)
        if code != 0:
            raise RuntimeError(f"NVIDIA's start-up script ended with {code}")
        self._plugin = plugin = Plugin(self._place)
        _wait(lambda: plugin.ended is not None or (plugin.serves and bool(self._slices())), START_SECONDS)
        if plugin.ended is not None or not self._slices():
            report.note("The plugin's log", plugin.log.read_text(errors="replace"))
            raise RuntimeError(f"the plugin published nothing; exit code: {plugin.ended}")
        report.note("The plugin's registration", plugin.info())
        ready = objects.Span(plugin.began, time.time())
        if pod is not None:
            etcd.put(self._plane.state, [objects.plugin_pod(pod, check, ready)])
            report.note("The plugin's log", plugin.log.read_text(errors="replace"))
        return plugin

    def _prepare(self, report: Report, plugin: Plugin, case: str) -> str:
        """Allocate a claim by hand, have it prepared and unprepared, and say what came of it."""
        self._claims += 1
        name = f"claim-{self._claims}"
        uid = self._plane.ask("POST", CLAIMS, objects.claim(name))["metadata"]["uid"]
        device = self._slices()[0]["spec"]["devices"][0]["name"]
        self._plane.ask("PATCH", f"{CLAIMS}/{name}/status", objects.allocation(device), MERGE)
        report.note(f"{case}: prepare", plugin.prepare(name, uid))
        file = plugin.specification(uid)
        written = file.read_text() if file.exists() else ""
        report.note(f"{case}: CDI specification", written or "none")
        paths = sorted({line.partition("hostPath: ")[2] for line in written.splitlines() if "hostPath: " in line})
        missing = [path for path in paths if not Path(path).exists()]
        report.note(f"{case}: host paths that do not exist", "\n".join(missing) or "none")
        smi = self._contained(report, file, case) if written else ""
        report.note(f"{case}: unprepare", plugin.unprepare(name, uid))
        report.note(f"{case}: CDI specification afterwards", "still there" if file.exists() else "removed")
        if not written:
            return "not prepared"
        return f"prepared, {len(paths)} host paths, {len(missing)} of them missing, nvidia-smi: {smi}"

    def _contained(self, report: Report, specification: Path, case: str) -> str:
        """Run `nvidia-smi` with what the specification injects, and return its exit code."""
        module = {"/run/nvidia/module-version": str(self._mounted.path / "run/nvidia/module-version")}
        root = self._work / f"container-{self._claims}"
        code, said = container.run(root, specification, module if self._mock else {}, "nvidia-smi")
        report.note(f"{case}: nvidia-smi in a container by hand (exit code {code})", said)
        return str(code)

    def _hook(self, report: Report, *words: str) -> int:
        """Run this program, and return its exit code."""
        command = self._command(*words)
        ended = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=RUN_SECONDS, check=False
        )
        report.note(f"{' '.join(command[1:])} (exit code {ended.returncode})", ended.stdout)
        return ended.returncode

    def _command(self, word: str, *words: str) -> list[str]:
        return [sys.executable, "-m", "hook", word, "--kubeconfig", str(self._plane.kubeconfig), *words]

    def _slices(self) -> list[Any]:
        return self._plane.items(SLICES)

    def _versions(self) -> list[str]:
        devices = [device for each in self._slices() for device in each["spec"].get("devices", [])]
        return sorted(
            {
                each["attributes"]["driverVersion"]["version"]
                for each in devices
                if "driverVersion" in each["attributes"]
            }
        )

    def _deleted(self) -> list[str]:
        """Name the pods of the plugin that are being deleted."""
        pods = self._plane.items(PLUGIN_PODS)
        return [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]]

    def _running(self) -> Plugin:
        if self._plugin is None or self._plugin.ended is not None:
            raise RuntimeError("no plugin runs")
        return self._plugin

    def _root(self) -> Root:
        if self._real is None:
            raise RuntimeError("there is no root of this machine's driver")
        return self._real

    def _others(self) -> Root:
        if self._other is None:
            raise RuntimeError("there is no root of another driver")
        return self._other

    def _stop(self) -> None:
        if self._plugin is not None:
            self._plugin.stop()
        self._plugin = None


def _wait(holds: Callable[[], object], seconds: float) -> bool:
    """Wait until something holds; return whether it does."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True


def _pids(name: str) -> list[str]:
    """Return the processes of a program."""
    names = Path("/proc").glob("[0-9]*/comm")
    return [each.parent.name for each in names if each.exists() and each.read_text().strip() == name]


def _booted() -> float:
    """Return when the machine started: its driver was loaded no sooner."""
    lines = Path("/proc/stat").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("btime"))


def _listed(folder: Path) -> str:
    return "\n".join(sorted(str(each) for each in folder.rglob("*") if not each.is_dir()))


def _spelled(found: object) -> str:
    return json.dumps(found, indent=1)


def main() -> int:
    """Run all steps, and return how many failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.gpu.steps", description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the reports")
    parser.add_argument("--bundle", type=Path, required=True, help="the unpacked bundle")
    parser.add_argument("--mock", action="store_true", help="a mock of the driver instead of this machine's")
    options = parser.parse_args()
    record = Record(options.out)
    record.say(f"{'a mock' if options.mock else 'a real driver'}; Python {sys.version.split()[0]}; {time.ctime()}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left running
    work = Path(tempfile.mkdtemp(prefix="gpurun-", dir="/tmp"))  # sockets need a short path
    run = Run(work, options.bundle, mock=options.mock)
    try:
        record.step("1-machine", 50, run.machine)
        record.step("2-published", 60, run.published)
        record.step("3-claim", 30, run.claim)
        record.step("4-program", 150, run.program)
        record.step("5-mismatch", 80, run.mismatch)
        record.step("6-replaced", 80, run.replaced)
        record.step("7-pod", 10, run.pod)
    finally:
        run.close()
        shutil.rmtree(work, ignore_errors=True)
    return record.failed


if __name__ == "__main__":
    sys.exit(main())
