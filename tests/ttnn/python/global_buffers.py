"""Runs a program whose circular buffers lie inside of a global one.

A global circular buffer is two L1 buffers: its memory and its settings. A program's circular
buffers inside of it are told, with the place of that memory, and take none of their own.
"""

import ttnn
from tensors import zeros
from ttmem_check import Arguments, Check, close_board, equal, open_board

GLOBAL_BYTES = 16 * 1024
# The cores that read from DRAM, and those that each of them sends to.
SENDERS = [(0, 0), (0, 1)]
RECEIVERS_OF_ONE = 2
SHARD = [64, 64]


def cores(*corners):
    first, last = (ttnn.CoreCoord(x, y) for x, y in corners)
    return ttnn.CoreRangeSet({ttnn.CoreRange(first, last)})


def sharded(layout, memory, grid, shape):
    shards = ttnn.ShardSpec(grid, shape, ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(layout, memory, shards)


def global_circular_buffer(device):
    mapping = [
        (ttnn.CoreCoord(x, y), cores((x + 1, y), (x + RECEIVERS_OF_ONE, y))) for x, y in SENDERS
    ]
    return ttnn.create_global_circular_buffer(device, mapping, GLOBAL_BYTES)


def inputs(device):
    """A tensor in a bank for each sender, and the addresses that the senders read."""
    banks = cores((0, 0), (len(SENDERS) - 1, 0))
    by_width, by_height = (
        ttnn.TensorMemoryLayout.WIDTH_SHARDED,
        ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
    )
    in_dram = sharded(by_width, ttnn.BufferType.DRAM, banks, SHARD)
    in_l1 = sharded(by_height, ttnn.BufferType.L1, cores(SENDERS[0], SENDERS[-1]), [1, 1])
    weights = zeros(device, [1, 1, SHARD[0], SHARD[1] * len(SENDERS)], in_dram)
    addresses = zeros(device, [len(SENDERS), 1], in_l1, ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT)
    return [weights, addresses]


def occupied(check):
    """What is taken of L1, on each device."""
    return [device["l1"]["occupied_bytes"] for device in check.account.snapshot()["devices"]]


def is_inside(storage, buffer):
    """Whether per-core storage lies in a buffer."""
    begin, end = buffer["address"], buffer["address"] + buffer["per_bank_bytes"]
    return begin <= storage["address"] and storage["address"] + storage["size_bytes"] <= end


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)

    global_cb = check.step("create", lambda: global_circular_buffer(device))
    made = check.account.rows("buffers")
    named = [row["operation"] for row in made]
    equal("buffers of a global circular buffer", named, ["GlobalCircularBuffer"] * 2)
    tensors = check.step("create inputs", lambda: inputs(device))
    without = occupied(check)
    for number in range(2):
        result = check.step(
            f"prefetch, time {number}", lambda: ttnn.dram_prefetcher(tensors, 1, global_cb)
        )
        rows = check.account.rows("cbs")
        in_buffers = [row for row in rows if row["kind"] == "global"]
        # One for each device is all of the global one, and others are in it or in a tensor.
        whole = [row for row in in_buffers if row["size_bytes"] == GLOBAL_BYTES]
        equal("circular buffers that are the global one", len(whole), len(device.get_device_ids()))
        held = [row for row in check.account.rows("buffers") if row["class"] == "l1"]
        for row in in_buffers:
            around = [buffer["id"] for buffer in held if is_inside(row, buffer)]
            equal(f"buffers around {row['cb']} of program {row['program']}", len(around), 1)
        for row in whole:
            around = [buffer["id"] for buffer in made if is_inside(row, buffer)]
            equal("the global one is in its own memory", len(around), 1)
        # The rest is the program's own.
        own = {chip: 0 for chip in device.get_device_ids()}
        for row in rows:
            if row["kind"] != "global":
                for chip in row["device_ids"]:
                    own[chip] += row["total_bytes"]
        more = [now - before for now, before in zip(occupied(check), without)]
        equal("more taken of L1", more, [own[chip] for chip in sorted(own)])
        result.deallocate()
    check.step("free", tensors.clear)
    close_board(device, arguments)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
