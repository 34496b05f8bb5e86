"""The network operator, simulated: its driver's and device plugins' DaemonSets, and how it rotates the driver.

It runs as the pod of its Deployment, with a ServiceAccount, under leader election. What it shares with
the GPU operator, the upgrade controller among it, is in `devcluster.controller`.

    render.py    pure: NicClusterPolicy -> DaemonSets of the driver and of the device plugins
    operator.py  carries out the NicClusterPolicy
"""
