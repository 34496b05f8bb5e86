"""What the pages show as output is what the program prints."""

from __future__ import annotations

from tests.e2e.lab import Boot
from tools import samples


def test_the_samples_are_up_to_date(boot: Boot) -> None:
    """`python -m tools.samples` would not change a page, and each sample is on one."""
    found = samples.made(boot(samples.NODES))
    texts = {page: page.read_text() for page in samples.pages()}
    assert {page: samples.filled(text, found) for page, text in texts.items()} == texts
    assert {name for text in texts.values() for name, *_ in samples.BLOCK.findall(text)} == found.keys()
