"""NVIDIA's kubelet plugin as a process in a box like its container, and what a kubelet asks of it."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.gpu.objects import DRA, IMAGE, NODE, Span

if TYPE_CHECKING:
    from tools.gpu.driverroot import Mounted

BOX: Final = Path(__file__).with_name("box")
UNSHARE: Final = ("unshare", "--mount", "--propagation", "slave")
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ASK_SECONDS: Final = 50.0
END_SECONDS: Final = 10.0
NAME: Final = "gpu.nvidia.com"
CHECK_SECONDS: Final = "25"
"""NVIDIA's start-up script tries again every ten seconds, without end."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where plugins run: the bundle's programs, a folder for boxes and sockets, and the node's driver root."""

    programs: Path
    work: Path
    root: Mounted
    kubeconfig: Path
    boxes: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def cdi(self) -> Path:
        """Where plugins write CDI specifications."""
        return self.work / "cdi"

    def check(self) -> tuple[Span, int, str]:
        """Run NVIDIA's start-up script of the pod on the root; return when, its exit code and its output."""
        script = str(self.programs / "kubelet-plugin-prestart.sh")
        command = ["timeout", "--signal=KILL", CHECK_SECONDS, "bash", script]
        began = time.time()
        ended = subprocess.run(
            self.boxed({"driver-root-parent": self.root.path.parent}, *command),
            env={"PATH": PATH, "NVIDIA_DRIVER_ROOT": str(self.root.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Span(began, time.time()), ended.returncode, ended.stdout

    def boxed(self, folders: dict[str, Path], *command: str) -> list[str]:
        """Return the command that runs a command in a box."""
        box = self.work / f"box-{next(self.boxes)}"
        box.mkdir()
        return [*UNSHARE, str(BOX), str(box), *(f"{name}={path}" for name, path in folders.items()), "--", *command]


class Plugin:
    """One start of the plugin. Sockets and checkpoint are the node's, so that one runs at a time."""

    def __init__(self, place: Place) -> None:
        self._place = place
        number = next(place.boxes)
        self.log = place.work / f"plugin-{number}.log"
        self._registry, self._plugins = place.work / "registry", place.work / "plugins"
        for folder in (self._registry, self._plugins, place.cdi):
            folder.mkdir(exist_ok=True)
        for socket in (self.socket, self.registration):
            socket.unlink(missing_ok=True)  # of a plugin that was killed
        self.began = time.time()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                place.boxed({"driver-root": place.root.path}, str(place.programs / "gpu-kubelet-plugin"), "-v", "7"),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def socket(self) -> Path:
        """Where a kubelet asks it to prepare claims."""
        return self._plugins / NAME / "dra.sock"

    @property
    def registration(self) -> Path:
        """Where a kubelet asks it who it is."""
        return self._registry / f"{NAME}-reg.sock"

    @property
    def serves(self) -> bool:
        """Whether a kubelet can talk to it."""
        return self.socket.exists() and self.registration.exists()

    @property
    def ended(self) -> int | None:
        """The exit code, or none if it runs."""
        return self.process.poll()

    def info(self) -> str:
        """Ask for its name, and confirm the registration."""
        return self._ask(self.registration, "info")

    def prepare(self, name: str, uid: str) -> str:
        """Ask to prepare a claim; return its answer."""
        return self._ask(self.socket, "prepare", "default", name, uid)

    def unprepare(self, name: str, uid: str) -> str:
        """Ask to unprepare a claim; return its answer."""
        return self._ask(self.socket, "unprepare", "default", name, uid)

    def specification(self, uid: str) -> Path:
        """Return the file with the CDI specification of a claim."""
        return self._place.cdi / f"k8s.{NAME}-claim_{uid}.yaml"

    def sees(self, *command: str) -> str:
        """Run a command in the plugin's own box, and return what it prints."""
        inside = ["nsenter", f"--target={self.process.pid}", "--mount", "--root", "--wd", "--", *command]
        return _output(inside)

    def stop(self) -> None:
        """End it as a kubelet does."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.ended is None:
                os.killpg(self.process.pid, number)
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            return

    def _ask(self, socket: Path, *words: str) -> str:
        return _output([str(self._place.programs / "client"), str(socket), *words])

    def _environment(self) -> dict[str, str]:
        """Spell the variables of NVIDIA's chart."""
        return {
            "PATH": PATH,
            "KUBECONFIG": str(self._place.kubeconfig),
            "NODE_NAME": NODE,
            "NAMESPACE": DRA,
            "IMAGE_NAME": IMAGE,
            "NVIDIA_DRIVER_ROOT": str(self._place.root.path),
            "NVIDIA_CDI_HOOK_PATH": str(self._place.programs / "nvidia-cdi-hook"),
            "CDI_ROOT": str(self._place.cdi),
            "KUBELET_REGISTRAR_DIRECTORY_PATH": str(self._registry),
            "KUBELET_PLUGINS_DIRECTORY_PATH": str(self._plugins),
        }


def _output(command: list[str]) -> str:
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=ASK_SECONDS, check=False
    )
    return ended.stdout if ended.returncode == 0 else f"{ended.stdout}(exit code {ended.returncode})\n"
