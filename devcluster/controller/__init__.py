"""What both simulated operators, for GPUs and for networks, are made of, as the real ones share a library.

settings.py   what the environment tells every operator
objects.py    plain API objects: labels, owners, names
world.py      collections as the API server has them, and what wakes the controllers
reconciler.py the loop of a controller
applier.py    create, update, replace and delete DaemonSets
lease.py      leader election
process.py    the life of the operator's process, and of its upgrade controller's
"""
