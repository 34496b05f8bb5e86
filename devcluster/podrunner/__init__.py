"""A kubelet for one node: its pods really run, as local processes of the programs they name."""
