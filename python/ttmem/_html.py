"""What a notebook shows: bars for a snapshot, a small timeline for a block."""

from __future__ import annotations

from html import escape

from . import _frames, _sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._memory import Buffer, KindFigures, Snapshot
    from ._track import Track

# Told apart by everybody, on light and dark pages.
_COLOURS = {"dram": "#0072b2", "l1": "#d55e00", "l1_small": "#cc79a7", "trace": "#009e73"}
_LISTED = 8
_WIDTH, _HEIGHT = 480, 96
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
    shown.append(_lines("largest, by line", taken.by_line()))
    return f'<div class="ttmem">{"".join(shown)}</div>'


def _text(x: int, y: int, text: str, weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" fill="currentColor" font-weight="{weight}">{escape(text)}</text>'


def _bar(y: int, kind: str, figures: KindFigures) -> str:
    """What is used of a kind, and a tick at the peak."""
    capacity = figures.capacity_bytes or 1
    used = _BAR * min(1.0, figures.bytes / capacity)
    peak = _BAR * min(1.0, figures.peak_bytes / capacity)
    colour = _COLOURS.get(kind, "#666666")
    said = f"{_sizes.text(figures.bytes)} of {_sizes.text(capacity)}"
    said += f", peak {_sizes.text(figures.peak_bytes)}"
    top = y - 10
    return (
        f"{_text(12, y, kind)}"
        f'<rect x="{_LEFT}" y="{top}" width="{used:.2f}" height="12" fill="{colour}"/>'
        f'<rect x="{_LEFT}" y="{top}" width="{_BAR}" height="12" fill="none" stroke="#888888"/>'
        f'<rect x="{_LEFT + peak - 1:.2f}" y="{top - 2}" width="2" height="16" fill="currentColor">'
        f"<title>peak</title></rect>{_text(_LEFT + _BAR + 8, y, said)}"
    )


def _lines(title: str, sums: dict[str, int]) -> str:
    if not sums:
        return ""
    cell = '<td style="text-align:{};padding:1px 8px">'
    rows = [
        f"<tr>{cell.format('right')}{escape(_sizes.text(size))}</td>"
        f"{cell.format('left')}<code>{escape(line)}</code></td></tr>"
        for line, size in list(sums.items())[:_LISTED]
    ]
    more = len(sums) - _LISTED
    if more > 0:
        rows.append(f"<tr><td></td>{cell.format('left')}and {more} more</td></tr>")
    return f"<div>{escape(title)}</div><table>{''.join(rows)}</table>"


def block(tracked: Track) -> str:
    """The timeline of a block, its figures, and what it left behind."""
    if tracked.is_open or not tracked.timeline:
        return f'<div class="ttmem">{escape(repr(tracked))}</div>'
    parts = [f"<div><b>{escape(tracked.name or 'block')}</b></div>"]
    kinds = [kind for kind in _COLOURS if tracked.peak[kind] or tracked.before[kind]]
    parts += [_timeline(tracked, kind) for kind in kinds]
    left: dict[str, int] = {}
    for buffer in tracked.leaked:
        left[_origin(buffer)] = left.get(_origin(buffer), 0) + buffer.total_bytes
    parts.append(_lines("still held at the end, by line", left) or "<div>nothing left behind</div>")
    return f'<div class="ttmem">{"".join(parts)}</div>'


def _origin(buffer: Buffer) -> str:
    frame = _frames.user_frame(buffer.stack)
    return frame or buffer.operation or "not known"


def _timeline(tracked: Track, kind: str) -> str:
    """Steps of one kind over time, from zero to its peak."""
    points = tracked.timeline
    first, last = points[0]["time"], points[-1]["time"]
    highest = max(point.get(kind, 0) for point in points) or 1
    path, before = [], None
    for point in points:
        x = _WIDTH * (point["time"] - first) / max(1, last - first)
        y = _HEIGHT * (1 - point.get(kind, 0) / highest)
        path.append(f"M0,{_HEIGHT} L{x:.1f},{y:.1f}" if before is None else f"H{x:.1f} V{y:.1f}")
        before = y
    colour = _COLOURS[kind]
    peak, delta = _sizes.text(tracked.peak[kind]), tracked.delta[kind]
    said = f"{kind}: peak {peak}, {'+' if delta >= 0 else ''}{_sizes.text(delta)}"
    return (
        f'<figure style="margin:2px 0"><figcaption>{escape(said)}</figcaption>'
        f'<svg role="img" aria-label="{escape(said)}" width="{_WIDTH}" height="{_HEIGHT + 4}" '
        f'viewBox="0 -2 {_WIDTH} {_HEIGHT + 4}">'
        f'<path d="{" ".join(path)} H{_WIDTH} V{_HEIGHT} Z" fill="{colour}" fill-opacity="0.35" '
        f'stroke="{colour}" stroke-width="1.5"/></svg></figure>'
    )
