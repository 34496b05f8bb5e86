"""The GPU operator, simulated: what it renders, when it rotates which node, and how it lies.

It runs as the pod of its Deployment, with a ServiceAccount, under leader election. Rules that
decide are pure functions over plain objects. What it shares with the network operator, the upgrade
controller among it, is in `devcluster.controller`.

    settings.py   its environment
    names.py      labels, annotations and states, as the real one spells them
    world.py      its own objects, and which nodes are upgraded under which of them
    labels.py     pure: the labels of a GPU node
    owners.py     pure: which NVIDIADriver a node belongs to
    pools.py      pure: which nodes get the same driver DaemonSet, under which image
    driverpod.py  pure: the driver's pod
    render.py     pure: ClusterPolicy and NVIDIADriver -> driver DaemonSets
    operands.py   pure: toolkit, MIG manager, and the DRA plugin of a GPUCluster
    readiness.py  pure: is the policy ready? The answers of 26.3 and 26.7
    conditions.py what statuses say, and how they are written
    policy.py     the ClusterPolicy controller
    drivers.py    the NVIDIADriver controller
    cluster.py    the GPUCluster controller
"""
