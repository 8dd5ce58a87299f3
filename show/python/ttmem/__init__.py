"""Device memory of a ttnn program, asked from inside.

The figures are those of this process's own account: exact at the call, without a server.

    import ttmem
    ttmem.attach()                        # first thing, or start with: ttmem run -- python model.py

    ttmem.memory_allocated()              # bytes of DRAM held now, over all devices
    ttmem.max_memory_allocated(device, kind="l1")
    with ttmem.track("step") as t:
        model(inputs)
    print(t.peak["dram"], t.delta["dram"], t.leaked)

What each call counts is in its docstring; the whole manual, with `pytest --ttmem`, is manual.md in
the folder of the installed package.
"""

from ._account import KINDS, Buffer, DeviceMemory, KindFigures, PeakLine, Snapshot
from ._attach import attach
from ._errors import NotAttachedError, TtmemError
from ._library import is_attached
from ._memory import (
    mark,
    max_memory_allocated,
    mem_get_info,
    memory_allocated,
    memory_snapshot,
    memory_summary,
    peak_lines,
    reset_peak_memory_stats,
)
from ._track import Point, Track, track

__version__ = "0.1.0"

__all__ = [
    "KINDS",
    "Buffer",
    "DeviceMemory",
    "KindFigures",
    "NotAttachedError",
    "PeakLine",
    "Point",
    "Snapshot",
    "Track",
    "TtmemError",
    "attach",
    "is_attached",
    "mark",
    "max_memory_allocated",
    "mem_get_info",
    "memory_allocated",
    "memory_snapshot",
    "memory_summary",
    "peak_lines",
    "reset_peak_memory_stats",
    "track",
]
