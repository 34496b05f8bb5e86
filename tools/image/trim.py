"""Remove from a Python environment what the program never imports.

Runs in the image's build stage, before the bytecode is compiled: ``python trim.py SITE_PACKAGES``. It needs the
standard library only. What may go is listed with its reason, and tests run every command of the program in an
environment that was trimmed by this very file.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

COMPILED = ("yaml/*.so",)
"""Faster twins of Python modules, for megabytes of text: the program reads a kubeconfig with the others."""

INSTALLERS = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence.pth")
"""Nothing is installed into an image that exists."""

SCRIPTS = "bin"
PYTHON = "python"


def trim(site: Path) -> None:
    """Remove everything that is listed."""
    for name in INSTALLERS:
        _remove_distribution(site, name)
    for pattern in COMPILED:
        for path in site.glob(pattern):
            path.unlink()
    for folder in sorted(site.rglob("__pycache__")):
        shutil.rmtree(folder)


def trim_scripts(folder: Path) -> None:
    """Leave only the interpreter: the others are for people, or name modules that are gone."""
    for script in sorted(folder.iterdir()):
        if not script.name.startswith(PYTHON):
            script.unlink()


def _remove_distribution(site: Path, name: str) -> None:
    """Remove a package with its metadata, so that no scanner reports it."""
    found = [site / name, *site.glob(f"{name}-*.dist-info"), *site.glob(f"{name}-*.egg-info")]
    for path in (each for each in found if each.exists()):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def main() -> None:
    """Trim the environment of the interpreter that runs this, or the folder that is named."""
    site = Path(sys.argv[1])
    trim(site)
    scripts = site.parents[2] / SCRIPTS
    if scripts.is_dir():
        trim_scripts(scripts)


if __name__ == "__main__":
    main()
