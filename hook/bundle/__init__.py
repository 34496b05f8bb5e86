"""For people who ship the charts: from a recipe to the rollout trigger, and to files for each deployer.

Apart from the rest of the program: nothing here reads a cluster, and nothing that runs in one comes here.
"""
