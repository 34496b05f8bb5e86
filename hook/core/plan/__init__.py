"""Plan a driver upgrade before it begins: how long, how much capacity, how much time deployers need."""
