"""Configuration of what lives in the box, with the reasons next to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster.kubelet.names import KUBELET_PORT, PAUSE_IMAGE, POD_NETWORK

if TYPE_CHECKING:
    from collections.abc import Mapping

KUBELET_CONFIGURATION = "/run/kubelet.yaml"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CNI_CONFIGURATION = "/run/cni/net.d"
CDI_SPECIFICATIONS = "/var/run/cdi"
CNI_PLUGINS = ("/usr/lib/cni", "/opt/cni/bin")
"""Where Debian and others put them."""

KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What a kubelet insists on, or sets. They are the whole machine's, so the box shows it files that say so."""

LEASE_SECONDS = 8
"""As for the simulated nodes: a quarter of it, between renewals, is well below the cluster's grace of 10 s."""


def cni_plugins() -> Path | None:
    """Find the network plugins."""
    return next((Path(each) for each in CNI_PLUGINS if (Path(each) / "bridge").exists()), None)


def pod_network() -> str:
    """Spell the pods' network: a bridge in the box. There is no way out of it, and no DNS: the hook needs neither."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": "/run/cni/ipam",
            "ranges": [[{"subnet": POD_NETWORK}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return json.dumps({"cniVersion": "0.4.0", "name": "devcluster", "plugins": [bridge]})


def containerd(snapshotter: str) -> str:
    """Spell containerd's configuration. Images are named in one part of it, what runs them in another."""
    images, runtime = "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"
    return f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."{images}"]
  snapshotter = "{snapshotter}"
  [plugins."{images}".pinned_images]
    sandbox = "{PAUSE_IMAGE}"
[plugins."{runtime}"]
  # Without CAP_SYS_RESOURCE, scores below our own cannot be set, and sandboxes would not start.
  restrict_oom_score_adj = true
  # Profiles would be loaded into the machine's kernel.
  disable_apparmor = true
  # Where DRA plugins write; the machine's own specifications are not this node's.
  cdi_spec_dirs = ["{CDI_SPECIFICATIONS}"]
  [plugins."{runtime}".containerd]
    default_runtime_name = "runc"
    [plugins."{runtime}".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."{runtime}".cni]
    bin_dirs = ["{cni_plugins()}"]
    conf_dir = "{CNI_CONFIGURATION}"
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
"""


def kubelet(taint: Mapping[str, str]) -> str:
    """Spell the kubelet's configuration, with a taint for its node; JSON is YAML."""
    configuration = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "registerWithTaints": [taint],
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "port": KUBELET_PORT,
        "readOnlyPort": 0,
        "healthzPort": 0,
        # Its port can be reached in the box only, where all are root already.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "nodeStatusUpdateFrequency": "5s",
        "nodeLeaseDurationSeconds": LEASE_SECONDS,
        "oomScoreAdj": 0,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "resolvConf": "/run/resolv.conf",
        "clusterDNS": ["10.96.0.10"],  # nothing answers there; without it every pod gets a warning
        # Another's full disk or memory is no reason to evict.
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1Mi", "imagefs.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }
    return json.dumps(configuration, indent=1)


def egress(socket: Path) -> str:
    """Spell the API server's egress configuration: how managed control planes, too, reach nodes elsewhere."""
    proxy = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(socket)}}}
    return json.dumps(
        {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": proxy}],
        }
    )
