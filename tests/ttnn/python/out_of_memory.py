"""Asks for more than there is, catches the refusal, and goes on.

Memory runs out in each way it can: a request above a bank, a full class, a class with enough
left but not in one piece. After each, what could be allocated before still can.
"""

import re

import ttmem_account
import ttnn
from tensors import OUT_OF_MEMORY, empty, fill, height_sharded, small_sharded
from ttmem_check import CLASSES, Arguments, Check, close_board, equal, open_board

# What the allocator says then; our report of it must have the same figures.
REFUSAL = re.compile(
    r"Not enough space to allocate (?P<requested_bytes>\d+) B (?P<class>\w+) buffer"
    r" across \d+ banks, where each bank needs to store (?P<per_bank_bytes>\d+) B, but bank size is"
    r" (?P<bank_bytes>\d+) B \(allocated: \d+ B, free: (?P<free_bytes>\d+) B,"
    r" largest free block: (?P<largest_free_bytes>\d+) B\)"
)

def compare_refusal(check, name):
    """Our report of the last refusal against its text."""
    figures = REFUSAL.search(check.last_refusal).groupdict()
    class_name = figures.pop("class")
    expected = {key: int(value) for key, value in figures.items()}
    expected["class"] = CLASSES[class_name]
    ttmem_account.flush()
    ours = check.account.last_event("allocation_failed")
    equal(f"{name} is reported", ours is not None, True)
    for key, value in expected.items():
        equal(f"{name}: {key} of the failure", ours[key], value)


def free_every_other(live):
    for tensor in live[::2]:
        ttnn.deallocate(tensor)
    del live[::2]


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    dram, l1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
    check = Check()
    check.watch(device)

    def survive(name, shape, memory, layout=ttnn.TILE_LAYOUT):
        """A request that must be refused, and a small one that must not be."""
        refused = check.refused
        check.step(name, lambda: empty(device, shape, memory, layout=layout), (OUT_OF_MEMORY,))
        if check.refused == refused:
            raise AssertionError(f"{name}: it was not refused")
        compare_refusal(check, name)
        kept = check.step(f"{name}, and go on", lambda: empty(device, [1, 1, 32, 32], dram))
        ttnn.deallocate(kept)

    survive("more than dram", [1, 1, 65536, 524288], dram)
    survive("more than l1", [1, 1, 16384, 16384], l1)
    tall = [1, 1, 32 * 1024, 1024]
    survive("shards larger than a core", tall, height_sharded(tall))
    # Six rows of 16 KiB on each core: three times what the small region has.
    small = small_sharded(6, 8192)
    survive("more than the small region", [1, 1, 24, 8192], small, ttnn.ROW_MAJOR_LAYOUT)

    for name, memory, shape in (("dram", dram, [1, 1, 16384, 16384]), ("l1", l1, [1, 1, 512, 512])):
        live = check.step(f"fill {name}", lambda: fill(device, shape, memory))
        check.step(f"holes in {name}", lambda: free_every_other(live))
        double = shape[:2] + [shape[2] * 2, shape[3]]
        survive(f"{name} in pieces", double, memory)
        check.step(f"fill the holes of {name}", lambda: live.extend(fill(device, shape, memory)))
        check.step(f"free {name}", live.clear)
        check.step(f"fill {name} again", lambda: live.extend(fill(device, shape, memory)))
        check.step(f"free {name} again", live.clear)

    close_board(device, arguments)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
