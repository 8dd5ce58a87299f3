"""Opens a board again and again, with its cores of dispatch in a row, then in a column.

The grid that is left to compute on is another each time. Programs of one opening lie outside of the
grid of the other: each must be seen on the grid that it was opened with, also when that comes back.
Where ttnn has them in columns only, the grid stays, and so must ours.
"""

import ttnn
from tensors import zeros
from ttmem_check import (
    GRID_REFUSALS,
    Arguments,
    Check,
    close_board,
    equal,
    open_board,
)

SHAPE = [1, 1, 512, 512]
TIMES = 2


def grid_of(device):
    size = device.compute_with_storage_grid_size()
    return size.x, size.y


def compare_grid(check, device):
    """The cores of each chip are those that ttnn computes on."""
    columns, rows = grid_of(device)
    for chip in device.get_device_ids():
        told = check.account.get(f"/api/v1/l1map/{chip}")
        equal(f"device {chip} grid", (told["columns"], told["rows"]), (columns, rows))
        cores = {(core["x"], core["y"]) for core in told["cores"]}
        every = {(x, y) for x in range(columns) for y in range(rows)}
        equal(f"device {chip} cores", cores, every)


def run(check, device, refusals):
    a, b = (zeros(device, SHAPE, ttnn.DRAM_MEMORY_CONFIG) for _ in range(2))
    for name, operation in {
        "add": lambda: ttnn.add(a, b),
        "matmul": lambda: ttnn.matmul(a, b),
        "softmax": lambda: ttnn.softmax(a, dim=-1),
    }.items():
        check.step(f"{name} on {grid_of(device)}", operation, refusals)
        compare_grid(check, device)


def main():
    arguments = Arguments.of_command_line()
    check = Check()
    refusals = () if arguments.is_one_chip else GRID_REFUSALS
    axes = ttnn.device.DispatchCoreAxis
    has_rows = ttnn.get_arch_name() != "blackhole"
    grids = set()
    for axis in ((axes.ROW, axes.COL) if has_rows else (axes.COL,)) * TIMES:
        config = ttnn.DispatchCoreConfig(axis=axis)
        device = open_board(arguments, dispatch_core_config=config)
        check.watch(device)
        compare_grid(check, device)
        grids.add(grid_of(device))
        run(check, device, refusals)
        close_board(device, arguments)
    check.write_summary(arguments, f"grids {sorted(grids)}")


if __name__ == "__main__":
    main()
