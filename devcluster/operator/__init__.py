"""The GPU operator, simulated: what it renders, when it rotates which node, and how it lies.

It runs as the pod of its Deployment, with a ServiceAccount, under leader election. Rules that
decide are pure functions over plain objects. What it shares with the network operator, the upgrade
controller among it, is in `devcluster.controller`.

    settings.py    its environment
    names.py       labels, annotations and states, as the real one spells them
    world.py       its own objects
    nodes.py       pure: a node's labels, the NVIDIADriver that it belongs to, its pool
    driverpod.py   pure: the driver's pod
    render.py      pure: ClusterPolicy, NVIDIADriver and GPUCluster -> DaemonSets
    status.py      is an object ready, as 26.3 and 26.7 answer that, and how its status is written
    controllers.py the controllers of the three kinds
"""
