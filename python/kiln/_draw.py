# SPDX-License-Identifier: MIT OR Apache-2.0
"""What notebooks show of explanations and traces: HTML and SVG without scripts, in the colours of the page."""
import html
import json
import re

_MOST = 2000  # bars of a trace; a browser is slow with more
_WIDTH, _ROW = 900, 22  # of a trace's drawing, in pixels
_FILLS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#bab0ac")


class Explanation(str):
    """What was decided for a graph, as text; in a notebook one box for each block, the details folded in."""

    def _repr_html_(self):
        return "".join(_box(head, lines) for head, lines in _parts(self))


def _parts(text):
    """Heads with the lines below them, which are indented."""
    found = []
    for line in text.splitlines():
        if line and not line.startswith(" "):
            found.append((line, []))
        elif found:
            found[-1][1].append(line)
    return found


def _box(head, lines):
    operations = [re.sub(r"^ *\[\d+\] ", "", line) for line in lines if re.match(r" *\[\d+\] (?!drop)", line)]
    fill = _FILLS[2] if head.startswith("block") else _FILLS[1] if head.startswith("unfused") else _FILLS[7]
    shown = "<br>".join(html.escape(one) for one in operations)
    rest = html.escape("\n".join(lines))
    return (f'<div style="border-left:6px solid {fill};padding:2px 8px;margin:4px 0">'
            f"<b>{html.escape(head)}</b><div style='font-family:monospace'>{shown}</div>"
            + (f"<details><summary>candidates</summary><pre>{rest}</pre></details>" if rest else "") + "</div>")


def trace(text):
    """A lane for each thread and queue, a bar for each thing that ran; the names are shown under the pointer."""
    events = json.loads(text)
    events = events["traceEvents"] if isinstance(events, dict) else events
    bars = sorted((e for e in events if e.get("ph") == "X"), key=lambda e: e["ts"])
    if not bars:
        return "<i>The trace is empty.</i>"
    names = {(e["pid"], e["tid"], e["name"]): e["args"]["name"] for e in events if e.get("ph") == "M"}
    drawn, lanes = bars[-_MOST:], []
    for bar in drawn:
        if (bar["pid"], bar["tid"]) not in lanes:
            lanes.append((bar["pid"], bar["tid"]))
    begin, end = drawn[0]["ts"], max(bar["ts"] + bar["dur"] for bar in drawn)
    kinds = sorted({bar.get("cat", "") for bar in drawn})
    parts = [_lane(number, *lane, names) for number, lane in enumerate(lanes)]
    parts += [_bar(bar, lanes.index((bar["pid"], bar["tid"])), kinds, begin, max(end - begin, 1e-3)) for bar in drawn]
    left_out = f", the last {_MOST} of {len(bars)}" if len(bars) > len(drawn) else ""
    return (f'<svg viewBox="0 0 {_WIDTH} {len(lanes) * 2 * _ROW}" width="100%" font-family="sans-serif" font-size="11">'
            f"{''.join(parts)}</svg><div>{(end - begin) / 1000:.3f} ms, {len(drawn)} things{left_out}: "
            + ", ".join(f'<span style="color:{_fill(kinds, kind)}">{html.escape(kind)}</span>' for kind in kinds) + "</div>")


def _fill(kinds, kind):
    return _FILLS[kinds.index(kind) % len(_FILLS)]


def _lane(number, pid, tid, names):
    name = f"{names.get((pid, 0, 'process_name'), pid)}, {names.get((pid, tid, 'thread_name'), tid)}"
    return f'<text x="0" y="{number * 2 * _ROW + 14}" fill="currentColor">{html.escape(name)}</text>'


def _bar(bar, lane, kinds, begin, span):
    x, width = (bar["ts"] - begin) / span * _WIDTH, max(bar["dur"] / span * _WIDTH, 0.5)
    about = ", ".join(f"{key} {value}" for key, value in bar.get("args", {}).items())
    title = html.escape(f"{bar['name']}: {bar['dur']:.1f} us ({bar.get('cat', '')}) {about}".rstrip())
    return (f'<rect x="{x:.2f}" y="{lane * 2 * _ROW + _ROW - 2}" width="{width:.2f}" height="{_ROW - 4}" '
            f'fill="{_fill(kinds, bar.get("cat", ""))}"><title>{title}</title></rect>')
