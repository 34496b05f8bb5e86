"""A real Kubernetes control plane on one machine, with a simulated GPU fleet."""
