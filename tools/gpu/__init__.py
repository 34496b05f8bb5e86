"""What runs on a bare machine with one real GPU: NVIDIA's plugin, a control plane, and this program."""
