"""The golden files are what the chart renders, by default and in four variants; both versions of Helm render the same.

A review sees in them what a change does to the objects of users. ``make golden`` writes them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from devcluster import binaries
from hook.checks import settings_from
from tests.chart.rendering import CHART, ROOT, Helm, Values, config_of, container_of, documents

FOLDER: Final = Path(__file__).parent / "golden"
VARIANTS: Final[dict[str, tuple[str, ...]]] = {
    "default": (),
    "controller": (
        "--set=job.enabled=false,controller.enabled=true",
        "--set=controller.podMonitor.enabled=true,controller.prometheusRule.enabled=true",
    ),
    "both": ("--set=controller.enabled=true", "--set=stack=network"),
    "custom": (f"--values={Path(__file__).parent / 'custom.yaml'}",),
    "hardened": (f"--values={ROOT / 'examples' / 'values' / 'hardened.yaml'}",),
}
FILES: Final = sorted([*(CHART / "ci").glob("*-values.yaml"), *(ROOT / "examples" / "values").glob("*.yaml")])
ALIKE: Final[dict[str, Values]] = {
    "a duration with a leading zero": {"timeout": "08m", "controller.enabled": True},
    "numbers": {"maxParallelRestarts": 1234567, "hook.weight": -5, "ttlSecondsAfterFinished": 0},
}


def text(helm: Helm, variant: str) -> str:
    """Return what Helm renders for a variant, as text."""
    done = helm.template({}, *VARIANTS[variant])
    assert done.returncode == 0, done.stderr
    return done.stdout


def main() -> None:
    """Write each golden file."""
    helm = Helm(binaries.ensure(["helm4"])["helm4"])
    for variant in VARIANTS:
        (FOLDER / f"{variant}.yaml").write_text(text(helm, variant))


def test_golden_files(helms: dict[str, Helm]) -> None:
    """Helm 4 renders the exact text, and Helm 3 the same objects. After an intended change: ``make golden``."""
    assert {path.stem for path in FOLDER.iterdir()} == set(VARIANTS)
    for variant in VARIANTS:
        expected = (FOLDER / f"{variant}.yaml").read_text()
        assert expected == text(helms["helm4"], variant), variant
        assert documents(expected) == documents(text(helms["helm3"], variant)), variant


def test_both_helms_render_the_same(helms: dict[str, Helm]) -> None:
    """Template functions differ between versions. CI and the examples install what the files hold."""
    for name, values in ALIKE.items():
        assert helms["helm3"].render(values) == helms["helm4"].render(values), name
    for file in FILES:
        three, four = (helm.render({}, f"--values={file}") for helm in helms.values())
        assert three == four, file.name
        workloads = four.all("Job") + four.all("Deployment")
        assert workloads, file.name
        for workload in workloads:  # The program accepts its settings.
            settings_from(config_of(container_of(workload)), controller=workload["kind"] == "Deployment")
        assert file.read_text().startswith("# "), f"{file.name} does not explain its purpose"


if __name__ == "__main__":
    main()
