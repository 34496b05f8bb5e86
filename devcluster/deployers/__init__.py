"""The tools that platform teams deploy with, as local processes against a cluster.

Each is the real program. They all take `Release` values and return an `Outcome`, so that one scenario can
run through each of them.
"""
