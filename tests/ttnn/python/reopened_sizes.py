"""Opens a board again and again, each time with regions of other sizes.

What there is of a class is what the allocators of the open meshes have, in each of them and on each
chip: not the most that any opening had, and nothing of a class that has no region this time.
"""

import ttnn
from tensors import empty, small_sharded, zeros
from ttmem_check import CLASSES, Arguments, Check, close_board, equal, open_board

KIB, MIB = 1 << 10, 1 << 20
# Sizes of the small region of L1 and of that of traces: up, down, and none.
OPENINGS = (
    (0, 0),
    (32 * KIB, MIB),
    (0, 0),
    (64 * KIB, 0),
    (0, 4 * MIB),
    (32 * KIB, MIB),
)


def compare_capacities(check, device):
    """What each chip has of each class, against its allocator."""
    devices = {each["id"]: each for each in check.account.snapshot()["devices"]}
    for class_name, word in CLASSES.items():
        view = ttnn.get_memory_view(device, getattr(ttnn.BufferType, class_name))
        theirs = view.total_bytes_per_bank * view.num_banks
        for chip in device.get_device_ids():
            ours = devices[chip][word]["capacity_bytes"]
            # Nothing is known of a class that was never there, or it is known to be none.
            equal(f"device {chip} {word} capacity", ours or 0, theirs)


def hold(device, l1_small_size):
    held = [
        zeros(device, [1, 1, 256, 256], ttnn.DRAM_MEMORY_CONFIG),
        empty(device, [1, 1, 64, 64], ttnn.L1_MEMORY_CONFIG),
    ]
    if l1_small_size:
        small = small_sharded(6, 64)
        held.append(empty(device, [1, 1, 24, 64], small, layout=ttnn.ROW_MAJOR_LAYOUT))
    return held


def main():
    arguments = Arguments.of_command_line()
    check = Check()
    for l1_small_size, trace_region_size in OPENINGS:
        sizes = {"l1_small_size": l1_small_size, "trace_region_size": trace_region_size}
        device = open_board(arguments, **sizes)
        check.watch(device)
        compare_capacities(check, device)
        held = check.step(f"hold with {sizes}", lambda: hold(device, l1_small_size))
        compare_capacities(check, device)
        check.step("free one", lambda: ttnn.deallocate(held.pop()))
        # The others are alive when the board is closed, and end later.
        close_board(device, arguments)
        held.clear()
    check.write_summary(arguments, f"{len(OPENINGS)} openings")


if __name__ == "__main__":
    main()
