"""The Job, the controller, and what they report."""
