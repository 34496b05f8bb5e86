"""Write the rollout trigger and the files of each deployment tool from a resolved recipe.

The path of a bundle: ``recipe`` and ``request`` read the input; ``releases`` orders the releases, with their ``charts``
and with values from ``trigger`` and ``derived``; ``targets`` makes the files of one deployment tool from the templates
in ``data``; ``output`` writes them.

The bundler runs where charts are published, never in a cluster, and the image does not contain it. It imports the
version from ``hook``, and nothing else.
"""
