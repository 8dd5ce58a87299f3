"""What a notebook shows: bars for a snapshot, a small timeline for a block."""

from __future__ import annotations

from html import escape

from . import _account, _frames, _sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._account import Kind, KindFigures, Snapshot
    from ._track import Track

# Told apart by everybody, on light and dark pages.
_COLOURS: dict[Kind, str] = {"dram": "#0072b2", "l1": "#d55e00", "l1_small": "#cc79a7", "trace": "#009e73"}
# As the program's screens call them.
_LABELS: dict[Kind, str] = {"dram": "DRAM", "l1": "L1 buffers", "l1_small": "L1_SMALL", "trace": "TRACE"}
_LISTED = 8
# Of a timeline: the graph, room for the scale beside it and for the time below.
_WIDTH, _HEIGHT, _SCALE, _TIME = 480, 96, 80, 16
# Of the bars: a row, where they begin, how long they are, and room for figures behind them.
_ROW, _LEFT, _BAR, _WIDE = 20, 90, 320, 720


def snapshot(taken: Snapshot) -> str:
    """A bar for each kind of each device, and the largest lines."""
    parts, y = [], 0
    for device in taken.devices:
        name = f"device {device.id}" + (f" · {device.board}" if device.board else "")
        y += _ROW
        parts.append(_text(0, y, name, "bold"))
        for kind, figures in device.kinds.items():
            if figures.capacity_bytes:
                y += _ROW
                parts.append(_bar(y, kind, figures))
    shown = ["<div>no device was opened</div>"]
    if parts:
        shown = [
            f'<svg role="img" aria-label="memory of each device" width="{_WIDE}" '
            f'height="{y + _ROW // 2}" font-family="sans-serif" font-size="12">'
            f"{''.join(parts)}</svg>"
        ]
    if taken.lost_events:
        shown.append(f"<div><b>incomplete: {taken.lost_events} events were lost</b></div>")
    shown.append(_lines(f"largest{_on(len(taken.devices))}, by line", taken.by_line()))
    return f'<div class="ttmem">{"".join(shown)}</div>'


def _on(devices: int) -> str:
    """What a sum over several devices has behind it."""
    return f" on {devices} devices" if devices > 1 else ""


def _text(x: int, y: int, text: str, weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" fill="currentColor" font-weight="{weight}">{escape(text)}</text>'


def _bar(y: int, kind: Kind, figures: KindFigures) -> str:
    """What is used of a kind, and a tick at the peak."""
    capacity = figures.capacity_bytes or 1
    used = _BAR * min(1.0, figures.bytes / capacity)
    peak = _BAR * min(1.0, figures.peak_bytes / capacity)
    colour = _COLOURS.get(kind, "#666666")
    said = f"{_sizes.text(figures.bytes)} of {_sizes.text(capacity)}"
    said += f", peak {_sizes.text(figures.peak_bytes)}"
    top = y - 10
    tick = (
        f'<rect x="{_LEFT + peak - 1:.2f}" y="{top - 2}" width="2" height="16" fill="currentColor">'
        "<title>peak</title></rect>"
    )
    return (
        f"{_text(12, y, _LABELS.get(kind, kind))}"
        f'<rect x="{_LEFT}" y="{top}" width="{used:.2f}" height="12" fill="{colour}"/>'
        f'<rect x="{_LEFT}" y="{top}" width="{_BAR}" height="12" fill="none" stroke="#888888"/>'
        f"{tick if figures.peak_bytes else ''}{_text(_LEFT + _BAR + 8, y, said)}"
    )


def _lines(title: str, sums: dict[str, int]) -> str:
    if not sums:
        return ""
    cell = '<td style="text-align:{};padding:1px 8px">'
    rows = [
        f"<tr>{cell.format('right')}{escape(_sizes.text(size))}</td>"
        f"{cell.format('left')}<code>{escape(_in_cells(line))}</code></td></tr>"
        for line, size in list(sums.items())[:_LISTED]
    ]
    more = len(sums) - _LISTED
    if more > 0:
        rows.append(f"<tr><td></td>{cell.format('left')}and {more} more</td></tr>")
    return f'<div style="margin-top:6px">{escape(title)}</div><table>{"".join(rows)}</table>'


def _in_cells(lines: str) -> str:
    """The same for a line and those that called it."""
    between = _account.CALLED_FROM
    return between.join(_in_cell(line) for line in lines.split(between))


def _in_cell(line: str) -> str:
    """`Cell In[3], line 8` of a line in a file that IPython made for a cell."""
    import sys

    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name = getattr(getattr(shell, "compile", None), "format_code_name", None)
    place = _frames.place(line)
    file, _colon, number = place.rpartition(":")
    cell = name(file) if name is not None and file else None
    return line if cell is None else f"{' '.join(cell)}, line {number}{line[len(place) :]}"


def block(tracked: Track) -> str:
    """The timeline of a block, its figures, and what it left behind."""
    if tracked.is_open or not tracked.timeline:
        return f'<div class="ttmem">{escape(repr(tracked))}</div>'
    parts = [f"<div><b>{escape(tracked.name or 'block')}</b></div>"]
    kinds = [kind for kind in _COLOURS if tracked.peak[kind] or tracked.before[kind]]
    parts += [_timeline(tracked, kind) for kind in kinds]
    left: dict[str, int] = {}
    for buffer in tracked.leaked:
        left[buffer.origin] = left.get(buffer.origin, 0) + buffer.total_bytes
    title = f"still held at the end{_on(len(tracked.devices))}, by line"
    parts.append(_lines(title, left) or "<div>nothing left behind</div>")
    return f'<div class="ttmem">{"".join(parts)}</div>'


def _timeline(tracked: Track, kind: Kind) -> str:
    """Steps of one kind over time, from zero to its peak; of one that never changed, its size."""
    points = tracked.timeline
    heights = [point.held[kind] for point in points]
    highest = max(heights)
    on = _on(len(tracked.devices))
    if min(heights) == highest and tracked.peak[kind] == highest:
        return f"<div>{_LABELS[kind]}: {_sizes.text(highest)}{on} throughout</div>"
    first, last = points[0].time, points[-1].time
    path: list[str] = []
    for point, height in zip(points, heights):
        x = _WIDTH * (point.time - first) / max(1, last - first)
        y = _HEIGHT * (1 - height / (highest or 1))
        path.append(f"H{x:.1f} V{y:.1f}" if path else f"M0,{_HEIGHT} L{x:.1f},{y:.1f}")
    colour = _COLOURS[kind]
    peak, delta = _sizes.text(tracked.peak[kind]), tracked.delta[kind]
    said = f"{_LABELS[kind]}: peak {peak}, {'+' if delta >= 0 else ''}{_sizes.text(delta)}{on}"
    wide, high = _WIDTH + _SCALE, _HEIGHT + _TIME + 4
    return (
        f'<figure style="margin:2px 0"><figcaption>{escape(said)}</figcaption>'
        f'<svg role="img" aria-label="{escape(said)}" width="{wide}" height="{high}" '
        f'viewBox="0 -2 {wide} {high}" font-family="sans-serif" font-size="12">'
        f'<path d="{" ".join(path)} H{_WIDTH} V{_HEIGHT} Z" fill="{colour}" fill-opacity="0.35" '
        f'stroke="{colour}" stroke-width="1.5"/>'
        f"{_text(_WIDTH + 6, 10, _sizes.text(highest))}{_text(_WIDTH + 6, _HEIGHT, '0 B')}"
        f"{_text(0, _HEIGHT + 14, f'{_duration(tracked.seconds)} from begin to end')}</svg></figure>"
    )


def _duration(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.1f} {unit}"
    return f"{seconds * 1e6:.0f} µs"
