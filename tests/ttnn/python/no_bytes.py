"""Asks for tensors without bytes, in every class and layout.

They take nothing, are told of nowhere, and nobody divides by the pages that they do not have.
"""

import ttnn
from tensors import dram_sharded, empty, zeros
from ttmem_check import CLASSES, Arguments, Check, close_board, equal, open_board

SHAPES = ([0], [1, 1, 0, 32], [1, 1, 32, 0], [0, 1, 32, 32])
SHARD = [32, 32]


def sharded(kind, layout):
    """Shards on four cores."""
    grid = ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(3, 0))
    cores = ttnn.CoreRangeSet({grid})
    shards = ttnn.ShardSpec(cores, SHARD, ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(layout, kind, shards)


def held(device):
    """What the allocator holds of each class, of every bank."""
    kinds = {name: getattr(ttnn.BufferType, name) for name in CLASSES}
    views = {name: ttnn.get_memory_view(device, kind) for name, kind in kinds.items()}
    return {name: view.total_bytes_allocated_per_bank for name, view in views.items()}


def requests(device):
    """Every way to ask for nothing that ttnn lets pass."""
    layouts = {"tiles": ttnn.TILE_LAYOUT, "rows": ttnn.ROW_MAJOR_LAYOUT}
    memories = {"dram": ttnn.DRAM_MEMORY_CONFIG, "l1": ttnn.L1_MEMORY_CONFIG}
    for layout_name, layout in layouts.items():
        for memory_name, memory in memories.items():
            for shape in SHAPES:
                name = f"{shape} of {layout_name} in {memory_name}"
                yield name, lambda: empty(device, shape, memory, layout=layout)
        kinds = [ttnn.BufferType.L1, ttnn.BufferType.L1_SMALL]
        height = ttnn.TensorMemoryLayout.HEIGHT_SHARDED
        memories_of_shards = {kind.name: sharded(kind, height) for kind in kinds}
        memories_of_shards["DRAM"], _banks = dram_sharded(device, height, SHARD)
        for name, memory in memories_of_shards.items():
            name = f"shards of {layout_name} in {name}"
            yield name, lambda: empty(device, [1, 1, 0, 32], memory, layout=layout)
    rows = zeros(device, [1, 1, 64, 64], ttnn.DRAM_MEMORY_CONFIG, layout=ttnn.ROW_MAJOR_LAYOUT)
    yield "a slice", lambda: ttnn.slice(rows, [0, 0, 0, 0], [1, 1, 0, 64])


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    for name, request in requests(device):
        before = held(device)
        tensor = check.step(name, request)
        equal(f"{name} takes something", held(device), before)
        check.step(f"{name} is given back", lambda: ttnn.deallocate(tensor))
        del tensor
    close_board(device, arguments)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
