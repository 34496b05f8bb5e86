"""What an approach costs the API server while a fleet waits for its next reload: per minute, with real object sizes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from devcluster import commands, etcd
from devcluster.bench import atrest
from devcluster.bench.busy import ONE_BY_ONE, Busy, unready
from devcluster.bench.peers import OURS, SCRIPTS
from devcluster.bench.running import waiting, warm_seconds
from devcluster.bench.servers import NOBODYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devcluster.bench.peers import Peer
    from devcluster.bench.resting import Rest
    from devcluster.bench.servers import OwnServer
    from devcluster.bench.usage import Usage

NOT_READY: Final = json.dumps({"status": {"state": "notReady"}})
"""What the shell Job waits for the end of. The labels of all nodes say `upgrade-done`, as before an upgrade's first
reload: the label scripts look each second until that changes."""


def idle(rest: Rest, minutes: float) -> dict[str, Any]:
    """Measure side by side, each approach with an API server of its own, and subtract one without clients.

    In addition, what this program costs when it starts: it reads everything once.
    """
    servers = {name: rest.server(name) for name in (NOBODYS, OURS, *(peer.name for peer in SCRIPTS))}
    patch = ("patch", "clusterpolicies", "cluster-policy", "--subresource=status", "--type=merge", "-p", NOT_READY)
    rest.cluster.kubectl("--kubeconfig", str(servers[NOBODYS].kubeconfig), *patch)
    uid = rest.cluster.kubectl(
        "--kubeconfig",
        str(servers[NOBODYS].kubeconfig),
        *("get", "clusterpolicy", "cluster-policy"),
        "-ojsonpath={.metadata.uid}",
    ).stdout
    etcd.put(rest.cluster.files, unready())
    etcd.put(rest.cluster.files, atrest.claims(rest.nodes, rest.nodes))
    with Busy(rest.cluster.files, rest.nodes, ONE_BY_ONE, list(islice(atrest.fleet(rest.nodes, uid), 2))):
        _begin(servers)
        running = rest.start(servers[OURS], OURS, *waiting())
        time.sleep(warm_seconds(rest.nodes))
        start = servers[OURS].spent().minus(servers[NOBODYS].spent())
        scripts = [_started(rest, peer, servers[peer.name]) for peer in SCRIPTS]
        _begin(servers)
        time.sleep(minutes * 60)
        base = servers[NOBODYS].spent()
        spent = {name: server.spent().minus(base) for name, server in servers.items() if name != NOBODYS}
    for script in scripts:
        os.killpg(script.pid, signal.SIGKILL)
        script.wait()
    running.process.terminate()
    running.spent()
    entries = [{"name": name, **_per_minute(usage, minutes)} for name, usage in spent.items()]
    return {"entries": entries, "start": start.as_json()}


def _begin(servers: Mapping[str, OwnServer]) -> None:
    for server in servers.values():
        server.begin()


def _started(rest: Rest, peer: Peer, server: OwnServer) -> subprocess.Popen[bytes]:
    """Start a script as the leader of a group, so that its end is also the end of its kubectl."""
    variables = {
        **commands.environment(rest.cluster.files),
        "KUBECTL": str(rest.cluster.binary("kubectl")),
        "KUBECONFIG": str(server.kubeconfig),
        "NAMESPACE": atrest.DRA,
        "DAEMONSET": atrest.PLUGINS,
        "SELECTOR": "dra-driver-nvidia-gpu-component=kubelet-plugin",
    }
    with rest.cluster.files.log(f"idle-{peer.name}").open("wb") as log:
        return subprocess.Popen(
            ["sh", "-euc", peer.script],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _per_minute(usage: Usage, minutes: float) -> dict[str, Any]:
    return {
        "cpu_seconds_a_minute": round(usage.cpu_seconds / minutes, 3),
        "bytes_a_minute": round(usage.bytes.total() / minutes),
        "requests_a_minute": round(usage.requests.total() / minutes, 1),
    }
