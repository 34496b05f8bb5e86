"""Where the time and the memory of a run go, and what its pages and its decoder save: docs/performance-profile.md."""
