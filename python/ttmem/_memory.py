"""Figures of this process: what it holds, its peaks, and the buffers behind them."""

from __future__ import annotations

from . import _frames, _library, _sizes
from ._errors import TtmemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Protocol, Union

    class HasId(Protocol):
        """A device of ttnn."""

        def id(self) -> int: ...

    class HasDeviceIds(Protocol):
        """A mesh device of ttnn; of late releases a single device is one, too."""

        def get_device_ids(self) -> Iterable[int]: ...

    Device = Union[int, HasId, HasDeviceIds, None]

KINDS = ("dram", "l1", "l1_small", "trace", "system", "cb", "kernel")
"""What `kind` may be. `cb` and `kernel` are what all live programs have registered on the cores."""

MAX_ROWS = 10_000


class KindFigures:
    """One kind of memory on one device, in bytes."""

    __slots__ = ("bytes", "capacity_bytes", "count", "peak_bytes")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.bytes: int = fields["bytes"]
        """What this process holds."""
        self.peak_bytes: int = fields["peak_bytes"]
        """The most it held since the start or the last reset."""
        self.capacity_bytes: int | None = fields["capacity_bytes"]
        """What the allocator can hand out; None where there is none, or it is not known."""
        self.count: int = fields["count"]
        """Buffers, circular buffers or kernels."""

    @property
    def free_bytes(self) -> int | None:
        """What this process's allocator can still hand out."""
        if self.capacity_bytes is None:
            return None
        return max(0, self.capacity_bytes - self.bytes)

    def __repr__(self) -> str:
        held = f"{_sizes.text(self.bytes)}, peak {_sizes.text(self.peak_bytes)}"
        if self.capacity_bytes is not None:
            held += f", of {_sizes.text(self.capacity_bytes)}"
        return f"<{held}>"


class DeviceMemory:
    """What this process holds on one device."""

    __slots__ = ("board", "id", "kinds", "unique_id")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.id: int | None = fields["id"]
        """The number that ttnn gives the device."""
        self.unique_id: str | None = fields["unique_id"]
        self.board: str | None = fields["board"]
        self.kinds: dict[str, KindFigures] = {
            kind: KindFigures(figures) for kind, figures in fields["kinds"].items()
        }

    def __repr__(self) -> str:
        held = ", ".join(f"{k} {v!r}" for k, v in self.kinds.items() if v.bytes or v.peak_bytes)
        return f"<device {self.id} ({self.board or 'board not known'}): {held or 'nothing'}>"


class Buffer:
    """A live buffer."""

    __slots__ = (
        "address",
        "bytes",
        "devices",
        "kind",
        "layout",
        "operation",
        "order",
        "requested_bytes",
        "stack",
    )

    def __init__(self, fields: dict[str, Any], texts: dict[str, str]) -> None:
        operation, *stack = texts.get(str(fields["text"]), "").split("\n")
        self.kind: str = fields["kind"]
        self.address: int = fields["address"]
        """Its address in every bank."""
        self.bytes: int = fields["bytes"]
        """What the allocator takes for it on each of its devices."""
        self.requested_bytes: int = fields["requested_bytes"]
        self.layout: str = fields["layout"]
        self.devices: tuple[int | None, ...] = tuple(fields["devices"])
        self.order: int = fields["order"]
        """The event of this process that placed it: no two buffers have the same."""
        self.operation: str | None = operation or None
        """The operation of ttnn that placed it, where it is known."""
        self.stack: tuple[str, ...] = tuple(stack)
        """The Python stack behind it as `file:line function`, innermost frame first."""

    @property
    def total_bytes(self) -> int:
        """What it takes on all its devices together."""
        return self.bytes * len(self.devices)

    @property
    def line(self) -> str | None:
        """The line of your code that placed it, as `/path/model.py:57`.

        None where lines are not recorded: `ttmem run` and `ttmem.attach()` record them.
        """
        frame = _frames.user_frame(self.stack)
        return None if frame is None else _frames.place(frame)

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines of your code behind it, innermost first: a helper, and who called it."""
        return tuple(_frames.place(each) for each in self.stack if _frames.is_users_code(each))

    def __repr__(self) -> str:
        operation = f" of {self.operation}" if self.operation else ""
        line = f" at {self.line}" if self.line else ""
        on = f" on each of {len(self.devices)} devices" if len(self.devices) > 1 else ""
        return f"<{_sizes.text(self.bytes)} of {self.kind}{on}{operation}{line}>"


class Snapshot:
    """What this process holds at one moment; a notebook shows it as bars."""

    __slots__ = ("buffer_bytes", "buffer_count", "buffers", "devices", "lost_events", "untracked")

    def __init__(self, answer: dict[str, Any]) -> None:
        self.devices: tuple[DeviceMemory, ...] = devices_of(answer)
        self.buffers: tuple[Buffer, ...] = buffers_of(answer)
        """The largest buffers, largest first."""
        self.buffer_count: int = answer["row_count"]
        """All live buffers, also those that are not listed."""
        self.buffer_bytes: int = answer["row_bytes"]
        self.lost_events: int = answer["lost_events"]
        """Reports that were lost: if this is not 0, no figure here can be relied on."""
        self.untracked: tuple[str, ...] = tuple(answer["untracked"])
        """What is not tracked of this release of ttnn."""

    def by_line(self) -> dict[str, int]:
        """Bytes of the listed buffers on all devices by the line that placed them, most first."""
        sums: dict[str, int] = {}
        for buffer in self.buffers:
            line = buffer.line or buffer.operation or "not known"
            sums[line] = sums.get(line, 0) + buffer.total_bytes
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def __repr__(self) -> str:
        held = _sizes.text(self.buffer_bytes)
        return f"<{self.buffer_count} buffers, {held} on {len(self.devices)} devices>"

    def __str__(self) -> str:
        return summary_of(self.devices, self)

    def _repr_html_(self) -> str:
        from . import _html

        return _html.snapshot(self)


def devices_of(answer: dict[str, Any]) -> tuple[DeviceMemory, ...]:
    """The devices of an answer; those that this process has not described come last."""
    devices = (DeviceMemory(fields) for fields in answer["devices"])
    return tuple(sorted(devices, key=lambda each: (each.id is None, each.id or 0)))


def buffers_of(answer: dict[str, Any]) -> tuple[Buffer, ...]:
    """The buffers of an answer that has them."""
    return tuple(Buffer(row, answer["texts"]) for row in answer["rows"])


def memory_allocated(device: Device = None, kind: str = "dram") -> int:
    """Bytes that this process holds now.

    Equal to what the allocator of ttnn says: `ttnn.get_memory_view`, bytes per bank times banks.

    Args:
        device: a device's number, a device or mesh device of ttnn, or None for all devices. Of
            several devices it is the sum.
        kind: one of `ttmem.KINDS`.
    """
    return sum(figures.bytes for figures in _figures(device, kind))


def max_memory_allocated(device: Device = None, kind: str = "dram") -> int:
    """The most that this process held since it started or since the last reset.

    Of several devices it is the sum of each one's own peak. The devices of a mesh fill up together:
    there it is the peak of the sum.

    Args:
        device: as for `memory_allocated`.
        kind: one of `ttmem.KINDS`.
    """
    return sum(figures.peak_bytes for figures in _figures(device, kind))


def reset_peak_memory_stats(device: Device = None) -> None:
    """Has the peaks of `max_memory_allocated` begin anew at what is held now, for every kind.

    Blocks of `ttmem.track` and the peaks that `ttmem top` shows are not affected.

    Args:
        device: as for `memory_allocated`.
    """
    ids = device_ids(device)
    for each in [_library.ALL_DEVICES] if ids is None else ids:
        _library.ask(_library.RESET, each)


def mem_get_info(device: Device = None, kind: str = "dram") -> tuple[int, int]:
    """Free and total bytes, as this process's allocator has them.

    What other processes hold of the same device is not in it: each has an allocator of its own.

    Args:
        device: as for `memory_allocated`.
        kind: `dram`, `l1`, `l1_small` or `trace`.

    Raises:
        TtmemError: when no such device is open, or the runtime reports no capacity of the kind.
    """
    free = total = 0
    known = False
    for figures in _figures(device, kind):
        if figures.capacity_bytes is not None and figures.free_bytes is not None:
            known = True
            free += figures.free_bytes
            total += figures.capacity_bytes
    if not known:
        raise TtmemError(
            f"the capacity of {kind} is not known: open the device first; cb, kernel and "
            "system have none"
        )
    return free, total


def memory_summary(device: Device = None) -> str:
    """A table of what this process holds, for people.

    Args:
        device: as for `memory_allocated`.
    """
    snapshot = memory_snapshot(max_buffers=MAX_ROWS)
    ids = device_ids(device)
    chosen = tuple(each for each in snapshot.devices if ids is None or each.id in ids)
    return summary_of(chosen, snapshot)


def memory_snapshot(*, max_buffers: int = MAX_ROWS) -> Snapshot:
    """What this process holds, with its largest buffers and the lines that placed them.

    Args:
        max_buffers: how many buffers to list.
    """
    return Snapshot(_library.ask(_library.SNAPSHOT, 0, max(0, min(max_buffers, 2**32 - 1))))


def mark(name: str, number: int = 0) -> None:
    """Sets a mark, from which on `ttmem top` and the read API show peaks and growth, too.

    Args:
        name: what begins here, for example `step`.
        number: which one it is.
    """
    _library.set_mark(name, number)


def device_ids(device: Device) -> list[int] | None:
    """The numbers of the devices that are meant; None for all.

    Raises:
        TypeError: when it is no device.
    """
    if device is None:
        return None
    if isinstance(device, int) and not isinstance(device, bool):
        return [device]
    # First: the `id` of a mesh device is its own, and no device's.
    of_mesh = getattr(device, "get_device_ids", None)
    if callable(of_mesh):
        return [int(each) for each in of_mesh()]
    own = getattr(device, "id", None)
    if callable(own):
        return [int(own())]
    raise TypeError(
        f"device must be a number, a device or mesh device of ttnn, or None, not {device!r}"
    )


def _figures(device: Device, kind: str) -> list[KindFigures]:
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    ids = device_ids(device)
    devices = devices_of(_library.ask(_library.FIGURES))
    return [each.kinds[kind] for each in devices if ids is None or each.id in ids]


def summary_of(devices: tuple[DeviceMemory, ...], snapshot: Snapshot) -> str:
    """The table of `memory_summary`."""
    lines = []
    for device in devices:
        lines.append(f"device {device.id}  {device.board or ''}".rstrip())
        head = f"  {'kind':<14}{'held':>12}{'peak':>12}{'capacity':>12}{'used':>8}{'count':>9}"
        lines.append(head)
        for kind, figures in device.kinds.items():
            if figures.bytes or figures.peak_bytes or figures.capacity_bytes:
                lines.append(_summary_line(kind, figures))
    if not devices:
        lines.append("no device was opened")
    top = list(snapshot.by_line().items())[:10]
    if top:
        lines.append("largest, by line")
        lines += [f"  {_sizes.text(size):>12}  {line}" for line, size in top]
    if snapshot.lost_events:
        lines.append(f"INCOMPLETE: {snapshot.lost_events} events were lost")
    if snapshot.untracked:
        lines.append(f"not tracked: {', '.join(snapshot.untracked)}")
    return "\n".join(lines)


def _summary_line(kind: str, figures: KindFigures) -> str:
    capacity = used = "–"
    if figures.capacity_bytes:
        capacity = _sizes.text(figures.capacity_bytes)
        used = f"{100 * figures.bytes / figures.capacity_bytes:.1f} %"
    held, peak = _sizes.text(figures.bytes), _sizes.text(figures.peak_bytes)
    return f"  {kind:<14}{held:>12}{peak:>12}{capacity:>12}{used:>8}{figures.count:>9}"
