"""Remove from a Python environment what the program never imports.

Runs in the image's build stage, before the bytecode is compiled: ``python trim.py SITE_PACKAGES``. It needs the
standard library only. What may go is listed with its reason, and tests run every command of the program in an
environment that was trimmed by this very file.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ASYNCIO_CLIENT = (
    "aiohappyeyeballs",
    "aiohttp",
    "aiohttp_retry",
    "aiosignal",
    "attr",
    "attrs",
    "frozenlist",
    "multidict",
    "propcache",
    "yarl",
)
"""Imported by ``kubernetes.aio`` alone, the client library's second face; the program uses threads."""

TIME_ZONES = ("tzdata",)
"""The program writes UTC; what its libraries ask for time zones is the system's database, and an absent one is UTC."""

VALIDATION = ("annotated_types", "pydantic", "pydantic_core", "typing_inspection")
"""A quarter of what would remain. The client library describes one answer with it, in a class that the program never
uses: `STAND_IN` has the names that are imported."""

STAND_IN = '''"""Stands in for pydantic: the names that the Kubernetes client library imports."""


class BaseModel:
    """A base without validation."""


SecretStr = StrictBytes = StrictInt = object


def Field(*_values, **_named):
    """Describe nothing."""
'''

COMPILED = ("charset_normalizer/*.so", "yaml/*.so")
"""Faster twins of Python modules, for megabytes of text: the program reads a kubeconfig with them."""

INSTALLERS = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence.pth")
"""Nothing is installed into an image that exists."""

DISTRIBUTIONS = (*ASYNCIO_CLIENT, *TIME_ZONES, *VALIDATION, *INSTALLERS)

MODELS = ("kubernetes/client/api", "kubernetes/client/models")
"""Generated classes, half of the library. It loads them one by one when they are used; the program has its own Structs
(docs/dev/decisions/0003-structs-of-our-own.md). Their ``__init__`` stays, because it is imported."""

WHOLE = ("kubernetes/aio",)

SCRIPTS = "bin"
PYTHON = "python"


def trim(site: Path) -> None:
    """Remove everything that is listed. A part of the client library that is not there is an error: the list is old."""
    for name in DISTRIBUTIONS:
        _remove_distribution(site, name)
    for name in WHOLE:
        shutil.rmtree(site / name)
    for name in MODELS:
        _remove_modules(site / name)
    for pattern in COMPILED:
        for path in site.glob(pattern):
            path.unlink()
    (site / "pydantic.py").write_text(STAND_IN, encoding="utf-8")
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


def _remove_modules(package: Path) -> None:
    """Remove all modules of a package but the package itself."""
    for module in sorted(package.glob("*.py")):
        if module.name != "__init__.py":
            module.unlink()


def main() -> None:
    """Trim the environment of the interpreter that runs this, or the folder that is named."""
    site = Path(sys.argv[1])
    trim(site)
    scripts = site.parents[2] / SCRIPTS
    if scripts.is_dir():
        trim_scripts(scripts)


if __name__ == "__main__":
    main()
