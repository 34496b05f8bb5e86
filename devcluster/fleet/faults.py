"""What causes a fault on a node: annotations, and one label."""

from __future__ import annotations

DRIVER_FAULT = "devcluster/driver-fault"
"""Node annotation of GPU drivers: ``image-pull``, ``crash-loop`` or ``unready`` (the driver is loaded, but its pod's
probe does not pass), for as long as it is there."""
REBOOT = "devcluster/reboot"
"""Node annotation: each new value reboots the node once."""
RESTART_DRIVER_CONTAINER = "devcluster/restart-driver-container"
"""Node annotation: with each new value the container of the GPU driver exits once and restarts in place."""
OUTAGE = "devcluster/outage"
"""Node label: while ``true``, the node's kubelet is silent, for KWOK does not see nodes with it. Nothing restarts."""
