"""The golden files are what the chart renders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chart import goldenfiles as golden
from tests.chart.rendering import documents

if TYPE_CHECKING:
    from tests.chart.rendering import Helm


@pytest.mark.parametrize("variant", golden.VARIANTS)
def test_golden_file(helms: dict[str, Helm], variant: str) -> None:
    """Helm 4 renders the very text, and Helm 3 the same objects. After a change that is meant: ``make golden``."""
    expected = (golden.FOLDER / f"{variant}.yaml").read_text()
    assert expected == golden.text(helms["helm4"], variant)
    assert documents(expected) == documents(golden.text(helms["helm3"], variant))


def test_no_golden_file_is_left_over() -> None:
    """Each file belongs to a variant."""
    assert {path.stem for path in golden.FOLDER.iterdir()} == set(golden.VARIANTS)
