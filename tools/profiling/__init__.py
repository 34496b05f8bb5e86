"""Where the time and the memory of a run go, and what pages and decoder save: docs/dev/performance-profile.md."""
