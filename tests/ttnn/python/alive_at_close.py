"""Closes a board with tensors alive, opens it again, and closes it once more.

The runtime says nothing of each tensor then: it drops its allocators. The account must be empty
all the same, and say what had been alive.
"""

import os

import ttmem_account
import ttnn
from tensors import empty, height_sharded, zeros
from ttmem_check import (
    CLASSES,
    AccountsDiffer,
    Arguments,
    Check,
    close_board,
    equal,
    open_board,
)

TIMES = 3
SHARDED_SHAPE = [1, 1, 512, 64]


def hold(device):
    """Tensors of several kinds, and the program of an operation."""
    a = zeros(device, [1, 1, 256, 256], ttnn.DRAM_MEMORY_CONFIG)
    return [
        a,
        ttnn.add(a, a),
        empty(device, [1, 1, 64, 64], ttnn.L1_MEMORY_CONFIG),
        empty(device, SHARDED_SHAPE, height_sharded(SHARDED_SHAPE)),
    ]


def check_closed(name, leaked_buffers):
    """Nothing is charged, and what was alive is told."""
    ttmem_account.flush()
    snapshot = ttmem_account.Account().snapshot()
    try:
        for device in snapshot["devices"]:
            for word in CLASSES.values():
                figures = device[word]
                equal(f"device {device['id']} {word}", figures["charged_bytes"], 0)
                equal(f"device {device['id']} {word} buffers", figures["buffers"], 0)
        own = [process for process in snapshot["processes"] if process["pid"] == os.getpid()]
        equal("processes with this pid", len(own), 1)
        equal("anomalies", own[0]["anomalies"], 0)
        equal("buffers alive at close", own[0]["leak_candidates"]["buffers"], leaked_buffers)
    except AccountsDiffer as difference:
        raise AccountsDiffer(f"after {name}: {difference}") from None


def main():
    arguments = Arguments.of_command_line()
    check = Check()
    leaked_buffers = 0
    for number in range(1, TIMES + 1):
        device = open_board(arguments)
        check.watch(device)
        held = check.step("hold", lambda: hold(device))
        check.step("free one", lambda: ttnn.deallocate(held.pop()))
        leaked_buffers += len(held)
        close_board(device, arguments)
        check_closed(f"close number {number}", leaked_buffers)
        # The tensors outlive their device; their end must not be booked a second time.
        held.clear()
        check_closed(f"the end of the tensors of close number {number}", leaked_buffers)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
