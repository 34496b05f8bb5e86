"""The GPU operator, simulated: what it renders, when it rotates which node, and how it lies.

It runs as the pod of its Deployment, with a ServiceAccount, under leader election. Rules that
decide are pure functions over plain objects; `policy` and `rotation` carry them out.

    settings.py   its environment
    names.py      labels, annotations and states, as the real one spells them
    lease.py      leader election
    mirror.py     a collection as the API server has it, kept by a watch
    world.py      the mirrors that it needs, and what wakes which controller
    labels.py     pure: the labels of a GPU node
    render.py     pure: ClusterPolicy -> driver DaemonSets
    readiness.py  pure: is the policy ready? The answers of 26.3 and 26.7
    upgrade.py    pure: the upgrade state machine
    policy.py     the ClusterPolicy controller
    rotation.py   the upgrade controller
"""
