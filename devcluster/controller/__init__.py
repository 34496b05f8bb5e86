"""What both simulated operators, for GPUs and for networks, are made of, as the real ones share a library.

settings.py   what the environment tells every operator
objects.py    plain API objects: labels, owners, names
operator.py   collections as the API server has them, and the loop that writes what is missing
lease.py      leader election
process.py    the life of the operator's process, and of its upgrade controller's
"""
