"""The package as a type checker sees it: `cargo xtask types`. It is not run.

What must not pass has a `type: ignore`, which the checker refuses where nothing is wrong.
"""

from __future__ import annotations

import enum

from typing_extensions import assert_type

import ttmem


class Device:
    """As ttnn has it."""

    def id(self) -> int:
        return 0


class BufferType(enum.Enum):
    """As ttnn has it."""

    L1 = 1


class Mesh:
    """As ttnn has it."""

    def get_device_ids(self) -> list[int]:
        return [0, 1]


def figures() -> None:
    ttmem.attach()
    ttmem.attach(python_lines=False)
    assert_type(ttmem.is_attached(), bool)
    for device in (None, 0, Device(), Mesh()):
        assert_type(ttmem.memory_allocated(device, kind="l1"), int)
    assert_type(ttmem.max_memory_allocated(Mesh()), int)
    ttmem.reset_peak_memory_stats(Device())
    assert_type(ttmem.mem_get_info(0), tuple[int, int])
    assert_type(ttmem.memory_summary(), str)
    ttmem.mark("step", 3)
    assert_type(ttmem.memory_allocated(kind="L1"), int)
    assert_type(ttmem.memory_allocated(kind=BufferType.L1), int)
    for kind in ttmem.KINDS:
        assert_type(ttmem.memory_allocated(kind=kind), int)
    assert_type(ttmem.peak_lines(0, "l1"), tuple[ttmem.PeakLine, ...])
    ttmem.memory_allocated(kind="bogus")  # type: ignore[arg-type]
    ttmem.memory_allocated("0")  # type: ignore[arg-type]
    ttmem.memory_allocated(0, 1)  # type: ignore[arg-type]
    ttmem.mark(3)  # type: ignore[arg-type]


def snapshot() -> None:
    taken = ttmem.memory_snapshot(0, max_buffers=10)
    assert_type(taken, ttmem.Snapshot)
    assert_type(taken.by_line(), dict[str, int])
    for device in taken.devices:
        assert_type(device.id, "int | None")
        assert_type(device.kinds["dram"].bytes, int)
        assert_type(device.kinds["dram"].free_bytes, "int | None")
    for buffer in taken.buffers:
        assert_type(buffer, ttmem.Buffer)
        assert_type(buffer.line, "str | None")
        assert_type(buffer.lines, tuple[str, ...])
    taken.no_such_figure  # type: ignore[attr-defined]


@ttmem.track("step")
def step(number: int) -> str:
    return str(number)


def block() -> None:
    with ttmem.track("step", mark=True, collect=True) as tracked:
        pass
    assert_type(tracked, ttmem.Track)
    assert_type(tracked.peak["dram"], int)
    tracked.peak["bogus"]  # type: ignore[index]
    tracked.peek  # type: ignore[attr-defined]
    for point in tracked.timeline:
        assert_type(point.time, int)
        assert_type(point.held["dram"], int)
        point["time"]  # type: ignore[index]
    for line in tracked.peak_lines("l1", Mesh()):
        assert_type((line.bytes, line.line), "tuple[int, str | None]")
    assert_type(tracked.leaked, tuple[ttmem.Buffer, ...])
    assert_type(tracked.leaked_bytes, int)
    assert_type(step(1), str)
    step("1")  # type: ignore[arg-type]
    try:
        ttmem.memory_allocated()
    except ttmem.NotAttachedError as error:
        told: ttmem.TtmemError = error
        print(told)
