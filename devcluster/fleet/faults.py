"""What causes a fault on a node: annotations, and one label."""

from __future__ import annotations

DRIVER_FAULT = "devcluster/driver-fault"
"""Node annotation: ``image-pull``, ``crash-loop``, ``pending`` (its kubelet does not take the pod) or ``unready`` (the
driver is loaded, but its pod's probe does not pass), for as long as it is there."""
PLUGIN_FAULT = "devcluster/plugin-fault"
"""Node annotation: ``crash-loop``; bites when a plugin's container starts, not while it runs."""
REBOOT = "devcluster/reboot"
"""Node annotation: each new value reboots the node once."""
RESTART_DRIVER_CONTAINER = "devcluster/restart-driver-container"
"""Node annotation: with each new value the driver container exits once and restarts in place."""
NETWORK_DRIVER_FAULT = "devcluster/network-driver-fault"
"""Node annotation: as `DRIVER_FAULT`, for the network card's driver."""
RESTART_NETWORK_DRIVER_CONTAINER = "devcluster/restart-network-driver-container"
"""Node annotation: as `RESTART_DRIVER_CONTAINER`, for the network card's driver."""
OUTAGE = "devcluster/outage"
"""Node label: while ``true``, the node's kubelet is silent, for KWOK does not see nodes with it. Nothing restarts."""

TIME_JUMP = "devcluster/time-jump"
"""Node annotation: seconds by which every time in the statuses of the node's driver pods is later than it was, for as
long as it is there, as if a clock had been set wrong when they were written anew. Nothing reloads."""
