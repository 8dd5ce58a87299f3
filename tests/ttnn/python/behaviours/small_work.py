"""A little work on a device; what is told of it depends on who is asked.

The words say which: `report` for the report of `ttmem run`, `snapshot` for a running server's
answer. With `own-library`, a library of the user's is preloaded and must work as it does alone.
"""

import ctypes
import os

import ttnn
from behaviour import Run, held_bytes, open_device, zeros


def main():
    run = Run()
    if "own-library" in run.words:
        own = ctypes.CDLL(None)
        run.tell("the own library answers", own.users_own_answer())
        entries = os.environ["LD_PRELOAD"].split(":")
        run.tell("preloaded last", os.path.basename(entries[-1]))
    device = open_device()
    a = zeros(device, 512)
    b = ttnn.add(a, a)
    held = held_bytes(device, ttnn.BufferType.DRAM)
    del a, b
    ttnn.close_device(device)
    run.tell("held", held)
    if "snapshot" in run.words:
        run.expect({"/devices/0/dram/peak_bytes": held, "/devices/0/dram/charged_bytes": 0})
    else:
        run.expect({"/exit_code": 0, "/devices/0/peak_bytes/dram": held, "/anomalies": 0})


if __name__ == "__main__":
    main()
