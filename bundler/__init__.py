"""Make a recipe into the rollout trigger and into the files of each deployment tool.

The bundler runs where charts are published, never in a cluster, and the image does not contain it. Of the program in
``hook`` it takes the version alone.
"""
