"""Prepare the chart as a GitHub repository releases it, in build/release: with its names, and with its image by digest.

    python -m tools.release OWNER/NAME [--image-digest sha256:…]

The sources name no owner: a release is published under the name of the repository that it runs in.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import yaml

from devcluster.build import binaries

ROOT: Final = Path(__file__).parents[1]
CHART: Final = ROOT / "charts" / "gpu-operator-post"
TARGET: Final = ROOT / "build" / "release" / CHART.name
ICON: Final = Path("docs/icon.svg")
REGISTRY: Final = "ghcr.io"
IMAGE_DIGEST: Final = "gpu-operator-post/image-digest"
"""Annotation of the packaged chart, by which its templates name the image that was released with it."""


def prepare(repository: str, image_digest: str, target: Path = TARGET) -> None:
    """Copy the chart, and write into it where it and its image come from; its signature then stands for both."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(CHART, target)
    values = (target / "values.yaml").read_text()
    for key, value in (("registry", REGISTRY), ("repository", repository.lower())):
        values, count = re.subn(rf'(?m)^  {key}: ""$', f"  {key}: {value}", values)
        if count != 1:
            raise SystemExit(f"values.yaml has {count} places for image.{key}")
    (target / "values.yaml").write_text(values)
    _name_origin(target / "Chart.yaml", repository, image_digest)
    # The README shows the origin and the values.
    helm_docs = binaries.ensure(["helm-docs"])["helm-docs"]
    options = (f"--chart-search-root={target}", "--sort-values-order=file", "--log-level=warning")
    subprocess.run([helm_docs, *options], check=True)


def _name_origin(file: Path, repository: str, image_digest: str) -> None:
    """Name home, maintainer, icon and image in a Chart.yaml."""
    chart = yaml.safe_load(file.read_text())
    url, owner = f"https://github.com/{repository}", repository.partition("/")[0]
    image = f"{REGISTRY}/{repository.lower()}:{chart['appVersion']}"
    images = [{"name": chart["name"], "image": f"{image}@{image_digest}" if image_digest else image}]
    chart |= {
        "home": url,
        "sources": [url],
        "maintainers": [{"name": owner, "url": f"https://github.com/{owner}"}],
        "icon": f"https://raw.githubusercontent.com/{repository}/v{chart['version']}/{ICON}",
    }
    chart["annotations"]["artifacthub.io/images"] = yaml.safe_dump(images)
    if image_digest:
        chart["annotations"][IMAGE_DIGEST] = image_digest
    file.write_text(yaml.safe_dump(chart, sort_keys=False))


def main() -> None:
    """Prepare the chart."""
    parser = argparse.ArgumentParser(description="Prepare the chart as a GitHub repository releases it.")
    parser.add_argument("repository", help="OWNER/NAME")
    parser.add_argument("--image-digest", default="", help="the released image's; without it the chart names a tag")
    given = parser.parse_args()
    if given.image_digest and not re.fullmatch(r"sha256:[0-9a-f]{64}", given.image_digest):
        parser.error(f"{given.image_digest!r} is no digest")
    prepare(given.repository, given.image_digest)


if __name__ == "__main__":
    main()
