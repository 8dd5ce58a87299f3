"""Answers of the account: devices, buffers, lines at peaks."""

from __future__ import annotations

from . import _frames, _sizes
from ._errors import TtmemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Literal, Protocol, Union

    class HasId(Protocol):
        """A device of ttnn."""

        def id(self) -> int: ...

    class HasDeviceIds(Protocol):
        """A mesh device of ttnn; of late releases a single device is one, too."""

        def get_device_ids(self) -> Iterable[int]: ...

    class HasName(Protocol):
        """`ttnn.BufferType`."""

        @property
        def name(self) -> str: ...

    Device = Union[int, HasId, HasDeviceIds, None]
    Kind = Literal["dram", "l1", "l1_small", "trace", "system", "cb", "kernel"]
    KindOrType = Union[
        Kind, Literal["DRAM", "L1", "L1_SMALL", "TRACE", "SYSTEM", "CB", "KERNEL"], HasName
    ]

KINDS: tuple[Kind, ...] = ("dram", "l1", "l1_small", "trace", "system", "cb", "kernel")
"""What `kind` may be. `cb` and `kernel` are what all live programs have registered on the cores."""


class KindFigures:
    """One kind of memory on one device, in bytes."""

    __slots__ = {
        "bytes": "What this process holds.",
        "peak_bytes": "The most it held since the start or the last reset; in a block, since its begin.",
        "capacity_bytes": "What the allocator can hand out; None where there is none, or not known.",
        "count": "Buffers, circular buffers or kernels.",
    }

    def __init__(self, fields: dict[str, Any]) -> None:
        self.bytes: int = fields["bytes"]
        self.peak_bytes: int = fields["peak_bytes"]
        self.capacity_bytes: int | None = fields["capacity_bytes"]
        self.count: int = fields["count"]

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

    __slots__ = {
        "id": "The number that ttnn gives the device.",
        "unique_id": "The number of its chip, the same in every process; None if it is not known.",
        "board": "The board that it is on, such as `n150`.",
        "is_open": "Whether this process has it open.",
        "kinds": "Figures by kind: the names of `ttmem.KINDS`.",
    }

    def __init__(self, fields: dict[str, Any]) -> None:
        self.id: int | None = fields["id"]
        self.unique_id: str | None = fields["unique_id"]
        self.board: str | None = fields["board"]
        self.is_open: bool = fields["is_open"]
        self.kinds: dict[Kind, KindFigures] = {
            kind: KindFigures(figures) for kind, figures in fields["kinds"].items()
        }

    def __repr__(self) -> str:
        held = ", ".join(f"{k} {v!r}" for k, v in self.kinds.items() if v.bytes or v.peak_bytes)
        return f"<device {self.id} ({self.board or 'board not known'}): {held or 'nothing'}>"


# Between a line and the one that called it.
CALLED_FROM = ", called from "


class Placed:
    """What was placed by an operation, at a line of Python."""

    __slots__ = {
        "operation": "The operation of ttnn that placed it; None where it is not known.",
        "stack": "The Python stack behind it as `file:line function`, innermost frame first.",
    }

    def __init__(self, text: str) -> None:
        operation, *stack = text.split("\n")
        self.operation: str | None = operation or None
        self.stack: tuple[str, ...] = tuple(stack)

    @property
    def line(self) -> str | None:
        """The line of your code that placed it, as `/path/model.py:57`.

        None where lines are not recorded: `ttmem run` and `ttmem.attach()` record them.
        """
        frame = _frames.user_frame(self.stack)
        return None if frame is None else _frames.place(frame)

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines of your code behind it, innermost first: a helper, and who called it.

        A comprehension and the function that it stands in are one line.
        """
        return tuple(_frames.place(each) for each in _frames.users_frames(self.stack))

    @property
    def origin(self) -> str:
        """`/path/helper.py:3, called from /path/model.py:57`, or the operation, where known."""
        return self.called_from(2) or self.operation or "not known"

    def called_from(self, most: int) -> str | None:
        """The line, and so many lines in all; None where none is known."""
        lines = self.lines[:most] or ((self.line,) if self.line else ())
        return CALLED_FROM.join(lines) or None


class Buffer(Placed):
    """A live buffer, or one that was when its device was closed."""

    __slots__ = {
        "kind": "The kind of memory: one of `ttmem.KINDS`.",
        "address": "Its address in every bank.",
        "bytes": "What the allocator takes for it on each of its devices.",
        "requested_bytes": "What the program asked for, on each of its devices.",
        "layout": "How it lies in the banks: `interleaved`, `height sharded` and so on.",
        "devices": "The numbers of its devices.",
        "order": "The event of this process that placed it: no two buffers have the same.",
        "is_closed": "Whether it was held when its device was closed, and went with it.",
        "is_binary": "Whether it is the binary of a program, which ttnn keeps in its program cache.",
    }

    def __init__(self, fields: dict[str, Any], texts: dict[str, str]) -> None:
        super().__init__(texts.get(str(fields["text"]), ""))
        self.kind: Kind = fields["kind"]
        self.address: int = fields["address"]
        self.bytes: int = fields["bytes"]
        self.requested_bytes: int = fields["requested_bytes"]
        self.layout: str = fields["layout"]
        self.devices: tuple[int | None, ...] = tuple(fields["devices"])
        self.order: int = fields["order"]
        self.is_closed: bool = fields["is_closed"]
        self.is_binary: bool = fields["is_binary"]

    @property
    def total_bytes(self) -> int:
        """What it takes on all its devices together."""
        return self.bytes * len(self.devices)

    def __repr__(self) -> str:
        operation = f" of {self.operation}" if self.operation else ""
        line = f" at {self.line}" if self.line else ""
        on = f" on each of {len(self.devices)} devices" if len(self.devices) > 1 else ""
        return f"<{_sizes.text(self.bytes)} of {self.kind}{on}{operation}{line}>"


class PeakLine(Placed):
    """Buffers of one line that were held at a peak."""

    __slots__ = {
        "bytes": "What they took, on all devices that were asked about.",
        "count": "How many there were; a buffer of several devices counts on each.",
        "is_before": "Whether they were placed before the block began.",
    }

    def __init__(self, text: str, is_before: bool) -> None:
        super().__init__(text)
        self.bytes = 0
        self.count = 0
        self.is_before = is_before

    def __repr__(self) -> str:
        operation = f"{self.operation} at " if self.operation else ""
        before = ", from before" if self.is_before else ""
        return f"<{_sizes.text(self.bytes)} in {self.count}: {operation}{self.origin}{before}>"


class Snapshot:
    """What this process holds at one moment; a notebook shows it as bars."""

    __slots__ = {
        "devices": "The devices that were asked about.",
        "buffers": "The largest buffers on them, largest first: at most `max_buffers`.",
        "buffer_count": "All their live buffers, also those that are not listed.",
        "buffer_bytes": "What these take on the devices.",
        "lost_events": "Reports that were lost: if this is not 0, no figure here can be relied on.",
        "untracked": "What is not tracked of this release of ttnn.",
        "_ids": "",
    }

    def __init__(self, answer: dict[str, Any], device: Device, max_buffers: int) -> None:
        self._ids = device_ids(device)
        self.devices: tuple[DeviceMemory, ...] = chosen(devices_of(answer), self._ids)
        buffers = buffers_of(answer)
        self.buffer_count: int = answer["row_count"]
        self.buffer_bytes: int = answer["row_bytes"]
        if self._ids is not None:
            buffers = tuple(
                sorted((each for each in buffers if self._on(each)), key=lambda each: -self._on(each))
            )
            self.buffer_count = len(buffers)
            self.buffer_bytes = sum(self._on(each) for each in buffers)
        self.buffers: tuple[Buffer, ...] = buffers[:max_buffers]
        self.lost_events: int = answer["lost_events"]
        self.untracked: tuple[str, ...] = tuple(answer["untracked"])

    def _on(self, buffer: Buffer) -> int:
        """Bytes of a buffer on the devices that were asked about."""
        if self._ids is None:
            return buffer.total_bytes
        return buffer.bytes * sum(each in self._ids for each in buffer.devices)

    def by_line(self) -> dict[str, int]:
        """Bytes of the listed buffers by the line that placed them, most first.

        A line that your code calls from several places has an entry for each:
        `/path/helper.py:3, called from /path/model.py:57`.
        """
        sums: dict[str, int] = {}
        for buffer in self.buffers:
            sums[buffer.origin] = sums.get(buffer.origin, 0) + self._on(buffer)
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def __repr__(self) -> str:
        held, devices = _sizes.text(self.buffer_bytes), len(self.devices)
        return f"<{self.buffer_count} buffers, {held} on {devices} device{'s'[: devices != 1]}>"

    def __str__(self) -> str:
        return summary_of(self)

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


def peak_lines_of(
    answer: dict[str, Any], device: Device, kind: KindOrType
) -> tuple[PeakLine, ...]:
    """The lines at the peaks of an answer that has them, over the devices that are meant.

    Raises:
        TtmemError: when it is no longer known what was held.
    """
    name, ids = kind_of(kind), device_ids(device)
    if name in ("cb", "kernel"):
        raise ValueError(f"{name} belongs to programs: buffers have lines")
    chosen(devices_of(answer), ids)
    found: dict[tuple[str, bool], PeakLine] = {}
    for fields in answer["devices"]:
        figures = fields["kinds"][name]
        if (ids is not None and fields["id"] not in ids) or not figures["peak_bytes"]:
            continue
        if "peak_lines" not in figures:
            raise TtmemError(
                "what was held at this peak is no longer known: too many blocks were open at once"
            )
        for line in figures["peak_lines"]:
            text = answer["texts"].get(str(line["text"]), "")
            entry = found.setdefault((text, line["is_before"]), PeakLine(text, line["is_before"]))
            entry.bytes += line["bytes"]
            entry.count += line["count"]
    return tuple(sorted(found.values(), key=lambda each: -each.bytes))


def kind_of(kind: KindOrType) -> Kind:
    """A kind by its name in any case, or as `ttnn.BufferType` has it.

    Raises:
        ValueError: when there is no such kind.
    """
    name = kind if isinstance(kind, str) else getattr(kind, "name", None)
    small = name.lower() if isinstance(name, str) else None
    if small == "system_memory":
        small = "system"
    for each in KINDS:
        if small == each:
            return each
    raise ValueError(f"kind must be one of {', '.join(KINDS)} or a ttnn.BufferType, not {kind!r}")


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


def chosen(devices: tuple[DeviceMemory, ...], ids: list[int] | None) -> tuple[DeviceMemory, ...]:
    """Those that are meant.

    Raises:
        TtmemError: when one of them is not known.
    """
    if ids is None:
        return devices
    known = [each.id for each in devices]
    missing = [str(each) for each in ids if each not in known]
    if missing:
        numbers = ", ".join(str(each) for each in known if each is not None)
        has = f"it has opened {numbers}" if numbers else "it has not opened any yet"
        raise TtmemError(f"this process has no device {', '.join(missing)}: {has}")
    return tuple(each for each in devices if each.id in ids)


def summary_of(snapshot: Snapshot) -> str:
    """The table of `memory_summary`."""
    lines = []
    for device in snapshot.devices:
        closed = "" if device.is_open else "  (closed)"
        lines.append(f"device {device.id}  {device.board or ''}".rstrip() + closed)
        head = f"  {'kind':<14}{'held':>12}{'peak':>12}{'capacity':>12}{'used':>8}{'count':>9}"
        lines.append(head)
        for kind, figures in device.kinds.items():
            if figures.bytes or figures.peak_bytes or figures.capacity_bytes:
                lines.append(_summary_line(kind, figures))
    if not snapshot.devices:
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
