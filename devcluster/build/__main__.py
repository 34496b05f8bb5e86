"""``python3 -m devcluster.build [NAME…]``: build these programs, or the demo's, with the standard library alone.

So the Python packages can be installed at the same time.
"""

from __future__ import annotations

import sys

from devcluster.build import binaries
from devcluster.build.gobuild import BuildError
from devcluster.build.gotoolchain import ToolchainError

if __name__ == "__main__":
    try:
        binaries.ensure(sys.argv[1:] or binaries.DEMO_NAMES)
    except (BuildError, ToolchainError) as error:
        sys.exit(f"devcluster: {error}")
