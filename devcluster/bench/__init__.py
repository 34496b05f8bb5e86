"""Side by side: what each way of refreshing plugins costs a fleet, on the same nodes and the same driver reloads."""
