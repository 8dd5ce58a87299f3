"""Creates and frees tensors in every layout and class of memory, in several orders."""

import ttnn
from tensors import (
    block_sharded,
    dram_sharded,
    empty,
    height_sharded,
    small_sharded,
    width_sharded,
    zeros,
)
from ttmem_check import Arguments, Check, close_board, open_board


def kinds(device):
    """What is created, by name: a way to make it, with all that it needs."""
    dram, l1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
    row_major = ttnn.ROW_MAJOR_LAYOUT
    square = [1, 1, 1024, 1024]
    height, width, block = [1, 1, 1024, 128], [1, 1, 128, 1024], [1, 1, 512, 512]
    banks_width, banks = dram_sharded(device, ttnn.TensorMemoryLayout.WIDTH_SHARDED, (64, 96))
    banks_height, _ = dram_sharded(device, ttnn.TensorMemoryLayout.HEIGHT_SHARDED, (32, 64))
    return {
        "dram": lambda: zeros(device, square, dram),
        "dram, empty": lambda: empty(device, square, dram),
        "dram, bfloat8_b": lambda: zeros(device, [1, 32, 128, 128], dram, ttnn.bfloat8_b),
        "dram, float32, padded tiles": lambda: zeros(device, [3, 5, 33, 65], dram, ttnn.float32),
        "dram, uint32": lambda: zeros(device, [1, 1, 96, 96], dram, ttnn.uint32),
        "dram, row major": lambda: zeros(device, [1, 1, 64, 100], dram, layout=row_major),
        "dram, one row": lambda: zeros(device, [1, 1, 1, 7], dram, layout=row_major),
        "dram, width sharded": lambda: empty(device, [1, 1, 64, 96 * banks], banks_width),
        "dram, height sharded": lambda: empty(device, [1, 1, 32 * banks, 64], banks_height),
        "l1": lambda: zeros(device, square, l1),
        "l1, float32": lambda: zeros(device, [2, 3, 70, 70], l1, ttnn.float32),
        "l1, row major": lambda: zeros(device, [1, 1, 77, 33], l1, layout=row_major),
        "l1, height sharded": lambda: zeros(device, height, height_sharded(height)),
        "l1, width sharded": lambda: zeros(device, width, width_sharded(width)),
        "l1, block sharded": lambda: zeros(device, block, block_sharded(block)),
        "l1 small": lambda: empty(
            device, [1, 1, 64, 32], small_sharded(16, 32), layout=row_major
        ),
    }


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    makers = kinds(device)

    # Each alone, so that a difference is its own.
    for name, make in makers.items():
        tensor = check.step(f"create {name}", make)
        check.step(f"free {name}", lambda: ttnn.deallocate(tensor))

    # All at once; every other one freed leaves holes; what is created then fills them.
    live = {name: check.step(f"create {name} with others", make) for name, make in makers.items()}
    for name in list(live)[::2]:
        check.step(f"free {name} among others", lambda: ttnn.deallocate(live.pop(name)))
    for name, make in reversed(makers.items()):
        live[f"{name}, again"] = check.step(f"create {name} into holes", make)

    # By the end of the last reference, without a call that frees.
    for name in list(live):
        check.step(f"forget {name}", lambda: live.pop(name) and None)

    close_board(device, arguments)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
