"""Figures of this process: what it holds, its peaks, and the buffers behind them."""

from __future__ import annotations

from . import _account, _library
from ._account import KindFigures, PeakLine, Snapshot
from ._errors import TtmemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._account import Device, KindOrType

MAX_ROWS = 10_000
# More than any program has; each takes some hundred bytes of an answer.
_ALL_ROWS = 2**31
# As the server has it for all marks.
_MAX_MARK = 128


def memory_allocated(device: Device = None, kind: KindOrType = "dram") -> int:
    """Bytes that this process holds now.

    Equal to what the allocator of ttnn says: `ttnn.get_memory_view`, bytes per bank times banks.

    Args:
        device: a device's number, a device or mesh device of ttnn, or None for all devices. Of
            several devices it is the sum.
        kind: one of `ttmem.KINDS`, or a `ttnn.BufferType`.

    Raises:
        TtmemError: when this process never opened such a device.
    """
    return sum(figures.bytes for figures in _figures(device, kind))


def max_memory_allocated(device: Device = None, kind: KindOrType = "dram") -> int:
    """The most that this process held since it started or since the last reset.

    Of several devices it is the sum of each one's own peak. The devices of a mesh fill up together:
    there it is the peak of the sum.

    Args:
        device: as for `memory_allocated`.
        kind: as for `memory_allocated`.
    """
    return sum(figures.peak_bytes for figures in _figures(device, kind))


def peak_lines(device: Device = None, kind: KindOrType = "dram") -> tuple[PeakLine, ...]:
    """What was held at the peak of `max_memory_allocated`, by line, the most first.

    At most 50 lines of each device. Of several devices it is what each held at its own peak.

    Args:
        device: as for `memory_allocated`.
        kind: a kind of buffers: not `cb` or `kernel`.
    """
    return _account.peak_lines_of(_library.ask(_library.PEAKS, 0, MAX_ROWS), device, kind)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Has the peaks of `max_memory_allocated` begin anew at what is held now, for every kind.

    Blocks of `ttmem.track` and the peaks that `ttmem top` shows are not affected.

    Args:
        device: as for `memory_allocated`.
    """
    ids = _account.device_ids(device)
    if ids is None:
        _library.ask(_library.RESET, _library.ALL_DEVICES)
        return
    _account.chosen(_account.devices_of(_library.ask(_library.FIGURES)), ids)
    for each in ids:
        _library.ask(_library.RESET, each)


def mem_get_info(device: Device = None, kind: KindOrType = "dram") -> tuple[int, int]:
    """Free and total bytes, as this process's allocator has them.

    What other processes hold of the same device is not in it: each has an allocator of its own.

    Args:
        device: as for `memory_allocated`.
        kind: `dram`, `l1`, `l1_small` or `trace`, or a `ttnn.BufferType`.

    Raises:
        TtmemError: when no such device is open, or the runtime reports no capacity of the kind.
    """
    name, ids = _account.kind_of(kind), _account.device_ids(device)
    if name in ("system", "cb", "kernel"):
        raise ValueError(f"{name} has no capacity: only dram, l1, l1_small and trace have one")
    devices = _account.chosen(_account.devices_of(_library.ask(_library.FIGURES)), ids)
    if not devices:
        raise TtmemError("this process has not opened a device yet; open one first")
    opened = [each for each in devices if each.is_open]
    closed = [each for each in devices if not each.is_open]
    if not opened or (ids is not None and closed):
        numbers = ", ".join(str(each.id) for each in closed)
        raise TtmemError(f"device {numbers} is closed: there is no allocator to ask; open it first")
    free = total = 0
    for each in opened:
        figures = each.kinds[name]
        if figures.capacity_bytes is None or figures.free_bytes is None:
            raise TtmemError(f"the runtime has not reported the capacity of {name} of device {each.id}")
        free += figures.free_bytes
        total += figures.capacity_bytes
    return free, total


def memory_summary(device: Device = None) -> str:
    """A table of what this process holds, for people.

    Args:
        device: as for `memory_allocated`.
    """
    return _account.summary_of(memory_snapshot(device))


def memory_snapshot(device: Device = None, *, max_buffers: int = MAX_ROWS) -> Snapshot:
    """What this process holds, with its largest buffers and the lines that placed them.

    Args:
        device: as for `memory_allocated`.
        max_buffers: how many buffers to list; `buffer_count` counts them all.
    """
    most = max(0, min(max_buffers, _ALL_ROWS))
    asked = most if device is None else _ALL_ROWS
    return Snapshot(_library.ask(_library.SNAPSHOT, 0, asked), device, most)


def mark(name: str, number: int = 0) -> None:
    """Sets a mark, from which on `ttmem top` and the read API show peaks and growth, too.

    Args:
        name: what begins here, for example `step`: at most 128 characters on one line.
        number: which one it is.
    """
    check_name(name)
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"the number of a mark must be an int, not {number!r}")
    if not 0 <= number < 2**64:
        raise ValueError(f"the number of a mark must be 0 or more and below 2**64, not {number}")
    _library.set_mark(name, number)


def check_name(name: object) -> None:
    """Refuses what is no name of a mark; `ttmem mark` has the same limits.

    Raises:
        TypeError: when it is no text.
        ValueError: when it is too long or not of one line.
    """
    if not isinstance(name, str):
        raise TypeError(f"a name must be a str, not {name!r}")
    if len(name) > _MAX_MARK or any(ord(c) < 32 or 127 <= ord(c) < 160 for c in name):
        raise ValueError(
            f"a name has at most {_MAX_MARK} characters, none of them a control character: {name!r:.60}"
        )


def _figures(device: Device, kind: KindOrType) -> list[KindFigures]:
    name, ids = _account.kind_of(kind), _account.device_ids(device)
    devices = _account.chosen(_account.devices_of(_library.ask(_library.FIGURES)), ids)
    return [each.kinds[name] for each in devices]
