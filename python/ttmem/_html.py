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


def snapshot(taken: Snapshot) -> str:
    """A bar for each kind of each device, and the largest lines."""
    rows = []
    for device in taken.devices:
        name = f"device {device.id}" + (f" · {device.board}" if device.board else "")
        rows.append(f'<tr><th colspan="3" style="text-align:left">{escape(name)}</th></tr>')
        for kind, figures in device.kinds.items():
            if figures.capacity_bytes:
                rows.append(_bar(kind, figures))
    if not rows:
        rows.append("<tr><td>no device was opened</td></tr>")
    parts = [f'<table style="border-collapse:collapse">{"".join(rows)}</table>']
    if taken.lost_events:
        parts.append(f"<b>incomplete: {taken.lost_events} events were lost</b>")
    parts.append(_lines("largest, by line", taken.by_line()))
    return f'<div class="ttmem">{"".join(parts)}</div>'


def _bar(kind: str, figures: KindFigures) -> str:
    capacity = figures.capacity_bytes or 1
    used = min(100.0, 100 * figures.bytes / capacity)
    peak = min(100.0, 100 * figures.peak_bytes / capacity)
    colour = _COLOURS.get(kind, "#666666")
    said = f"{_sizes.text(figures.bytes)} of {_sizes.text(capacity)}"
    said += f", peak {_sizes.text(figures.peak_bytes)}"
    bar = (
        '<div style="position:relative;width:320px;height:12px;border:1px solid #888">'
        f'<div style="width:{used:.2f}%;height:100%;background:{colour}"></div>'
        f'<div title="peak" style="position:absolute;top:0;left:calc({peak:.2f}% - 1px);width:2px;'
        'height:100%;background:currentColor"></div></div>'
    )
    cell = '<td style="text-align:left;padding:1px 8px">'
    return f"<tr>{cell}{escape(kind)}</td>{cell}{bar}</td>{cell}{escape(said)}</td></tr>"


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
        f'<svg role="img" aria-label="{escape(said)}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 -2 {_WIDTH} {_HEIGHT + 4}">'
        f'<path d="{" ".join(path)} H{_WIDTH} V{_HEIGHT} Z" fill="{colour}" fill-opacity="0.35" '
        f'stroke="{colour}" stroke-width="1.5"/></svg></figure>'
    )
