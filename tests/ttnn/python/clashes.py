"""Runs operations whose circular or dataflow buffers meet tensors in L1, and survives.

The runtime finds that out after the output was allocated. The output must be gone from the
account, and the clash be told with the cores and the addresses that the refusal has. Programs
of our own ask for what no operation does: storage that differs by core, beyond L1, and on
cores that dispatch has.
"""

import re

import ttmem_account
import ttnn
from tensors import fill, zeros
from ttmem_check import GRID_REFUSALS, Arguments, Check, close_board, equal, open_board

MEETS_BUFFER = "clash with L1 buffers"
BEYOND_L1 = "beyond max L1 size"
OUTSIDE_GRID = "exceeds device compute grid"
CORNERS = ("x_first", "y_first", "x_last", "y_last")
RANGE = r"\[(?P<x_first>\d+)-(?P<y_first>\d+) - (?P<x_last>\d+)-(?P<y_last>\d+)\]"
# The kinds of clashes with the texts in which the runtime tells of them: on a range of cores,
# where the storage would end, and the buffer or the end of L1 that it meets.
REFUSALS = {
    "l1_buffer": re.compile(
        rf"{MEETS_BUFFER} on core range {RANGE}. L1 buffers? allocated at (?P<limit>\d+)"
        r" and static .* region ends at (?P<region_end>\d+)"
    ),
    "beyond_l1": re.compile(
        rf"on core range {RANGE} grow to (?P<region_end>\d+) B which is {BEYOND_L1} of"
        r" (?P<limit>\d+) B"
    ),
    "outside_grid": re.compile(rf"core range {RANGE} in program \d+ {OUTSIDE_GRID}"),
}
TILE_BYTES = 2048


def count_cores(corners):
    """The cores of a range: our events tell their number."""
    x_first, y_first, x_last, y_last = (int(corners[name]) for name in CORNERS)
    return (x_last - x_first + 1) * (y_last - y_first + 1)


def refuse(check, name, action, kind, others=()):
    """Takes a step that must be refused, and compares our report of it with its text.

    Where the operation is refused for what is said in `others` there is nothing to compare.
    """
    refused = check.refused
    check.step(name, action, (MEETS_BUFFER, BEYOND_L1, *others))
    equal(f"{name}: refused", check.refused, refused + 1)
    if not any(text in check.last_refusal for text in others):
        compare_clash(check, name, kind, check.last_refusal)


def core_of_dispatch(device):
    """A worker beside the grid: dispatch takes a row of Wormhole, a column of Blackhole."""
    grid = device.compute_with_storage_grid_size()
    return (grid.x, 0) if device.arch() == ttnn.Arch.BLACKHOLE else (0, grid.y)


def refuse_outside(check, device):
    """As `refuse`, of storage on a core of dispatch: that is an anomaly in the account as well."""
    outside = [(((0, 0), core_of_dispatch(device)), TILE_BYTES)]
    try:
        own_program(device, outside, 0)
    except RuntimeError as refusal:
        ttmem_account.flush()
        compare_clash(check, "cores of dispatch", "outside_grid", str(refusal))
        return
    raise AssertionError("a core of dispatch: it was not refused")


def compare_clash(check, name, kind, refusal):
    """Our report of a clash against the text of its refusal."""
    figures = REFUSALS[kind].search(refusal).groupdict()
    corners = {name: figures.pop(name) for name in CORNERS}
    ours = check.account.last_event("clashed")
    equal(f"{name} is reported", ours is not None, True)
    equal(f"{name}: why", ours["kind"], kind)
    equal(f"{name}: the cores", ours["cores"], count_cores(corners))
    for key, value in figures.items():
        equal(f"{name}: {key}", ours[key], int(value))


def own_program(device, storage, kernel_on):
    """Runs a program that does nothing with circular buffers on ranges of cores.

    `storage` has their corners and their sizes. The kernel is on the first so many ranges: one
    that runs must have it wherever it has storage.
    """
    buffers, ranges = [], []
    for number, (corners, size) in enumerate(storage):
        first, last = (ttnn.CoreCoord(*corner) for corner in corners)
        cores = ttnn.CoreRangeSet({ttnn.CoreRange(first, last)})
        ranges.append(ttnn.CoreRange(first, last))
        form = ttnn.CBFormatDescriptor(number, ttnn.bfloat16, TILE_BYTES)
        buffers.append(
            ttnn.CBDescriptor(total_size=size, core_ranges=cores, format_descriptors=[form])
        )
    kernel = ttnn.KernelDescriptor(
        kernel_source="void kernel_main() {}",
        source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE,
        core_ranges=ttnn.CoreRangeSet(set(ranges[:kernel_on])),
        config=ttnn.ReaderConfigDescriptor(),
    )
    program = ttnn.ProgramDescriptor(kernels=[kernel], semaphores=[], cbs=buffers)
    tensors = [zeros(device, [1, 1, 32, 32], ttnn.DRAM_MEMORY_CONFIG) for _ in range(2)]
    ttnn.generic_op(tensors, program)


def wide_rows(device):
    return zeros(
        device, [1, 1, 2, 1 << 20], ttnn.DRAM_MEMORY_CONFIG, layout=ttnn.ROW_MAJOR_LAYOUT
    )


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
    # The second range is the first that is refused, and the third ends above it.
    uneven = [
        (((0, 0), (1, 0)), 2 * TILE_BYTES),
        (((2, 0), (4, 0)), 32 * TILE_BYTES),
        (((5, 0), (5, 4)), 64 * TILE_BYTES),
    ]
    for number in range(2):
        # 8 KiB of each bank at a time leave less than either operation needs.
        live = check.step("fill l1", lambda: fill(device, [1, 1, 512, 512], ttnn.L1_MEMORY_CONFIG))
        for name, operation in operations.items():
            refuse(check, f"{name} clash", operation, "l1_buffer")
        refuse(check, "uneven clash", lambda: own_program(device, uneven, 3), "l1_buffer")
        check.step("make room", live.clear)
        for name, operation in operations.items():
            check.step(f"{name} with room, time {number}", operation)
        check.step("uneven with room", lambda: own_program(device, uneven, 3))

    large = [uneven[0], (((1, 0), (2, 2)), 2048 * TILE_BYTES)]
    refuse(check, "large circular buffers", lambda: own_program(device, large, 1), "beyond_l1")
    # Its rows of 2 MiB are copied whole.
    wide = check.step("create wide", lambda: wide_rows(device))
    refuse(check, "large dataflow buffers", lambda: ttnn.clone(wide), "beyond_l1", GRID_REFUSALS)
    check.step("go on", operations["circular buffers"])
    # Elsewhere the mock has no core beside the grid.
    if arguments.is_one_chip:
        refuse_outside(check, device)
    close_board(device, arguments)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
