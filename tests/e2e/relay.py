"""A way to the API server that can be cut."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress

from devcluster.boot.cluster import Cluster
from devcluster.boot.ports import free_ports


class Relay:
    """A port that leads to the API server of this machine, and can be closed with all its connections."""

    def __init__(self, cluster: Cluster) -> None:
        config = cluster.kubeconfig.read_text()
        (server,) = set(re.findall(r"https://127\.0\.0\.1:(\d+)", config))
        self._server = int(server)
        (self._port,) = free_ports(1)
        self.kubeconfig = cluster.state / "relayed.kubeconfig"
        """Who reads the cluster with this one takes the way."""
        self.kubeconfig.write_text(config.replace(f":{server}", f":{self._port}"))
        self.open()

    def open(self) -> None:
        """Listen."""
        self._sockets = [socket.create_server(("127.0.0.1", self._port))]
        threading.Thread(target=self._accept, args=self._sockets, daemon=True).start()

    def close(self) -> None:
        """Refuse connections from now on, as a host without a server does."""
        for each in self._sockets:
            with suppress(OSError):  # its other side is gone
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):  # closed
            while True:
                ends = listening.accept()[0], socket.create_connection(("127.0.0.1", self._server))
                self._sockets += ends
                for pair in (ends, ends[::-1]):
                    threading.Thread(target=_copy, args=pair, daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):  # either side is gone
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_RDWR)
