"""The tools that platform teams deploy with, as local processes against a cluster.

Each is the real program. What a deployment came to is an `Outcome`, whichever tool it was.
"""
