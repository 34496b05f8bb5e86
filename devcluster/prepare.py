"""``python3 -m devcluster.prepare``: build what the demo needs, with nothing but the standard library.

So the Python packages can be installed at the same time.
"""

from __future__ import annotations

import sys

from devcluster import binaries
from devcluster.gobuild import BuildError
from devcluster.gotoolchain import ToolchainError

if __name__ == "__main__":
    try:
        binaries.ensure(binaries.DEMO_NAMES)
    except (BuildError, ToolchainError) as error:
        sys.exit(f"devcluster: {error}")
