"""Claims and their pods, under their former module name."""

from hook.objects.claims import Claim, ClaimPod, claim_reader
from hook.objects.claims import read_claim_pod as claim_pod

__all__ = ["Claim", "ClaimPod", "claim_pod", "claim_reader"]
