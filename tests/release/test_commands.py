"""Commands for readers, in pages, messages and comments: they run no pod, and name a custom kind with its group."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from hook.objects.names import PLUGIN_DAEMONSETS, PLUGIN_SELECTOR_VALUE
from hook.objects.stacks import GPU_OPERATOR, STACKS
from tests.chart.rendering import ROOT

KUBECTL: Final = re.compile(r"(?<=`)kubectl [^`]{1,300}(?=`)|(?:\bkubectl\b|\"\$KUBECTL\")[^`\n]*")
"""A command until its end: that of the code, which may go over a line, or of the line."""
RUNS_A_POD: Final = re.compile(r"kubectl\b[^`|;&\n]* (?:run|debug)\b|--overrides")
TOOLS: Final = {
    "helm.toolkit.fluxcd.io": "helmrelease helmreleases hr",
    "kustomize.toolkit.fluxcd.io": "kustomization kustomizations ks",
    "source.toolkit.fluxcd.io": "ocirepository ocirepositories helmrepository helmrepositories helmchart helmcharts",
    "argoproj.io": "application applications app apps appproject appprojects",
    "monitoring.coreos.com": "podmonitor podmonitors prometheusrule prometheusrules",
    "nvidia.com": "gpucluster gpuclusters",
    "resource.nvidia.com": "computedomain computedomains",
}
"""Group -> how kubectl also calls its kinds: in the singular, in the plural, and short."""


def _kinds() -> Iterator[str]:
    """Yield each name of a custom kind without its group."""
    yield from " ".join(TOOLS.values()).split()
    for stack in STACKS.values():
        for kind in filter(None, (stack.policy, stack.pool)):
            yield from (kind.plural, kind.kind.lower())


OBJECTS: Final = ROOT / "tests" / "fixtures" / "api"
BARE: Final = re.compile(rf"(?<![\w.\-/$=])({'|'.join(_kinds())})(?![\w\-]|\.(?:\w|/))")
"""A name in lower case that is a whole word, and that no group follows; a path or a part of a name is none."""


def _texts() -> Iterator[tuple[str, str]]:
    """Yield the name and text of each file that the project publishes; tests have clusters of their own."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in listed:
        path = ROOT / name
        if not name.startswith("tests/") and path.suffix not in {".svg", ".png", ".sum"} and path.is_file():
            yield name, path.read_text().replace("\\\n", " ")


def _bare(text: str) -> list[str]:
    """Return each kubectl command of a text that names a custom kind without its group."""
    return [command for command in KUBECTL.findall(text) if BARE.search(command)]


def test_a_custom_kind_has_its_group() -> None:
    """`kubectl get clusterpolicies` shows Kyverno's where both are installed."""
    assert [f"{name}: {command}" for name, text in _texts() for command in _bare(text)] == []


def test_no_page_runs_a_pod() -> None:
    """Such a pod lacks what admission, quotas and registries demand of ours, and what ours has from the values."""
    assert [name for name, text in _texts() if Path(name).suffix in {".md", ".txt"} and RUNS_A_POD.search(text)] == []


def test_the_readme_selects_drivers_and_plugins() -> None:
    """Its two lines for kubectl find the pods and the container of a real cluster, with both names of the plugin."""
    text = (ROOT / "README.md").read_text()
    driver, plugin = (yaml.safe_load((OBJECTS / f"{kind}-pod.yaml").read_text()) for kind in ("driver", "plugin"))
    selectors = dict(re.findall(r"get pods -A -l ([\w./-]+)=([\w-]+) ", text))
    labels = {**driver["metadata"]["labels"], **plugin["metadata"]["labels"]}
    assert len(selectors) == 2
    assert selectors.items() <= labels.items()
    assert f'[?(@.name=="{GPU_OPERATOR.driver.container}")].state.running.startedAt' in text
    for name in PLUGIN_DAEMONSETS:
        assert f"{name.removesuffix('-kubelet-plugin')}-component={PLUGIN_SELECTOR_VALUE}" in text
