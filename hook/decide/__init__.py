"""Decisions: a snapshot and the state in, a decision and the next state out. Pure."""
