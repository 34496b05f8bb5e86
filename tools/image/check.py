"""Find out whether the image can be built here, after getting or making its base: ``python -m tools.image.check``.

What then fails in a build is a fault of ours, and no lack of this machine.
"""

from __future__ import annotations

import sys

from tools.image.__main__ import bases, find_builder
from tools.image.commands import CannotBuildError, say


def main() -> int:
    """Print why the image cannot be built, if it cannot."""
    try:
        bases(find_builder())
    except CannotBuildError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
