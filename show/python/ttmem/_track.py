"""Blocks of a program whose peak, difference and leaks are asked for."""

from __future__ import annotations

import os
import time

from . import _account, _library, _memory, _sizes
from ._errors import TtmemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, TypeVar

    from ._account import Buffer, Device, DeviceMemory, Kind, KindOrType, PeakLine

    F = TypeVar("F", bound=Callable[..., Any])


class Point:
    """What was held at a moment of a block, over all devices."""

    __slots__ = {
        "time": "When, in ticks of the process's clock.",
        "held": "Bytes by kind of buffers; until the next point, no kind was higher.",
    }

    def __init__(self, fields: dict[str, int]) -> None:
        self.time = fields["time"]
        self.held: dict[Kind, int] = {kind: fields.get(kind, 0) for kind in _account.KINDS[:5]}

    def __repr__(self) -> str:
        held = ", ".join(f"{kind} {_sizes.text(size)}" for kind, size in self.held.items() if size)
        return f"<{self.time}: {held or 'nothing'}>"


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
        self._begun = self._took = 0.0
        # The last event of the process before the block, and the last one in it.
        self.first_order = self.last_order = 0

    def __enter__(self) -> Track:
        if self._stretch is not None:
            raise TtmemError("this block is open already; make another one")
        if self._pid:
            raise TtmemError("this block has ended; make another one")
        if self._mark:
            _memory.mark(self.name)
        answer = _library.ask(_library.BEGIN)
        self._pid, self._stretch = os.getpid(), answer["stretch"]
        self._before = _account.devices_of(answer)
        self.first_order = answer["order"]
        self._begun = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._require_begun()
        if self._collect and error is None:
            import gc

            gc.collect()
        try:
            self._end()
        except TtmemError:
            # What the program itself raised says more.
            if error is None:
                raise

    def __call__(self, function: F) -> F:
        """Decorates a function: each call is a block, the last of which is `function.tracked`."""
        import functools

        def block_of_call() -> Track:
            return Track(
                self.name, mark=self._mark, collect=self._collect, max_leaked=self._max_leaked
            )

        @functools.wraps(function)
        def tracked(*arguments: Any, **named: Any) -> Any:
            with block_of_call() as block:
                tracked.tracked = block  # type: ignore[attr-defined]
                return function(*arguments, **named)

        return tracked  # type: ignore[return-value]

    def _require_begun(self) -> None:
        if not self._pid:
            raise TtmemError(f"the block {self.name!r} has not begun: `with ttmem.track(…) as t:`")

    def _end(self) -> None:
        stretch, self._stretch = self._stretch, None
        # A child of a fork has an account of its own, in which this block never began.
        if stretch is not None and self._pid == os.getpid():
            self._took = time.monotonic() - self._begun
            self._answer = _library.ask(_library.END, stretch, self._max_leaked)
            self._after = _account.devices_of(self._answer)
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
    def seconds(self) -> float:
        """How long the block took; inside of it, so far."""
        self._require_begun()
        return time.monotonic() - self._begun if self.is_open else self._took

    @property
    def before(self) -> dict[Kind, int]:
        """Bytes held at the begin by kind, over all devices."""
        self._require_begun()
        return _sums(self._before, "bytes")

    @property
    def after(self) -> dict[Kind, int]:
        """Bytes held at the end by kind; inside of the block, now."""
        return _sums(self._devices_now(), "bytes")

    @property
    def peak(self) -> dict[Kind, int]:
        """The most that was held in the block by kind; of several devices, the sum of their peaks.

        What was held before counts: `t.peak["dram"] - t.before["dram"]` is what the block added.
        """
        return _sums(self._devices_now(), "peak_bytes")

    @property
    def delta(self) -> dict[Kind, int]:
        """What was held at the end beyond the begin, by kind; less than 0 if it is less."""
        before, after = self.before, self.after
        return {kind: after[kind] - before[kind] for kind in _account.KINDS}

    @property
    def devices(self) -> tuple[DeviceMemory, ...]:
        """Figures of each device at the end, with the peaks of this block; inside of it, now."""
        return self._devices_now()

    @property
    def devices_before(self) -> tuple[DeviceMemory, ...]:
        """Figures of each device at the begin."""
        return self._before

    def peak_lines(
        self, kind: KindOrType = "dram", device: Device = None
    ) -> tuple[PeakLine, ...]:
        """What was held at the peak of the block, by line, the most first.

        At most 50 lines of each device, with what was there before the block (`is_before`). Of
        several devices it is what each held at its own peak. A block with `max_leaked=0` can be
        asked while it is open.

        Raises:
            TtmemError: when it is not known, because dozens of blocks were open at once.
        """
        self._require_begun()
        answer = self._answer
        if answer is None and self.is_ours():
            answer = _library.ask(_library.PEAKS, self._stretch or 0, _memory.MAX_ROWS)
        elif answer is None or self._max_leaked == 0:
            raise TtmemError("nothing is known of the lines in this block")
        return _account.peak_lines_of(answer, device, kind)

    @property
    def leaked(self) -> tuple[Buffer, ...]:
        """Buffers that were placed in the block and are still held at its end, largest first.

        Each has the line that placed it. What the block returns or keeps on purpose is among them,
        and what was held when its device was closed (`is_closed`).

        Raises:
            TtmemError: inside of the block.
        """
        return _account.buffers_of(self._ended())

    @property
    def leaked_bytes(self) -> int:
        """Their bytes over all devices, also of those beyond the limit of the list."""
        count: int = self._ended()["row_bytes"]
        return count

    def held_so_far(self) -> tuple[Buffer, ...]:
        """What `leaked` would be if the block ended now."""
        if not self.is_ours():
            return ()
        return _account.buffers_of(
            _library.ask(_library.SNAPSHOT, self._stretch or 0, self._max_leaked)
        )

    @property
    def timeline(self) -> tuple[Point, ...]:
        """What was held over time, over all devices: at most some hundred points.

        Between two points no kind was higher than at the first of them. Empty inside of the block.
        """
        return tuple(Point(each) for each in (self._answer or {}).get("timeline", ()))

    def _ended(self) -> dict[str, Any]:
        self._require_begun()
        if self._answer is None:
            raise TtmemError("what a block leaves behind is known when it has ended")
        return self._answer

    def is_ours(self) -> bool:
        """Whether it is open in this process."""
        return self._stretch is not None and self._pid == os.getpid()

    def _devices_now(self) -> tuple[DeviceMemory, ...]:
        self._require_begun()
        if not self.is_ours():
            return self._after
        return _account.devices_of(_library.ask(_library.FIGURES, self._stretch or 0))

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

    It decorates functions, too: after `@ttmem.track("step")` each call is a block.

    Args:
        name: how to call it: at most 128 characters on one line.
        mark: also set a mark of this name, which `ttmem top` shows.
        collect: run Python's garbage collector at the end, so that tensors in reference cycles
            do not count as left behind.
        max_leaked: how many buffers to list.
    """
    _memory.check_name(name)
    if isinstance(max_leaked, bool) or not isinstance(max_leaked, int):
        raise TypeError(f"max_leaked must be an int, not {max_leaked!r}")
    if not 0 <= max_leaked < 2**32:
        raise ValueError(f"max_leaked must be 0 or more and below 2**32, not {max_leaked}")
    return Track(name, mark=mark, collect=collect, max_leaked=max_leaked)


def _sums(devices: tuple[DeviceMemory, ...], figure: str) -> dict[Kind, int]:
    return {
        kind: sum(getattr(each.kinds[kind], figure) for each in devices) for kind in _account.KINDS
    }


def _signed(count: int) -> str:
    return ("+" if count >= 0 else "") + _sizes.text(count)
