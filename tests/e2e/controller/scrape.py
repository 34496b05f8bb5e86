"""What Prometheus would read from a controller at one moment, and which alerts would fire then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client.parser import text_string_to_metric_families

from devcluster import binaries
from tests.chart.promql import engine
from tests.chart.rendering import NAMESPACE, Helm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.samples import Sample

TARGET: Final = {"namespace": NAMESPACE, "pod": "gpu-operator-post-controller-0"}
"""What a PodMonitor adds."""
PREFIX: Final = "gpu_operator_post_"


@dataclass(frozen=True, slots=True)
class Scrape:
    """One answer of /metrics."""

    text: str

    def value(self, name: str, **labels: str) -> float:
        """Give the sum of a metric's samples with these labels; none is nothing."""
        wanted = labels.items()
        return sum(one.value for one in self._samples() if one.name == PREFIX + name and wanted <= one.labels.items())

    def alerts(self) -> set[str]:
        """Give the alerts that fire at once, as the chart renders them."""
        series = [_written(one) for one in self._samples() if one.name.startswith(PREFIX)]
        helm = Helm(binaries.ensure(["helm4"])["helm4"])
        values = {"controller.enabled": True, "controller.prometheusRule.enabled": True}
        (group,) = helm.render(values).one("PrometheusRule")["spec"]["groups"]
        asked = engine(series)
        return {rule["alert"] for rule in group["rules"] if "for" not in rule and asked.firing(rule, 0)[0.0]}

    def _samples(self) -> Iterator[Sample]:
        for family in text_string_to_metric_families(self.text):
            yield from family.samples


def _written(sample: Sample) -> str:
    """Write a sample as a series that begins now."""
    labels = ",".join(f'{name}="{value}"' for name, value in {**sample.labels, **TARGET}.items())
    return f"{sample.name}{{{labels}}} {sample.value!r}"
