"""The network operator, simulated: its driver's and device plugins' DaemonSets, and how it rotates the driver.

It runs as the pod of its Deployment, with a ServiceAccount, under leader election. Rules that
decide are pure functions over plain objects. What it shares with the GPU operator, the upgrade
controller among it, is in `devcluster.controller`.

    settings.py   its environment
    names.py      labels, annotations and names, as the real one spells them
    world.py      its own objects
    render.py     pure: NicClusterPolicy -> DaemonSets of the driver and of the device plugins
    status.py     pure: what the policy's status and the nodes' labels say
    policy.py     the NicClusterPolicy controller
"""
