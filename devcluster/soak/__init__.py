"""Upgrade a large simulated fleet over and over, with faults, and hold every run to the promises by ground truth."""
