"""Runs operations whose circular or dataflow buffers meet tensors in L1, and survives.

The runtime finds that out after the output was allocated. The output must be gone from the
account, and the clash be told with the two addresses that the refusal has.
"""

import re

import ttnn
from tensors import fill, zeros
from ttmem_check import Arguments, Check, close_board, equal, open_board

CLASH = "clash with L1 buffers"
# An L1 buffer, and the end of what the program wants to place below it.
ADDRESSES = re.compile(r"L1 buffers? allocated at (\d+) and static .* region ends at (\d+)")


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    a = check.step(
        "create", lambda: zeros(device, [1, 1, 1024, 1024], ttnn.DRAM_MEMORY_CONFIG)
    )
    operations = {
        "circular buffers": lambda: ttnn.add(a, a),
        "dataflow buffers": lambda: ttnn.softmax(a, -1),
    }
    for number in range(2):
        # 8 KiB of each bank at a time leave less than either operation needs.
        live = check.step("fill l1", lambda: fill(device, [1, 1, 512, 512], ttnn.L1_MEMORY_CONFIG))
        for name, operation in operations.items():
            refused = check.refused
            check.step(f"{name} clash", operation, (CLASH,))
            equal(f"{name} clash", check.refused, refused + 1)
            limit, region_end = (int(n) for n in ADDRESSES.search(check.last_refusal).groups())
            ours = check.account.last_event("clashed")
            equal(f"{name} clash is reported", ours is not None, True)
            equal(f"{name} clash: the end of the region", ours["region_end"], region_end)
            equal(f"{name} clash: the buffer it meets", ours["limit"], limit)
        check.step("make room", live.clear)
        for name, operation in operations.items():
            check.step(f"{name} with room, time {number}", operation)
    close_board(device, arguments)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
