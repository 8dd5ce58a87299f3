"""Runs cached programs on other tensors: what lies inside of tensors must move with them.

The runtime gives a cached program the addresses of its new tensors without a word to anybody.
"""

import ttnn
from operation_kinds import SQUARE, TALL, WIDE
from tensors import SHARD_GRID, block_sharded, empty, height_sharded, width_sharded, zeros
from ttmem_check import GRID_REFUSALS, Arguments, Check, close_board, equal, open_board

INSIDE_TENSORS = ("global", "dataflow_borrowed")
TIMES = 3
LEAST_MOVED = 5 * TIMES


def group_norm(tensor, memory):
    """A program with circular buffers inside of tensors beside others."""
    return ttnn.group_norm(
        tensor, num_groups=4, core_grid=SHARD_GRID, memory_config=memory, inplace=False
    )


def operations(device):
    """Each takes a tensor of its own and gives another: how to make the first, and the call."""
    factor = zeros(device, [1, 1, TALL[-1], TALL[-1]], ttnn.DRAM_MEMORY_CONFIG)
    tall, wide, square = height_sharded(TALL), width_sharded(WIDE), block_sharded(SQUARE)
    return {
        "add tall": (TALL, tall, lambda a: ttnn.add(a, a, memory_config=tall)),
        "add square": (SQUARE, square, lambda a: ttnn.add(a, a, memory_config=square)),
        "gelu wide": (WIDE, wide, lambda a: ttnn.gelu(a, memory_config=wide)),
        "matmul tall": (TALL, tall, lambda a: ttnn.matmul(a, factor, memory_config=tall)),
        "layer_norm square": (SQUARE, square, lambda a: ttnn.layer_norm(a, memory_config=square)),
        "group_norm square": (SQUARE, square, lambda a: group_norm(a, square)),
        "from shards": (SQUARE, square, lambda a: ttnn.sharded_to_interleaved(a)),
    }


def compare_places(check, name, tensors):
    """All that lies inside of tensors lies inside of these, and each L1 tensor has something."""
    rows = [row for row in check.account.rows("cbs") if row["kind"] in INSIDE_TENSORS]
    told = {row["address"] for row in rows}
    addresses = {
        tensor.buffer_address()
        for tensor in tensors
        if tensor.memory_config().buffer_type == ttnn.BufferType.L1
    }
    equal(f"{name}: tensors with storage inside", sorted(told), sorted(addresses))
    return len(rows)


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    refusals = () if arguments.is_one_chip else GRID_REFUSALS
    moved = 0
    for name, (shape, memory, operation) in operations(device).items():
        check.step("clear the program cache", device.clear_program_cache)
        live = []
        for time in range(TIMES):
            # What stays alive pushes the next ones to other addresses.
            live.append(empty(device, shape, memory))
            a = zeros(device, shape, memory)
            result = check.step(f"{name}, time {time}", lambda: operation(a), refusals)
            if result is not None:
                moved += compare_places(check, name, (a, result))
                live += [a, result]
        live.clear()
    # Each operation has at least one tensor with storage inside, each time; a mesh may refuse some.
    equal("enough lies inside of tensors", moved >= LEAST_MOVED, True)
    close_board(device, arguments)
    check.write_summary(arguments, f"{moved} inside of the right tensors")


if __name__ == "__main__":
    main()
