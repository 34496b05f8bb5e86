"""The controller."""
