"""Work on a device while no more than some MiB of address space can be had, as
`PROGRAM RESULT MIB`.

Ends with 0, or with 3 where ttnn is refused memory and says so. It may also die of that: then so
it does without us.
"""

import os
import resource
import sys

import ttnn

ROUNDS = 2000
KEPT = 500


def mapped_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def work(device):
    kept = []
    for number in range(ROUNDS):
        side = 32 * (1 + number % 4)
        a = ttnn.zeros([1, 1, side, side], ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
        b = ttnn.add(a, a)
        kept.append(ttnn.multiply(a, b))
        if number % 100 == 0:
            ttnn.matmul(a, b)
        if len(kept) == KEPT:
            kept.clear()


def main():
    _result, mib = sys.argv[1:]
    device = ttnn.open_device(device_id=0)
    limit = mapped_bytes() + (int(mib) << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        work(device)
    except (MemoryError, RuntimeError):
        os._exit(3)
    ttnn.close_device(device)


if __name__ == "__main__":
    main()
