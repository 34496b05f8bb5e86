"""What a node pulls before the program can start: the image's layers, compressed, of an image that is built for it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tools.image.__main__ import build
from tools.image.commands import ImageError
from tools.image.sizes import measure

TAG: Final = "localhost/gpu-operator-post:bench"
"""None of those that `make image` and the tests give, which may be in use."""
PULLED, BASE = "image_pull_bytes", "image_base"


def image() -> dict[str, Any]:
    """Build the image of these very sources, and weigh it; nothing where it cannot be built."""
    with tempfile.TemporaryDirectory(prefix="gpu-operator-post-image-") as folder:
        archive = Path(folder) / "image.tar"
        try:
            base = build(TAG, archive)
        except ImageError as error:
            print(f"the image is not weighed: {error}", file=sys.stderr, flush=True)  # noqa: T201 - progress on the terminal
            return {PULLED: None, BASE: None}
        return {PULLED: measure(archive).compressed, BASE: base}
