"""Runs cached programs on other tensors: what lies inside of tensors must move with them.

The runtime gives a cached program the addresses of its new tensors without a word to anybody.
"""

import os

import ttmem_account
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


def run_on_no_cores(check, device):
    """Runs a program of which some circular buffers are on no cores.

    Group norm on one row of cores has such. Its others are reported as those of any program, and
    what is run after it must be followed as if it had never run.
    """
    shape, grid = [1, 1, 100, 512], ttnn.CoreGrid(y=1, x=8)
    tensor = zeros(device, shape, ttnn.DRAM_MEMORY_CONFIG)

    def one_row():
        return ttnn.group_norm(
            tensor,
            num_groups=32,
            inplace=False,
            memory_config=ttnn.DRAM_MEMORY_CONFIG,
            core_grid=grid,
        )

    result = check.step("group_norm on one row", one_row)
    again = check.step("group_norm on one row, again", one_row)
    rows = check.account.rows("cbs")
    equal("circular buffers on no cores", [row for row in rows if row["total_bytes"] == 0], [])
    equal("others of the same program", any(row["kind"] == "local" for row in rows), True)
    equal("what lies inside of tensors", ttmem_account.is_on("circular buffers in tensors"), True)
    return result, again


def run_unseen(check, device):
    """Runs cached programs whose circular buffers were placed unseen.

    They were placed before the process was forked, or while nothing was told. None of them lies
    inside of a tensor, so none may be told as such, or at all.
    """
    a = zeros(device, SQUARE, ttnn.DRAM_MEMORY_CONFIG)
    ttnn.add(a, a)
    ttmem_account.flush()
    locals_told = [row for row in check.account.rows("cbs") if row["kind"] == "local"]
    equal("the parent's circular buffers are told", locals_told != [], True)
    pid = os.fork()
    if pid == 0:
        ttnn.add(a, a)
        ttmem_account.flush()
        is_sent = check.account.last_event("dispatched") is not None
        is_told = check.account.rows("cbs") != []
        # Not as usual: ttnn would close the device of the parent.
        os._exit(2 * is_told + (not is_sent))
    _pid, status = os.waitpid(pid, 0)
    equal("a child has told of circular buffers (2) or sent nothing (1)", status >> 8, 0)
    equal("a child was killed", status & 0xFF, 0)
    library = ttmem_account.preloaded()
    library.ttmem_attach_pause(1)
    ttnn.multiply(a, a)
    library.ttmem_attach_pause(0)
    before = check.account.rows("cbs")
    ttnn.multiply(a, a)
    ttmem_account.flush()
    equal("what was placed while paused is told", check.account.rows("cbs"), before)


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    refusals = () if arguments.is_one_chip else GRID_REFUSALS
    moved = 0
    if arguments.is_one_chip:
        run_on_no_cores(check, device)
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
    check.step("clear the program cache", device.clear_program_cache)
    if arguments.is_one_chip:
        run_unseen(check, device)
    close_board(device, arguments)
    check.write_summary(arguments, f"{moved} inside of the right tensors")


if __name__ == "__main__":
    main()
