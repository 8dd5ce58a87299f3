"""What the programs of this folder share: how they are started, and a little work on a device.

Each is run twice, plain and under `ttmem run`, as `PROGRAM RESULT EXPECTED WORDS...`. What it
tells goes line by line into the file RESULT and must be the same both times. What the report of
the tracked run must say goes into EXPECTED: values by their JSON pointer.
"""

import ctypes
import json
import os
import sys

import ttnn

L1_SMALL_SIZE = 32 * 1024

# Flushing takes milliseconds, unless the machine is busy.
FLUSH_MILLIS = 60_000


class Run:
    """This run of the program."""

    def __init__(self):
        self.result, self.expected, *self.words = sys.argv[1:]

    def tell(self, name, value):
        """A fact that must be the same both times; written at once, whatever comes next."""
        line = json.dumps({name: value}, sort_keys=True) + "\n"
        file = os.open(self.result, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            # One call: children of the program write here as well.
            os.write(file, line.encode())
        finally:
            os.close(file)

    def expect(self, values, pids=None):
        """What the report must say; and whose processes it must know, by default this one's."""
        expected = {"values": values, "pids": sorted(pids or [os.getpid()])}
        with open(self.expected, "w", encoding="utf-8") as file:
            json.dump(expected, file)


def open_device():
    device = ttnn.open_device(device_id=0, l1_small_size=L1_SMALL_SIZE)
    settle()
    return device


def settle():
    """Waits, if this process is tracked, until the server knows it.

    The connection is made by a thread of its own: a process that ended within its first
    milliseconds would not have been seen. What is done later needs no waiting for.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "ttmem_attach_flush"):
        code = library.ttmem_attach_flush(ctypes.c_uint32(FLUSH_MILLIS))
        if code != 0:
            raise RuntimeError(f"ttmem_attach_flush: {code}")


def zeros(device, side, memory=ttnn.DRAM_MEMORY_CONFIG, dtype=ttnn.bfloat16):
    """A square tensor that is filled on the host and sent."""
    shape = [1, 1, side, side]
    return ttnn.zeros(
        shape, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory
    )


def held_bytes(device, kind):
    """What the allocator says that it holds of a class."""
    view = ttnn.get_memory_view(device, kind)
    return view.total_bytes_allocated_per_bank * view.num_banks
