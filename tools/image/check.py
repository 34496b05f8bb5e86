"""Find out whether the image can be built and run here, on a real node: ``python -m tools.image.check``.

It gets or makes the image's base on the way.
What then fails in a build is a fault of ours, and no lack of this machine.
"""

from __future__ import annotations

import sys

from devcluster.kubelet.node import why_not
from tools.image.__main__ import bases, find_builder
from tools.image.commands import CannotBuildError, say


def main() -> int:
    """Print why the image cannot be built or run, if it cannot."""
    if reason := why_not():
        say(reason)
        return 1
    try:
        bases(find_builder())
    except CannotBuildError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
