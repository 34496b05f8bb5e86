"""Plan a driver upgrade before it begins: duration, GPU capacity, and timeouts of the deployment tools."""
