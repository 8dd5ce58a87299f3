"""Uses the small region of L1; the report must recommend as much of it as was needed."""

import ttnn
from behaviour import Run, open_device, zeros

ROWS, COLUMNS, CORES = 2, 1024, 4
BYTES_OF_BFLOAT16 = 2


def small(device):
    """Sharded, as the small region asks for: so many rows on each core."""
    grid = ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(CORES - 1, 0))
    shards = ttnn.ShardSpec(
        ttnn.CoreRangeSet({grid}), [ROWS, COLUMNS], ttnn.ShardOrientation.ROW_MAJOR
    )
    layout = ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    memory = ttnn.MemoryConfig(layout, ttnn.BufferType.L1_SMALL, shards)
    return ttnn.empty(
        [1, 1, ROWS * CORES, COLUMNS],
        dtype=ttnn.bfloat16,
        layout=ttnn.ROW_MAJOR_LAYOUT,
        device=device,
        memory_config=memory,
    )


def main():
    run = Run()
    device = open_device()
    first, second = small(device), small(device)
    run.tell("shapes", [list(first.shape), list(second.shape)])
    needed = 2 * ROWS * COLUMNS * BYTES_OF_BFLOAT16
    view = ttnn.get_memory_view(device, ttnn.BufferType.L1_SMALL)
    run.tell("held of a bank", view.total_bytes_allocated_per_bank)
    if view.total_bytes_allocated_per_bank != needed:
        raise AssertionError(f"{view.total_bytes_allocated_per_bank} are held, not {needed}")
    del first, second
    in_l1 = zeros(device, 512, ttnn.L1_MEMORY_CONFIG)
    del in_l1
    ttnn.close_device(device)
    run.expect(
        {
            "/regions/0/name": "l1_small_size",
            "/regions/0/enough": needed,
            "/devices/0/peak_bytes/l1": 512 * 512 * BYTES_OF_BFLOAT16,
            "/devices/0/peak_bytes/trace": 0,
        }
    )


if __name__ == "__main__":
    main()
