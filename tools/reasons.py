"""Write the reasons into docs/troubleshooting.md: every one that the program can print, as the program explains it.

python -m tools.reasons           write it
python -m tools.reasons --check   exit 1 if it is not what the code says
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hook.decide.reasons import EventReason, Reason, explained, words
from hook.objects.stacks import NETWORK_OPERATOR, STACKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hook.objects.stacks import Stack


PAGE: Final = Path(__file__).parent.parent / "docs" / "troubleshooting.md"
MARK: Final = "<!-- Generated from here on by python -m tools.reasons (make docs); do not edit. -->\n"
HEAD: Final = """
## By reason

Each node in the log and in `status` has one of these reasons, and so has the end of a run. They do not change between
minor versions. The log has the same commands with the names that are in capitals here. **Look** changes nothing. **To
fix** changes something: run it only if its condition is true.
"""
CHAPTERS: Final = {
    Reason.VERIFIED: "A node is done with",
    Reason.NODE_SKIPPED: "A node is excluded",
    Reason.MALFORMED_OBJECT: "A node's driver is not settled",
    Reason.PLUGIN_STALE: "A node's plugin is not verified",
    Reason.NO_PLUGIN: "The whole cluster",
}
"""By the first reason of each."""
NEEDED: Final[Mapping[Reason, Callable[[Stack], object]]] = {
    Reason.HOST_DRIVER: lambda stack: stack.nodes.deploy,
    Reason.VIRTUAL_MACHINE_NODE: lambda stack: stack.nodes.deploy,
    Reason.PREREQUISITE_NOT_READY: lambda stack: stack.prerequisites,
    Reason.SLICE_MISSING: lambda stack: stack.plugin.publisher,
    Reason.SLICE_OUTDATED: lambda stack: stack.plugin.publisher,
    Reason.OPERATOR_MANAGED: lambda stack: stack.plugin.operator_managed,
    Reason.UNNAMED_PLUGIN: lambda stack: stack.plugin.containers,
}
"""Reasons that only some stacks can have: those whose row has what it is about."""
GENERIC: Final = {
    "operator": "operator",
    "policy": "policy",
    "noun": "plugin",
    "device": "a device of the driver",
    "annotated": f" With the network driver: if the node has the annotation {NETWORK_OPERATOR.nodes.safe_load}, remove "
    "that as well.",
    "tolerations": f" ({'; '.join(stack.plugin.tolerations for stack in STACKS.values())})",
}
"""Words for a text that all stacks share. The commands have the names of each stack."""


def rendered() -> str:
    """Return the page for the code as it is now, with the reasons in the order of the code."""
    by_hand, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    lines = [by_hand, MARK, HEAD]
    for reason in Reason:
        if reason in CHAPTERS:
            lines.append(f"\n**{CHAPTERS[reason]}**\n")
        lines.append(section(reason))
    lines.append("\n## Events\n\nIn addition to the reason that a run ends with:\n\n")
    lines.append("| Event | Meaning |\n|---|---|\n")
    lines.extend(f"| `{reason}` | {reason.explanation.meaning} |\n" for reason in EventReason)
    return "".join(lines)


def section(reason: Reason) -> str:
    """Return the heading of a reason, to which others link, its meaning, and each command in a block of its own."""
    stacks = [stack for stack in STACKS.values() if NEEDED.get(reason, bool)(stack)]
    texts = (reason.explanation.meaning, reason.explanation.precondition)
    meaning, precondition = (_in_general(text, stacks) for text in texts)
    looks = _commands(reason, stacks, "look", "**Look**")
    fixes = _commands(reason, stacks, "fix", f"**To fix**, {precondition}")
    return f"\n### `{reason}`\n\n{meaning}\n{looks}{fixes}"


def _in_general(text: str, stacks: Sequence[Stack]) -> str:
    """Return a text with the words of the only stack that can have the reason, or else without names."""
    specific = words(stacks[0])
    return text.format(**(specific if len(stacks) == 1 else {**specific, **GENERIC}), node="NODE")


def _commands(reason: Reason, stacks: Sequence[Stack], kind: str, title: str) -> str:
    """Return one block where all stacks agree, else one per stack; nothing without a command."""
    texts = {
        stack.operator.title: getattr(explained(reason, stack), kind).replace(" && ", " &&\n  ") for stack in stacks
    }
    if len(set(texts.values())) > 1:
        named = [f"\n{name[0].upper()}{name[1:]}:\n\n```console\n{text}\n```\n" for name, text in texts.items()]
        return f"\n{title}:\n{''.join(named)}"
    text = next(iter(texts.values()))
    return f"\n{title}:\n\n```console\n{text}\n```\n" if text else ""


def main() -> None:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description="Write the reasons into docs/troubleshooting.md.")
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    check = parser.parse_args().check
    wanted = rendered()
    if check and PAGE.read_text(encoding="utf-8") != wanted:
        sys.exit(f"{PAGE.name} is not what the code says; run: make docs")
    if not check:
        PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
