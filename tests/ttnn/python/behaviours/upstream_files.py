"""Tells what the runtime itself writes to shared memory of its devices, and how much it says.

The board has an id that no other run has, so the file of its chip is this program's alone.
"""

import os
import re
import struct

import ttnn
from behaviour import Run, open_device, zeros

# Names of the totals in the file, each of eight bytes.
TOTALS = ("dram", "l1", "l1_small", "trace", "cb")
TOTALS_OFFSET = 48


def file_of_chip():
    """The file of the only chip of the board, by its unique id."""
    with open(os.environ["TT_METAL_MOCK_CLUSTER_DESC_PATH"], encoding="utf-8") as descriptor:
        (chip,) = re.findall(r"chip_unique_ids:\n  0: (\d+)\n", descriptor.read())
    return f"/dev/shm/tt_device_{chip}_memory"


def figures(path):
    """The totals of a file, or that there is none."""
    if not os.path.exists(path):
        return "no file"
    with open(path, "rb") as file:
        content = file.read()
    totals = struct.unpack_from(f"<{len(TOTALS)}Q", content, TOTALS_OFFSET)
    return [len(content), dict(zip(TOTALS, totals))]


def main():
    run = Run()
    path = file_of_chip()
    run.tell("before", figures(path))
    device = open_device()
    run.tell("open", figures(path))
    a = zeros(device, 1024)
    b = zeros(device, 256, ttnn.L1_MEMORY_CONFIG)
    run.tell("tensors", figures(path))
    ttnn.softmax(ttnn.add(a, a), -1)
    run.tell("operations", figures(path))
    del a, b
    run.tell("freed", figures(path))
    ttnn.close_device(device)
    run.tell("closed", figures(path))
    run.expect({"/exit_code": 0, "/anomalies": 0})


if __name__ == "__main__":
    main()
