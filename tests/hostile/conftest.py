"""How hostile objects are tried here: the same examples everywhere, no files left behind, no clock."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is slow, which is no failure; random examples would make a failure come and go.
settings.register_profile("everywhere", deadline=None, database=None, derandomize=True)
settings.load_profile("everywhere")
