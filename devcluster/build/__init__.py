"""Build the programs of the cluster from source, or find them."""
