"""Clusters for the contracts that only a real API server can judge."""

from tests.e2e.conftest import boot

__all__ = ["boot"]
