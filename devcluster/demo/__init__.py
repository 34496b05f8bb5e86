"""A driver upgrade to watch: simulated, on a real kubelet, or on a kind cluster."""
