"""Patches of API objects that many tests of this folder apply."""

from __future__ import annotations

from typing import Final

from tests.fixtures.objects import Object, conditions

BY_HAND: Final[Object] = {"spec": {"driver": {"upgradePolicy": {"autoUpgrade": False}}}}
DELETING: Final[Object] = {"metadata": {"deletionTimestamp": "2026-01-01T10:30:00Z"}}

NOT_READY: Final[Object] = {"status": {"conditions": conditions(None)}}
ON_DELETE: Final[Object] = {"spec": {"updateStrategy": {"type": "OnDelete"}}}
OUTDATED: Final[Object] = {"metadata": {"labels": {"controller-revision-hash": "old"}}}
TAINT: Final[Object] = {"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}}
