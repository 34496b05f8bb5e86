"""The golden files are what the chart renders, and both versions of Helm render the same."""

from __future__ import annotations

from typing import Final

from tests.chart import goldenfiles as golden
from tests.chart.rendering import CHART, ROOT, Helm, Values, documents

FILES: Final = sorted([*(CHART / "ci").glob("*-values.yaml"), *(ROOT / "examples" / "values").glob("*.yaml")])
ALIKE: Final[dict[str, Values]] = {
    "a duration with a leading zero": {"timeout": "08m", "controller.enabled": True},
    "numbers": {"maxParallelRestarts": 1234567, "hook.weight": -5, "ttlSecondsAfterFinished": 0},
}
REFUSED: Final[tuple[tuple[Values, str], ...]] = (
    ({"tiemout": "5m"}, "'tiemout' not allowed"),
    ({"hook.enabled": "yes"}, "got string, want boolean"),
    ({"timeout": "25min"}, 'timeout is "25min", which is not a duration'),
    ({"job.mode": "delegate"}, "there is no controller to delegate to"),
)


def test_golden_files(helms: dict[str, Helm]) -> None:
    """Helm 4 renders the exact text, and Helm 3 the same objects. After an intended change: ``make golden``."""
    assert {path.stem for path in golden.FOLDER.iterdir()} == set(golden.VARIANTS)
    for variant in golden.VARIANTS:
        expected = (golden.FOLDER / f"{variant}.yaml").read_text()
        assert expected == golden.text(helms["helm4"], variant), variant
        assert documents(expected) == documents(golden.text(helms["helm3"], variant)), variant


def test_both_helms_render_the_same(helms: dict[str, Helm]) -> None:
    """Template functions differ between versions. CI and the examples install what the files hold."""
    for name, values in ALIKE.items():
        assert helms["helm3"].render(values) == helms["helm4"].render(values), name
    for file in FILES:
        three, four = (helm.render({}, f"--values={file}") for helm in helms.values())
        assert three == four, file.name
        assert four.all("Job") + four.all("Deployment"), file.name
        assert file.read_text().startswith("# "), f"{file.name} does not explain its purpose"


def test_both_helms_refuse_the_same(helms: dict[str, Helm]) -> None:
    """Each has its own JSON schema library."""
    for values, sentence in REFUSED:
        for name, helm in helms.items():
            assert sentence in helm.refuse(values), f"{name}: {values}"
