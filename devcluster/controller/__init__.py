"""What both simulated operators, for GPUs and for networks, are made of, as the real ones share a library.

objects.py    plain API objects: labels, owners, names
lease.py      leader election
mirror.py     a collection as the API server has it, kept by a watch
world.py      the mirrors that every driver operator needs, and what wakes its controllers
upgrading.py  the upgrade controller: NVIDIA's library, in a process of its own
applier.py    create, update, replace and delete DaemonSets
process.py    the life of the operator's process: elected, at work, told to stop
"""
