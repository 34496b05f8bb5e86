"""The HTML page of ``report``: one file without scripts or other files, to attach to a ticket."""

from __future__ import annotations

from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Final

from ctl.plan.harm import harms
from hook import __version__
from hook.decide import freshness
from hook.decide.fleet import NodeView, live_pods
from hook.decide.result import NodeState, headline
from hook.format import printable, timestamp
from hook.run import report
from hook.run.status import advice, controller_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from ctl.plan.harm import PassthroughClaims
    from ctl.plan.result import Finding
    from hook.decide.fleet import Fleet
    from hook.decide.result import Decision, NodeStatus
    from hook.run.status import View

COLORS: Final = {
    NodeState.FAILED: "#b3261e",
    NodeState.STALE: "#d98200",
    NodeState.WAITING: "#7a869a",
    NodeState.RESTARTING: "#5b6fd6",
    NodeState.VERIFYING: "#2a7fbf",
    NodeState.VERIFIED: "#2e7d32",
    NodeState.EXCLUDED: "#b8bec9",
}
"""The states, the most urgent first."""
LONGEST_SPAN: Final = timedelta(days=1)
"""Of the time axis, up to the last event: a driver that loaded earlier is at the left edge."""
WIDTH: Final = 300
"""Of a timeline, in pixels."""
STYLE: Final = """
body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 1rem;color:#1f2933;background:#fff}
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.3rem .6rem}
tr{border-bottom:1px solid #dde2e8}th{background:#f1f4f7}pre{white-space:pre-wrap;background:#f1f4f7;padding:.8rem}
td,pre{overflow-wrap:anywhere}td:nth-child(2){white-space:nowrap}
.grid{display:flex;flex-wrap:wrap;gap:4px;margin:1rem 0}
.grid a,.state{color:#fff;border-radius:3px;text-decoration:none}
.grid a{width:22px;height:22px;text-align:center;font-size:12px;line-height:22px}.state{padding:1px 6px}
.key span{margin-right:1rem}svg{display:block;width:100%;min-width:12rem;max-width:300px}
circle{stroke-width:2px}small{color:#52606d}
@media(max-width:44rem){body{margin:1rem auto}h1{font-size:1.3rem}th{display:none}table,tbody,tr,td{display:block}
td{padding:.1rem 0}tr{padding:.5rem 0}}
"""


def page(view: View, claims: PassthroughClaims) -> str:
    """Return the page."""
    warnings = [*(f"WARNING {each}" for each in view.decision.warnings), *filter(None, [view.problem])]
    title = _text(_title(view.decision))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>{STYLE}</style></head><body>
<h1>{title}</h1>
<p>{_text(headline(view.decision))}. {_text(report.counts_line(view.decision))}.</p>
<p>Read at {view.now:%Y-%m-%d %H:%M:%S} UTC by gpu-operator-post {__version__}. All times are UTC.</p>
{_preformatted([*warnings, *map(_harm, harms(view.fleet.context, claims))])}
<div class="grid">{"".join(map(_square, _urgent_first(view)))}</div>
<p class="key">{"".join(f"<span>{_badge(state)}</span>" for state in COLORS if view.decision.count(state))}</p>
{_advised(view)}
<h2>Nodes</h2>
<p>All timelines have the same axis. Above: the driver loads (gray) and is ready (blue). Below: the plugin runs (gray),
is verified (a circle, then green) or stale (orange). A node is <em>verified</em> since its plugin became ready on this
driver.</p>
<table><tr><th>Node</th><th>State</th><th>Timeline</th><th>Detail</th></tr>
{"".join(_rows(view))}</table>
{_affected(view)}{_preformatted(controller_lines(view.found))}
</body></html>"""


def _title(decision: Decision) -> str:
    """Return what is wrong, else how far the nodes are."""
    nodes = {state: len({each.node for each in decision.statuses if each.state is state}) for state in COLORS}
    failed, stale = nodes[NodeState.FAILED], nodes[NodeState.STALE]
    wrong = [f"{failed} failed" if failed else "", f"{stale} with a stale plugin" if stale else ""]
    if any(wrong):
        return f"GPU nodes: {' and '.join(filter(None, wrong))}"
    if decision.unhappy or not decision.statuses:
        return headline(decision)
    return report.progress(decision)


def _harm(finding: Finding) -> str:
    return f"{finding.severity.upper()} {finding.obstacle}: {finding.message}. Next: {finding.remedy}"


def _text(text: str) -> str:
    """Return a text for HTML. Names and messages come from the cluster."""
    return escape(printable(text))


def _advised(view: View) -> str:
    """Return the advice. Each command stands on a line of its own, so that it can be copied."""
    advised = advice(view.decision, view.found, view.fleet.stack)
    text = "\n\n".join("\n".join(map(escape, each.lines)) for each in advised)
    return f"<pre>{text}</pre>" if text else ""


def _preformatted(lines: Iterable[str]) -> str:
    text = "\n\n".join(map(_text, lines))
    return f"<pre>{text}</pre>" if text else ""


def _badge(state: NodeState) -> str:
    return f'<span class="state" style="background:{COLORS[state]}">{state}</span>'


def _urgent_first(view: View) -> list[NodeStatus]:
    return sorted(view.decision.statuses, key=lambda status: list(COLORS).index(status.state))


def _square(status: NodeStatus) -> str:
    title = _text(f"{status.node}: {status.state} ({status.reason})")
    link = f'href="#{_text(status.node)}" title="{title}" style="background:{COLORS[status.state]}"'
    return f"<a {link}>{status.state[0]}</a>"


def _rows(view: View) -> Iterator[str]:
    times = {id(status): times_of(view.fleet, status) for status in view.decision.statuses}
    known = [time for found in times.values() for time in found.values()]
    last = max(known, default=view.now)
    first = max(min(known, default=view.now), last - LONGEST_SPAN)
    for status in _urgent_first(view):
        shown = ", ".join(f"{name} {_moment(time, view.now)}" for name, time in times[id(status)].items())
        yield (
            f'<tr id="{_text(status.node)}"><td>{_text(status.node)}<br><small>{_text(status.plugin)}</small></td>'
            f"<td>{_badge(status.state)}<br><small>{status.reason}</small></td>"
            f"<td>{_timeline(status, times[id(status)], first, last)}<small>{shown}</small></td>"
            f"<td>{_text(status.message)}</td></tr>\n"
        )


def _moment(time: datetime, now: datetime) -> str:
    """Return a time of day, with the date if that is another one."""
    return f"{time:%H:%M:%SZ}" if time.date() == now.date() else f"{time:%Y-%m-%d %H:%M:%SZ}"


def times_of(fleet: Fleet, status: NodeStatus) -> dict[str, datetime]:
    """Return when driver and plugin started (`driver`, `plugin`), and were `ready` and `verified`, where known.

    A plugin is verified since it became ready.
    """
    node = fleet.nodes.get(status.node) or NodeView(status.node, None)
    drivers, plugins = live_pods(node.driver_pods), live_pods(node.plugin_pods)
    plugins = [pod for pod in plugins if str(pod) == status.subject] or plugins
    times: dict[str, datetime | None] = {}
    if len(drivers) == 1:
        times["driver"] = freshness.driver_started(drivers[0], fleet.stack)
        times["ready"] = freshness.ready_since(drivers[0], fleet.stack.driver.container)
    starts = [each.started_at for pod in plugins for each in pod.containers if each.started_at is not None]
    times["plugin"] = min(starts, default=None)
    if status.state is NodeState.VERIFIED:
        times["verified"] = max(filter(None, (pod.containers_ready_since for pod in plugins)), default=None)
    return {name: time for name, time in times.items() if time is not None}


def _timeline(status: NodeStatus, times: Mapping[str, datetime], first: datetime, last: datetime) -> str:
    """Return a picture of a node's driver and plugin. It ends some time after the last event of the fleet."""
    span = max((last - first).total_seconds(), 1.0) * 1.1

    def position(time: datetime) -> float:
        return max(0.0, (time - first).total_seconds() / span * WIDTH)

    def bar(start: datetime | None, end: datetime | None, top: int, color: str) -> str:
        if start is None:
            return ""
        left, right = position(start), position(end) if end is not None else float(WIDTH)
        return f'<rect x="{left:.1f}" y="{top}" width="{max(right - left, 1.0):.1f}" height="8" fill="{color}"/>'

    driver, ready, plugin, verified = map(times.get, ("driver", "ready", "plugin", "verified"))
    bars = (
        bar(driver, ready, 1, COLORS[NodeState.WAITING]),
        bar(ready, None, 1, COLORS[NodeState.VERIFYING]),
        bar(plugin, verified, 12, COLORS[NodeState.STALE if status.stale is not None else NodeState.WAITING]),
        bar(verified, None, 12, COLORS[NodeState.VERIFIED]),
        _mark(max(position(verified), 5.0), verified) if verified is not None else "",
    )
    return f'<svg viewBox="0 0 {WIDTH} 22" role="img" aria-label="timeline">{"".join(bars)}</svg>'


def _mark(left: float, verified: datetime) -> str:
    """Return the circle at the time since which a node is verified."""
    title = f"<title>verified since {timestamp(verified)}</title>"
    return f'<circle cx="{left:.1f}" cy="16" r="4" fill="#fff" stroke="{COLORS[NodeState.VERIFIED]}">{title}</circle>'


def _affected(view: View) -> str:
    """Return the table of the pods that may hold files of an old driver."""
    if not view.affected.pods:
        return f"<p>Pods that may hold files of an old driver: {_text(view.affected.unknown or 'none')}.</p>"
    rows = [
        f"<tr><td>{_text(str(pod))}</td><td>{_text(pod.node)}</td>"
        f"<td>{timestamp(pod.started)}</td><td>{_text(', '.join(pod.claims))}</td></tr>\n"
        for pod in view.affected.pods
    ]
    head = "<tr><th>Pod</th><th>Node</th><th>Started</th><th>Claims</th></tr>"
    return f"<h2>Pods that may hold files of an old driver</h2><table>{head}\n{''.join(rows)}</table>\n"
