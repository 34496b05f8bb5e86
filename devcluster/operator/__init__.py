"""The GPU operator, simulated: what it renders, when it rotates which node, and how it lies.

It runs as the pod of its Deployment, with a ServiceAccount, under leader election. Rules that
decide are pure functions over plain objects; `policy` and `rotation` carry them out.

    settings.py   its environment
    names.py      labels, annotations and states, as the real one spells them
    lease.py      leader election
    mirror.py     a collection as the API server has it, kept by a watch
    world.py      the mirrors that it needs, and what wakes which controller
    labels.py     pure: the labels of a GPU node
    owners.py     pure: which NVIDIADriver a node belongs to
    pools.py      pure: which nodes get the same driver DaemonSet, under which image
    driverpod.py  pure: the driver's pod
    render.py     pure: ClusterPolicy and NVIDIADriver -> driver DaemonSets
    operands.py   pure: the container toolkit, and the DRA plugin of a GPUCluster
    readiness.py  pure: is the policy ready? The answers of 26.3 and 26.7
    conditions.py what statuses say, and how they are written
    upgrade.py    pure: the upgrade state machine
    applier.py    makes an owner's DaemonSets those that it wants
    policy.py     the ClusterPolicy controller
    drivers.py    the NVIDIADriver controller
    cluster.py    the GPUCluster controller
    rotation.py   the upgrade controller
"""
