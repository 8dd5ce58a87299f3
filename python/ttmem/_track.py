"""Blocks of a program whose peak, difference and leaks are asked for."""

from __future__ import annotations

import os

from . import _library, _memory, _sizes
from ._errors import TtmemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from ._memory import Buffer, DeviceMemory


class Track:
    """A tracked block: `with ttmem.track("step") as t:`.

    Blocks may be nested, overlap, and run in several threads: each has peaks of its own. All that
    the process does meanwhile counts, whichever thread does it.
    """

    def __init__(self, name: str, *, mark: bool, collect: bool, max_leaked: int) -> None:
        self.name = name
        self._mark = mark
        self._collect = collect
        self._max_leaked = max_leaked
        self._pid = 0
        self._stretch: int | None = None
        self._before: tuple[DeviceMemory, ...] = ()
        self._after: tuple[DeviceMemory, ...] = ()
        self._answer: dict[str, Any] | None = None
        # The last event of the process before the block, and the last one in it.
        self.first_order = self.last_order = 0

    def __enter__(self) -> Track:
        if self._stretch is not None:
            raise TtmemError("this block is open already; make another one")
        if self._mark:
            _memory.mark(self.name)
        answer = _library.ask(_library.BEGIN)
        self._pid, self._stretch = os.getpid(), answer["stretch"]
        self._before, self._answer = _memory.devices_of(answer), None
        self.first_order = answer["order"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._collect and error is None:
            import gc

            gc.collect()
        self._end()

    def _end(self) -> None:
        stretch, self._stretch = self._stretch, None
        # A child of a fork has an account of its own, in which this block never began.
        if stretch is not None and self._pid == os.getpid():
            self._answer = _library.ask(_library.END, stretch, self._max_leaked)
            self._after = _memory.devices_of(self._answer)
            self.last_order = self._answer["order"]

    def __del__(self) -> None:
        if self._stretch is not None:
            try:
                self._end()
            except Exception:  # noqa: BLE001: at the end of the interpreter anything may be gone
                pass

    @property
    def is_open(self) -> bool:
        """Whether the block has not ended."""
        return self._stretch is not None

    @property
    def before(self) -> dict[str, int]:
        """Bytes held at the begin by kind, over all devices."""
        return _sums(self._before, "bytes")

    @property
    def after(self) -> dict[str, int]:
        """Bytes held at the end by kind; inside of the block, now."""
        return _sums(self._devices_now(), "bytes")

    @property
    def peak(self) -> dict[str, int]:
        """The most that was held in the block by kind; of several devices, the sum of their peaks.

        What was held before counts: `t.peak["dram"] - t.before["dram"]` is what the block added.
        """
        return _sums(self._devices_now(), "peak_bytes")

    @property
    def delta(self) -> dict[str, int]:
        """What was held at the end beyond the begin, by kind; less than 0 if it is less."""
        before, after = self.before, self.after
        return {kind: after[kind] - before[kind] for kind in _memory.KINDS}

    @property
    def devices(self) -> tuple[DeviceMemory, ...]:
        """Figures of each device at the end, with the peaks of this block; inside of it, now."""
        return self._devices_now()

    @property
    def devices_before(self) -> tuple[DeviceMemory, ...]:
        """Figures of each device at the begin."""
        return self._before

    @property
    def leaked(self) -> tuple[Buffer, ...]:
        """Buffers that were placed in the block and are still held at its end, largest first.

        Each has the line that placed it. What the block returns or keeps on purpose is among them.

        Raises:
            TtmemError: inside of the block.
        """
        if self._answer is None:
            raise TtmemError("what a block leaves behind is known when it has ended")
        return _memory.buffers_of(self._answer)

    @property
    def leaked_bytes(self) -> int:
        """Their bytes over all devices, also of those beyond the limit of the list."""
        if self._answer is None:
            raise TtmemError("what a block leaves behind is known when it has ended")
        count: int = self._answer["row_bytes"]
        return count

    @property
    def timeline(self) -> list[dict[str, int]]:
        """What was held over time, by kind over all devices: at most some hundred points.

        `time` is in ticks of the process's clock. Between two points no kind was higher than at
        the first of them.
        """
        points: list[dict[str, int]] = [] if self._answer is None else self._answer["timeline"]
        return points

    def _devices_now(self) -> tuple[DeviceMemory, ...]:
        if self._stretch is None or self._pid != os.getpid():
            return self._after
        return _memory.devices_of(_library.ask(_library.FIGURES, self._stretch))

    def __repr__(self) -> str:
        if self._answer is None:
            return f"<ttmem.track {self.name!r}, {'open' if self.is_open else 'not begun'}>"
        kinds = [kind for kind, peak in self.peak.items() if peak]
        parts = [
            f"{kind} peak {_sizes.text(self.peak[kind])}, {_signed(self.delta[kind])}"
            for kind in kinds
        ]
        left = self._answer["row_count"]
        return f"<ttmem.track {self.name!r}: {'; '.join(parts) or 'nothing'}; {left} left behind>"

    def _repr_html_(self) -> str:
        from . import _html

        return _html.block(self)


def track(
    name: str = "", *, mark: bool = False, collect: bool = False, max_leaked: int = 1000
) -> Track:
    """Tracks a block of the program: its peaks, what it adds, and what it leaves behind.

        with ttmem.track("step") as t:
            model(inputs)
        assert t.peak["l1"] < 64 << 20 and not t.leaked

    Args:
        name: how to call it.
        mark: also set a mark of this name, which `ttmem top` shows.
        collect: run Python's garbage collector at the end, so that tensors in reference cycles
            do not count as left behind.
        max_leaked: how many buffers to list.
    """
    return Track(name, mark=mark, collect=collect, max_leaked=max_leaked)


def _sums(devices: tuple[DeviceMemory, ...], figure: str) -> dict[str, int]:
    return {
        kind: sum(getattr(each.kinds[kind], figure) for each in devices) for kind in _memory.KINDS
    }


def _signed(count: int) -> str:
    return ("+" if count >= 0 else "") + _sizes.text(count)
