"""Start a control plane on this machine, keep its records, and end it."""
