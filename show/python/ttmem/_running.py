"""A test of pytest at work: what it takes itself, and what it leaves behind."""

from __future__ import annotations

from . import _baseline, _sizes
from ._errors import TtmemError
from ._track import Track

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._account import Buffer, DeviceMemory, Kind, PeakLine, Placed

    # What each figure may be, and whether it is a mark that says so.
    Limits = dict[str, tuple[int, bool]]

# The kinds that an allocator has on the device.
KINDS: tuple[Kind, ...] = ("dram", "l1", "l1_small", "trace")
# Lines that are named of what one test left behind.
LINES = 10
# Lines of a stack that are named: a helper, and who called it.
CALLERS = 3
# Buffers of one test that are looked at.
MAX_LEAKED = 10_000


class Running:
    """A test at work: what it takes itself, whatever else is held and whoever ran before it."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.whole = Track(name, mark=False, collect=False, max_leaked=MAX_LEAKED).__enter__()
        self.part = self.new_part()
        self.limits = limits
        # What is not the test's own.
        self.base = _held(self.part.devices_before)
        self.peaks = dict.fromkeys(KINDS, 0)
        # Of peaks that are too high: what the test itself held at them.
        self.peak_lines: dict[Kind, tuple[PeakLine, ...]] = {}
        # Events of fixtures that outlive the test: the last before and the last in each.
        self.longer_lived: list[tuple[int, int]] = []
        # Devices that were open when last asked.
        self.opened = _opened(self.part.devices_before)

    def is_ours(self) -> bool:
        """Whether the test began in this process."""
        return self.whole.is_ours()

    @staticmethod
    def new_part() -> Track:
        return Track("", mark=False, collect=False, max_leaked=0).__enter__()

    def end_part(self) -> None:
        if any(name.startswith("peak_") for name in self.limits):
            self.explain_peaks(self.part.devices)
        self.part.__exit__(None, None, None)
        for device in self.part.devices:
            for kind in KINDS:
                self.peaks[kind] = max(self.peaks[kind], self.own_peak(device, kind))

    def own_peak(self, device: DeviceMemory, kind: Kind) -> int:
        return device.kinds[kind].peak_bytes - self.base.get((device.id, kind), 0)

    def explain_peaks(self, devices: tuple[DeviceMemory, ...]) -> None:
        """Asks for the lines at peaks that are too high, before the part that knows them ends."""
        for kind in KINDS:
            allowed, _of_mark = self.limits.get(f"peak_{kind}", (None, False))
            highest = max(devices, key=lambda each: self.own_peak(each, kind), default=None)
            if allowed is None or highest is None:
                continue
            if self.own_peak(highest, kind) > max(allowed, self.peaks[kind]):
                try:
                    lines = self.part.peak_lines(kind, highest.id)
                except TtmemError:
                    lines = ()
                self.peak_lines[kind] = tuple(each for each in lines if not each.is_before)

    def begin_longer_lived(self) -> None:
        """What a fixture takes that outlives the test is not the test's."""
        self.end_part()

    def end_longer_lived(self) -> None:
        before, self.part = self.part, self.new_part()
        self.longer_lived.append((before.last_order, self.part.first_order))
        held = _held(before.devices)
        for key, now in _held(self.part.devices_before).items():
            self.base[key] = self.base.get(key, 0) + now - held.get(key, 0)

    def has_opened(self, devices: tuple[DeviceMemory, ...]) -> bool:
        """Whether there is a device that was not open when last asked."""
        before, self.opened = self.opened, _opened(devices)
        return not self.opened <= before

    def collect(self) -> None:
        """Has Python's garbage collector run, if only it may know what is still held.

        It takes longer than most tests: only a test that seems to leak has it run.
        """
        if any(not each.is_closed for each in self.left()):
            import gc

            gc.collect()

    def left(self) -> list[Buffer]:
        """What was placed by the test and is held, or was when its device was closed."""
        return [each for each in self.whole.held_so_far() if self.is_own(each)]

    def end(self) -> tuple[dict[str, int], list[Buffer]]:
        """What the test took and left behind."""
        self.end_part()
        self.collect()
        self.whole.__exit__(None, None, None)
        leaked = [each for each in self.whole.leaked if self.is_own(each)]
        figures = {f"peak_{kind}": peak for kind, peak in self.peaks.items()}
        figures["leaked"] = sum(each.total_bytes for each in leaked)
        return figures, leaked

    def beyond_limits(self, figures: dict[str, int], leaked: list[Buffer]) -> list[str]:
        """What the test took or left behind beyond its limits, with the lines behind it."""
        wrong = []
        for name, (allowed, is_mark) in self.limits.items():
            now = figures[name]
            if now <= allowed:
                continue
            if is_mark:
                said, most = _sizes.texts(now, allowed)
                wrong.append(f"{_baseline.label(name)} {said}, the mark allows {most}")
            else:
                wrong.append(_baseline.difference(name, now, allowed))
            lines = leaked_lines(leaked) if name == "leaked" else []
            for kind in KINDS:
                if name == f"peak_{kind}":
                    lines = _peak_lines(self.peak_lines.get(kind, ()))
            wrong += [f"  {line}" for line in lines]
        return wrong

    def is_own(self, buffer: Buffer) -> bool:
        """Whether it is neither of a fixture that outlives the test nor of the program cache."""
        ranges = self.longer_lived
        is_longer_lived = any(first < buffer.order <= last for first, last in ranges)
        return not is_longer_lived and not buffer.is_binary


def _held(devices: tuple[DeviceMemory, ...]) -> dict[tuple[int | None, str], int]:
    return {(each.id, kind): each.kinds[kind].bytes for each in devices for kind in KINDS}


def _opened(devices: tuple[DeviceMemory, ...]) -> set[int | None]:
    return {each.id for each in devices if each.is_open}


def leaked_lines(leaked: Iterable[Buffer]) -> list[str]:
    """What was left behind, by the line that placed it, the most first."""
    return _lines((f"{each.kind} of {_place(each)}", each.total_bytes, 1) for each in leaked)


def _peak_lines(lines: Iterable[PeakLine]) -> list[str]:
    return _lines((_place(each), each.bytes, each.count) for each in lines)


def _place(placed: Placed) -> str:
    operation = f"{placed.operation} at " if placed.operation else ""
    return operation + (placed.called_from(CALLERS) or "a line that is not known")


def _lines(held: Iterable[tuple[str, int, int]]) -> list[str]:
    sums: dict[str, tuple[int, int]] = {}
    for place, size, count in held:
        before_size, before_count = sums.get(place, (0, 0))
        sums[place] = before_size + size, before_count + count
    ordered = sorted(sums.items(), key=lambda item: -item[1][0])
    lines = [f"{_sizes.text(size)} in {count}: {place}" for place, (size, count) in ordered]
    more = len(lines) - LINES
    return lines if more <= 0 else [*lines[:LINES], f"and {more} more lines"]
