"""What each approach to refresh plugins costs a fleet, side by side, and what this program costs alone."""
