"""The tools that platform teams deploy with, as local processes against a cluster.

Each is the real program. They all take `Release` values and give an `Outcome`, so that one story can be
told through each of them.
"""
