"""Feature gates of NVIDIA's DRA plugin with which a restart does harm, or the old driver does not unload.

DRA is kubernetes-sigs/dra-driver-nvidia-gpu. The gates are off by default. The variable ``FEATURE_GATES`` of the
plugin shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from ctl.plan.result import Finding, Obstacle, Severity
from hook.format import some
from hook.objects import names
from hook.objects.decoding import Text, Value
from hook.objects.parts import Namespaced
from hook.objects.views import At, made, reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hook.decide.fleet import Context
    from hook.objects import DaemonSet

PASSTHROUGH: Final = "PassthroughSupport"
"""DRA ``cmd/gpu-kubelet-plugin/nvlib.go``, ``enumerateGpuPciDevices``: a GPU that is bound to vfio-pci is published
without what NVML knows of it, because NVML does not see it. So a plugin that starts while a claim holds a GPU for
passthrough loses that knowledge. What follows is in the pull request 1333, ``vfio-reconcile.go``: claims that select
these attributes do not find the GPU again, and its Fabric Manager partition stays taken."""
PASSTHROUGH_DEVICE: Final = "gpu-vfio-"
"""DRA ``cmd/gpu-kubelet-plugin/deviceinfo.go``, ``VfioDeviceInfo.CanonicalName``: beginning of the devices' names."""
DYNAMIC_MIG: Final = "DynamicMIG"
"""DRA ``cmd/gpu-kubelet-plugin/device_state.go``, ``DestroyUnknownMIGDevices``: a plugin that starts deletes each MIG
device that belongs to no claim that it has prepared, even if an administrator or the MIG manager made it."""
HOLD_THE_DRIVER: Final = (DYNAMIC_MIG, "NVMLDeviceHealthCheck")
"""DRA ``cmd/gpu-kubelet-plugin/nvlib.go`` and ``device_health.go``: NVML stays open as long as the plugin runs."""


class _Result(Value, frozen=True):
    pool: Text = ""
    device: Text = ""


_Results = tuple[_Result, ...]


def _node(results: _Results | None) -> str:
    """Return the node of a GPU for passthrough that is allocated, or "". The plugin's pools are named after nodes."""
    return next((each.pool for each in results or () if each.device.startswith(PASSTHROUGH_DEVICE)), "")


class PassthroughClaim(Namespaced, frozen=True):
    """A claim that holds a GPU for passthrough to a virtual machine; the fields are the same in all versions."""

    node: Annotated[str, made(_node, At(("status", "allocation", "devices", "results"), _Results | None, None))]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} on {self.node}"


def _if_on_a_node(claim: PassthroughClaim) -> PassthroughClaim | None:
    return claim if claim.node else None


passthrough_claim: Final = reader(PassthroughClaim).keeping(_if_on_a_node)
"""Reader of the claims that hold a GPU for passthrough."""


@dataclass(frozen=True, slots=True)
class PassthroughClaims:
    """What was read of such claims."""

    found: Sequence[PassthroughClaim] = ()
    unread: str = ""
    """Why they were not read."""


def harms(context: Context, claims: PassthroughClaims) -> Iterator[Finding]:
    """Yield what the gates of the plugins mean for an upgrade."""
    for plugin in context.plugins.named:
        if PASSTHROUGH in plugin.gates:
            yield _loses_gpus(plugin, claims)
        if DYNAMIC_MIG in plugin.gates:
            yield _deletes_mig(plugin)
        holding = [gate for gate in HOLD_THE_DRIVER if gate in plugin.gates]
        # The driver manager ends a plugin that it evicts before it unloads the driver.
        if holding and not _is_evicted(plugin, context):
            yield _holds_driver(plugin, holding)


def _is_evicted(plugin: DaemonSet, context: Context) -> bool:
    """Return whether a plugin selects nodes by a label that the driver manager changes before it reloads a driver."""
    evicting = {names.EVICTED_CLIENT_LABEL, *(source.driver.eviction_label for source in context.sources)}
    return not evicting.isdisjoint(plugin.node_selector)


def _loses_gpus(plugin: DaemonSet, claims: PassthroughClaims) -> Finding:
    holding = f"now {some([str(claim) for claim in claims.found])}" if claims.found else "now none"
    return Finding(
        Obstacle.RESTART_LOSES_GPUS,
        Severity.HARMS if claims.found or claims.unread else Severity.NOTE,
        f"{plugin} has the feature gate {PASSTHROUGH}: if it restarts while a claim holds a GPU for passthrough (VFIO; "
        f"{claims.unread or holding}), later claims may not find the GPU, and its Fabric Manager partition stays taken",
        "before the upgrade, shut down the virtual machines that use such claims, or skip their nodes; to see the "
        "claims: kubectl get resourceclaims -A",
        tuple(sorted({claim.node for claim in claims.found})),
    )


def _deletes_mig(plugin: DaemonSet) -> Finding:
    return Finding(
        Obstacle.RESTART_DELETES_MIG,
        Severity.HARMS,
        f"{plugin} has the feature gate {DYNAMIC_MIG}: when it starts, it deletes MIG devices that belong to no claim",
        "drain nodes whose MIG devices were made by something else, such as the MIG manager, before the upgrade",
    )


def _holds_driver(plugin: DaemonSet, gates: Sequence[str]) -> Finding:
    return Finding(
        Obstacle.PLUGIN_HOLDS_DRIVER,
        Severity.SLOWS,
        f"{plugin} has the feature gate {' and '.join(gates)}: it keeps NVML open, so the old driver may not unload",
        f"turn the gate off for the upgrade, or let the driver manager evict the plugin "
        f"({names.EVICTION_LABEL_VARIABLE})",
    )
