"""What people run after an upgrade: wait for the policy, restart everything. A hook that breaks the promises."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

DAEMONSET: Final = ("daemonset", "dra-driver-nvidia-gpu-kubelet-plugin", "-n", "nvidia-dra-driver-gpu")
STEPS: Final = (
    ("wait", "--for=jsonpath={.status.state}=ready", "clusterpolicy/cluster-policy", "--timeout=20s"),
    ("rollout", "restart", *DAEMONSET),
    ("rollout", "status", *DAEMONSET, "--timeout=2m"),
)


def main() -> int:
    """Run the steps with the kubectl that is named, until one of them fails."""
    codes = (subprocess.run([sys.argv[1], *step], check=False).returncode for step in STEPS)
    return next(filter(None, codes), 0)


if __name__ == "__main__":
    sys.exit(main())
