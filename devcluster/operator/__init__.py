"""The GPU operator, simulated: what it renders, when it rotates which node, and how it lies.

It runs as the pod of its Deployment, with a ServiceAccount, under leader election. Rules that
decide are pure functions over plain objects. What it shares with the network operator, the upgrade
controller among it, is in `devcluster.controller`.

    names.py      labels, annotations and states, as the real one spells them
    nodes.py      pure: a node's labels, and the NVIDIADriver that it belongs to
    render.py     pure: ClusterPolicy, NVIDIADriver and GPUCluster -> DaemonSets
    driverpod.py  pure: the driver's pod
    status.py     pure: is a DaemonSet ready, as 26.3 and 26.7 answer that
    operator.py   carries out the three kinds
"""
