"""Carries connections between the box and the control plane, which listens on the machine's loopback only.

In: what the box sends to the Service `kubernetes` goes to the API server. Out: the API server's connections to
kubelets come as HTTP CONNECT requests through a socket in the file system.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from devcluster.kubelet.names import NODE_ADDRESS, SERVICE_ADDRESS

CLONE_NEWNET = 0x40000000
"""Namespace type (sched.h); Python has a name for it, and setns(), since 3.12 only."""

CHUNK = 65536


class Outside:
    """Makes connections in the network outside. A socket belongs to the namespace in which it was made."""

    def __init__(self, namespace: int) -> None:
        # One thread of its own, because a thread is what changes its namespace.
        self._thread = ThreadPoolExecutor(max_workers=1, initializer=_join, initargs=(namespace,))

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to an address outside."""
        loop = asyncio.get_running_loop()
        made = await loop.run_in_executor(self._thread, socket.socket, socket.AF_INET, socket.SOCK_STREAM)
        made.setblocking(False)
        await loop.sock_connect(made, (host, port))
        return await asyncio.open_connection(sock=made)


def _join(namespace: int) -> None:
    """Move this thread into a network namespace."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes one way until that way ends."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


class Gateway:
    """Both ways."""

    def __init__(self, server: str, outside: Outside) -> None:
        host, port = server.rsplit(":", 1)
        self._server = (host, int(port))
        self._outside = outside

    async def inward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection to the Service `kubernetes`."""
        try:
            far_reader, far_writer = await self._outside.connect(*self._server)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_carry(reader, far_writer), _carry(far_reader, writer))

    async def outward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a CONNECT request of the API server; addresses other than this node's are the machine's own."""
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        host, port = request.split()[1].rsplit(":", 1)
        try:
            if host == NODE_ADDRESS:
                far_reader, far_writer = await asyncio.open_connection(host, int(port))
            else:
                far_reader, far_writer = await self._outside.connect(host, int(port))
        except OSError as error:
            writer.write(f"HTTP/1.1 502 {type(error).__name__}\r\n\r\n".encode())
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_carry(reader, far_writer), _carry(far_reader, writer))


async def serve(server: str, egress: Path, outside: Outside) -> None:
    """Listen without an end."""
    gateway = Gateway(server, outside)
    async with (
        await asyncio.start_server(gateway.inward, SERVICE_ADDRESS, 443),
        await asyncio.start_unix_server(gateway.outward, egress),
    ):
        os.chmod(egress, 0o600)  # noqa: PTH101 - no Path method for a socket reads better
        await asyncio.Event().wait()


@click.command()
@click.option("--server", required=True, help="Host and port of the API server, outside.")
@click.option("--egress", type=click.Path(path_type=Path), required=True, help="Socket for the API server.")
@click.option("--outside", type=int, required=True, help="File descriptor of the network namespace outside.")
def main(server: str, egress: Path, outside: int) -> None:
    """Carry connections."""
    asyncio.run(serve(server, egress, Outside(outside)))


if __name__ == "__main__":
    main()
