"""``python -m devcluster.pods --state DIR``: run the pods of the system node, each as one process.

This is no kubelet. It starts the program that a pod's image stands for, with the token of the pod's ServiceAccount, and
writes how that ended. It probes nothing, and mounts and pulls nothing: a pod is Ready while its process runs. What
depends on a kubelet is tested on a real one (`devcluster.kubelet`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import math
import os
import signal
import sys
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from devcluster.boot.certificates import write_private
from devcluster.boot.layout import CHECKOUT, SYSTEM_NODE, State
from devcluster.boot.processes import Record
from devcluster.build import binaries
from devcluster.client import STRATEGIC_PATCH, Access, Api, ApiError, path, retry
from devcluster.fleet.status import PodStatus
from devcluster.podlogs import served
from devcluster.watching import follow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devcluster.client import Object

log = logging.getLogger(__name__)

PROGRAMS: Final = {
    "gpu-operator-post": "hook",
    "gpu-operator": "devcluster.operator",
    "network-operator": "devcluster.networkoperator",
}
"""Last part of an image's repository -> what ``python -m`` runs. A pod of any other image stays Pending."""

INHERITED: Final = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
"""What stands for the image's own environment: enough for Python to run, and nothing of the user's."""

TOKEN_SECONDS: Final = 24 * 3600
"""Longer than any cluster here lives, because a token is not replaced."""

RESTART_SECONDS: Final = 1.0
"""Between two starts of a program that is to run always."""

SIGNAL_BASE: Final = 128
"""A runtime reports a process that a signal ended as 128 + the signal's number."""

GONE: Final = (404, 409)
"""The pod is no longer there, or another one has its name."""


@dataclass(frozen=True, slots=True)
class Host:
    """What all pods share."""

    api: Api
    state: State
    variables: Mapping[str, str]
    """What every environment begins with."""


class Pod:
    """One pod with one container, from the moment it is bound to the node until its object is gone."""

    def __init__(self, host: Host, manifest: Object) -> None:
        metadata, spec = manifest["metadata"], manifest["spec"]
        self.name = f"{metadata['namespace']}/{metadata['name']}"
        self._host, self._manifest, self._spec = host, manifest, spec
        self._container, *_ = spec["containers"]
        self._folder = host.state.pod(metadata["namespace"], metadata["name"])
        self._path = path("v1", "pods", namespace=metadata["namespace"], name=metadata["name"])
        self._status = PodStatus.of(manifest)
        self._end: Object = {}
        """The phase of a pod that has ended."""
        self._process: asyncio.subprocess.Process | None = None
        self._deleted = asyncio.Event()
        self._grace = math.inf
        """Seconds that a program has to end once its pod is deleted; a second deletion may shorten them."""

    def see(self, manifest: Object) -> None:
        """Take over what others wrote: a deletion, or that the pod is not Ready, because its node was silent."""
        if "deletionTimestamp" in manifest["metadata"]:
            grace = manifest["metadata"].get("deletionGracePeriodSeconds", 0)
            if grace < self._grace:
                self._grace = grace
                self._deleted.set()
                self._stop()
            return
        conditions = {each["type"]: each["status"] for each in manifest.get("status", {}).get("conditions", [])}
        if conditions.get("Ready") == "False" and conditions.get("ContainersReady") == "True":
            self._status.touch_ready()
            _in_background(self._report())

    def vanish(self) -> None:
        """End at once: the object is gone, or the node is."""
        self._grace = 0
        self._deleted.set()
        self._kill()

    async def live(self) -> None:
        """Run the program to its end, and confirm the pod's deletion."""
        image = self._container["image"]
        program = PROGRAMS.get(_repository(image))
        if program is None:
            log.error('%s stays Pending: no program stands for "%s"', self.name, image)
        elif self._manifest.get("status", {}).get("phase") not in {"Succeeded", "Failed"}:
            self._status.begin()
            await self._report()
            await self._run(program)
        await self._deleted.wait()
        uid = {"uid": self._manifest["metadata"]["uid"]}
        await self._write("DELETE", self._path, {"gracePeriodSeconds": 0, "preconditions": uid})

    async def _run(self, program: str) -> None:
        """Start the program, and start it again where its pod is to run always."""
        await self._mount()
        arguments = [_addressed(each) for each in self._container.get("args", [])]
        if program == "hook":
            arguments += self._places(arguments)
        command = [sys.executable, "-m", program, *arguments]
        status = self._status.mains[0]
        while not self._end:
            code = await self._execute(command)
            log.info("%s ended with %s", self.name, code)
            status.end(code)
            status.ready = False
            if message := self._file("message").read_text(encoding="utf-8"):
                status.state["terminated"]["message"] = message
            if self._spec["restartPolicy"] != "Always" or self._deleted.is_set():
                self._end = {"phase": "Failed" if code else "Succeeded"}
            await self._report()
            if not self._end:
                await asyncio.sleep(RESTART_SECONDS)

    async def _mount(self) -> None:
        """Write what is in the folder of a ServiceAccount: a token that is bound to the pod, and its authority."""
        metadata = self._manifest["metadata"]
        account = {"namespace": metadata["namespace"], "name": self._spec["serviceAccountName"]}
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        asked = {"spec": {"expirationSeconds": TOKEN_SECONDS, "boundObjectRef": bound}}
        tokens = path("v1", "serviceaccounts", **account, subresource="token")
        answer = await retry(lambda: self._host.api.create(tokens, asked))
        write_private(self._account / "token", answer["status"]["token"])
        write_private(self._account / "ca.crt", self._host.state.certificate.read_text())
        write_private(self._account / "namespace", metadata["namespace"])

    async def _execute(self, command: list[str]) -> int:
        """Run the program once, and return its exit code as a runtime reports it."""
        self._file("message").write_bytes(b"")
        with self._file("log").open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output,
                env=self._variables(), cwd=CHECKOUT, start_new_session=True,
            )  # fmt: skip
        record = Record.of(f"pod-{self._folder.name}", process.pid)
        record.write(self._host.state.processes)
        (self._folder / "pid").write_text(str(process.pid))
        self._process = process
        if self._deleted.is_set():
            self._stop()
        self._status.mains[0].run()
        self._status.mains[0].succeed_startup()
        await self._report()
        code = await process.wait()
        self._kill()  # what the program has left running, as in a container
        self._process = None
        record.forget(self._host.state.processes)
        return SIGNAL_BASE - code if code < 0 else code

    def _stop(self) -> None:
        """Ask the program of a deleted pod to end, and end it when the grace period is over."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            asyncio.get_running_loop().call_later(self._grace, self._kill)

    def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _file(self, kind: str) -> Path:
        """Name a file that the container leaves behind; it outlives the pod."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"{self._container['name']}.{kind}"

    @property
    def _account(self) -> Path:
        return self._folder / "serviceaccount"

    def _places(self, arguments: list[str]) -> list[str]:
        """Return the flags that name what is in usual places in a container."""
        ends = arguments[:1] in (["run"], ["controller"])
        message = [f"--termination-log={self._file('message')}"] if ends else []
        return [f"--service-account-dir={self._account}", *message]

    def _variables(self) -> dict[str, str]:
        """Return the whole environment."""
        home = str(self._folder)
        return {
            **self._host.variables,
            "HOSTNAME": self._manifest["metadata"]["name"],
            "HOME": home,
            "TMPDIR": home,
            "DEVCLUSTER_SERVICE_ACCOUNT_DIR": str(self._account),
            **{each["name"]: _value(each, self._manifest) for each in self._container.get("env", [])},
        }

    async def _report(self) -> None:
        """Write the status."""
        status = {**self._status.render(), **self._end}
        body = {"metadata": {"uid": self._manifest["metadata"]["uid"]}, "status": status}
        await self._write("PATCH", f"{self._path}/status", body)

    async def _write(self, method: str, url_path: str, body: Object) -> None:
        kind = STRATEGIC_PATCH if method == "PATCH" else "application/json"
        try:
            await retry(lambda: self._host.api.request(method, url_path, body=body, content_type=kind))
        except ApiError as error:
            if error.code not in GONE:
                raise


def _repository(image: str) -> str:
    """Return the last part of an image's repository, without tag and digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _addressed(argument: str) -> str:
    """Let a program listen on a free port: all pods share the addresses of this machine."""
    return "--listen=127.0.0.1:0" if argument.startswith("--listen=:") else argument


def _value(entry: Object, pod: Object) -> str:
    """Return the value of a variable: given, or a field of the pod."""
    if "valueFrom" not in entry:
        return str(entry.get("value", ""))
    field: str = entry["valueFrom"]["fieldRef"]["fieldPath"]
    found: Any = reduce(lambda part, key: part[key], field.split("."), pod)
    return str(found)


async def run(host: Host) -> None:
    """Run the pods of the system node until cancelled."""
    pods: dict[str, Pod] = {}
    try:
        async for event in follow(host.api, path("v1", "pods"), fieldSelector=f"spec.nodeName={SYSTEM_NODE}"):
            if event.kind == "SYNCED":
                continue
            uid = event.object["metadata"]["uid"]
            if event.kind == "DELETED":
                pods.pop(uid).vanish()
                continue
            if uid not in pods:
                pods[uid] = Pod(host, event.object)
                _in_background(pods[uid].live())
            pods[uid].see(event.object)
    finally:
        for pod in pods.values():
            pod.vanish()


_tasks: Final[set[asyncio.Task[None]]] = set()
"""asyncio keeps only weak references to tasks."""


def _in_background(work: Any) -> None:  # noqa: ANN401 - a coroutine
    def over(task: asyncio.Task[None]) -> None:
        _tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a pod's life broke off", exc_info=error)

    task = asyncio.create_task(work)
    _tasks.add(task)
    task.add_done_callback(over)


async def serve(state: State) -> None:
    """Run the pods until SIGTERM."""
    async with Api(Access.from_kubeconfig(state.component_kubeconfig("pods"))) as api:
        server = urlsplit(api.access.server)
        variables = {
            **{name: os.environ[name] for name in INHERITED if name in os.environ},
            "KUBERNETES_SERVICE_HOST": server.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(server.port or 443),
            # A part of the simulated operators' images.
            "DEVCLUSTER_UPGRADE_PROGRAM": str(binaries.ensure(["upgrade"])["upgrade"]),
        }
        running = asyncio.create_task(run(Host(api, state, variables)))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        async with served(api, state):
            with contextlib.suppress(asyncio.CancelledError):
                await running


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.pods", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="the cluster's state directory")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(serve(State(parser.parse_args().state)))


if __name__ == "__main__":
    main()
