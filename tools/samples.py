"""Write the samples of output into README.md and docs: what one fleet on the embedded cluster really printed.

    python -m tools.samples    boot a cluster with three GPU nodes, and write them (a minute)

A sample is the block that follows a line `<!-- sample: NAME -->`. What differs between two fleets is replaced: times,
durations, suffixes of pods, and the order of lines that belong together. tests/e2e/test_samples.py compares the pages
with a new fleet.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devcluster.boot.cluster import Cluster
from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, NEW_CHART, PLUGIN_NAME, QUICK, Lab

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).parent.parent
NODES: Final = 3
NEWEST: Final = "580.142.01"
"""A driver whose image does not exist, on the node where the simulator is asked for that."""
BLOCK: Final = re.compile(r"(?<=^<!-- sample: )([\w-]+)( -->\n```\n)(.*?)(?=^```$)", re.MULTILINE | re.DOTALL)
TIME: Final = re.compile(r"^\d\d:\d\d:\d\d(?= )", re.MULTILINE)
AGE: Final = re.compile(r"(?:^|(?<= ))\d+[ms]\S*(?= +(?:Normal|Warning) )", re.MULTILINE)
SECONDS: Final = re.compile(r"(?<=started )\d+ s\b|(?<=[(]waited )\d+ s\b")
RELOAD: Final = re.compile(r"^  a reload .*$", re.MULTILINE)
POD: Final = re.compile(rf"\b({PLUGIN_NAME}|nvidia-driver-daemonset)-([a-z0-9]{{5}})\b")
OURS: Final = "reportingComponent=gpu-operator-post"
SUFFIXES: Final = ("46mn8", "zvzrf", "8mq8t", "7vzjl", "wgzrh", "cxcwc", "k5m2x", "p9dlt", "r4wbn")
"""For the names of pods, in the order in which the samples show them: a pod has one name in all samples."""
OF_A_NODE: Final = re.compile(r"^\S+ node (?P<node>\S+): (?P<what>restarted|Verified)")


def made(lab: Lab) -> dict[str, str]:
    """Return each sample by its name: one fleet is installed, upgraded, refreshed, and upgraded to a missing driver."""
    lab.fleet(nodes=NODES)
    lab.until(lambda: lab.label_states() == {"upgrade-done"}, "no upgrade is under way", 90)
    found = {"plan": lab.ctl("plan", "--target-window=5m").out}
    lab.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE)
    lab.until(lambda: lab.settled(NODES), "all nodes run the new driver, and their labels are quiet", 90)
    lab.deploy(dryRun=True)
    found["dry-run"] = "".join(_table(lab.log()))
    lab.deploy()
    found["run"] = _ordered(lab.log())
    command: tuple[str, ...] = ("get", "events", "-A", "--field-selector", OURS)
    heading, *rows = lab.cluster.kubectl(*command).stdout.splitlines(keepends=True)
    found["events"] = "".join(
        [heading, *sorted(rows, key=lambda row: (" Refreshed " in row, row.partition("node ")[2], row))]
    )
    lab.deploy()
    idle = ("get", "events", "-n", NAMESPACE, "--field-selector", f"{OURS},reason=NothingStale")
    found["nothing-stale"] = lab.cluster.kubectl(*idle).stdout
    found["status"] = lab.run("status", *QUICK).out
    lab.annotate("gpu-1", "driver-fault", "image-pull")
    lab.operator(chart=NEW_CHART, driver=NEWEST, **ALL_AT_ONCE)
    failed = lab.post(args=(*QUICK, "nodeTimeout=8s"))
    log = lab.log()
    found["failed-run"] = log[log.index("NODE ") :]
    found["failed-helm"] = failed.output[failed.output.rindex("Error: ") :]
    names: dict[str, str] = {}
    return {name: steady(text, names) for name, text in found.items()}


def _table(log: str) -> Iterator[str]:
    """Yield the heading and the rows of the table of nodes."""
    yield from (line for line in log.splitlines(keepends=True) if line.startswith(("NODE ", "gpu-")))


def _ordered(log: str) -> str:
    """Sort the lines about nodes, which stay where such lines are: first the restarts, then the verified plugins."""
    lines = log.splitlines(keepends=True)
    found = {number: match for number, line in enumerate(lines) if (match := OF_A_NODE.match(line))}
    ordered = sorted(found.values(), key=lambda match: (match["what"] != "restarted", match["node"]))
    for number, match in zip(found, ordered, strict=True):
        lines[number] = match.string
    return "".join(lines)


def steady(text: str, names: dict[str, str]) -> str:
    """Replace what differs between two fleets, and add the names of pods. One second passes per line with a time."""
    seconds = iter(range(18, 60))

    def suffix(found: re.Match[str]) -> str:
        if found[2] not in names:
            names[found[2]] = SUFFIXES[len(names)]
        return f"{found[1]}-{names[found[2]]}"

    text = TIME.sub(lambda _: f"12:20:{next(seconds)}", text)
    text = AGE.sub(lambda found: "7s".ljust(len(found[0])), text)
    text = RELOAD.sub(lambda found: re.sub(r"\b\d+s\b", "3s", found[0]), text)
    return SECONDS.sub("5 s", POD.sub(suffix, text))


def pages() -> list[Path]:
    """Return the documents with samples."""
    return [
        path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if BLOCK.search(path.read_text())
    ]


def filled(page: str, samples: Mapping[str, str]) -> str:
    """Return a page with its samples."""
    return BLOCK.sub(lambda found: f"{found[1]}{found[2]}{samples[found[1]].strip()}\n", page)


def main() -> None:
    """Write the pages."""
    folder = tempfile.TemporaryDirectory(prefix="gpu-operator-post-samples-")
    with folder as name, Cluster(Path(name) / "cluster") as cluster:
        cluster.up(nodes=NODES, fleet=True)
        samples = made(Lab(cluster))
    for page in pages():
        page.write_text(filled(page.read_text(), samples), encoding="utf-8")


if __name__ == "__main__":
    main()
